"""Bytes of nodes, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from scribe_spark import RunConfig
from scribe_spark.engine.program import Tables
from scribe_spark.errors import RunError
from scribe_spark.measures.measure import Found, RunTables, Size
from scribe_spark.measures.message_bytes import node_bytes
from scribe_spark.measures.metrics import metric_rows
from scribe_spark.systems import systems_of_run
from scribe_spark.worlds.round_bytes import BYTES_MEASURED, MeasureBytes

ON = {"message_size": "1KB", "control_size": "100B"}
NAMED = ("scribe", "gossipsub")


def test_bytes_of_nodes(spark):
    links = [
        ("scribe", "lan_up", 1, 7, 3),
        ("scribe", "lan_down", 7, 2, 3),
        ("scribe", "core", 7, 8, 9),
        ("gossipsub", "lan_up", 2, 7, 1),
    ]
    copies = [
        ("gossipsub", 1, 2, "payload"),
        ("gossipsub", 1, 2, "IDONTWANT"),
        ("gossipsub", 1, 2, "IHAVE"),
    ]
    control = [("gossipsub", 2, 3, "GRAFT", 2), ("gossipsub", 2, 3, "dial", 5)]
    tables = {
        "nodes": spark.createDataFrame([(1,), (2,), (3,)], "node bigint"),
        "link_stress": spark.createDataFrame(
            links, "system string, kind string, src bigint, dst bigint, packets bigint"
        ),
        "copies": spark.createDataFrame(
            copies, "system string, sender bigint, receiver bigint, kind string"
        ),
        "control": spark.createDataFrame(
            control, "system string, sender bigint, receiver bigint, kind string, messages bigint"
        ),
    }
    systems = tuple(one for one in systems_of_run((), NAMED) if one.name in NAMED)
    run = RunTables(tables, systems, 3, 4, config=RunConfig(**ON, systems=NAMED))
    found = {tuple(row)[:2]: tuple(row)[2:] for row in node_bytes(run).collect()}
    assert found == {
        ("scribe", 1): (3000, 0, 0, 300),
        ("scribe", 2): (0, 3000, 300, 0),
        ("scribe", 3): (0, 0, 0, 0),
        ("gossipsub", 1): (0, 0, 27 + 61, 0),
        ("gossipsub", 2): (1000, 0, 2 * 39 + 500, 27 + 61),
        ("gossipsub", 3): (0, 0, 0, 2 * 39 + 500),
    }


def test_runs_without_sizes_have_no_bytes():
    found, systems = Found(Size(3, 2, 1), 4), systems_of_run((), NAMED)

    def names(config: RunConfig) -> set[str]:
        return {row["name"] for row in metric_rows(found, systems, {}, {}, config)}

    more = names(RunConfig(**ON)) - names(RunConfig())
    assert {name.split(".")[1] for name in more} == {"bytes", "control_bytes", "core_bytes"}
    assert {"scribe.bytes.up.mean", "gossipsub.control_bytes.down.p95"} <= more


class Given:
    """Three nodes in one bucket, of which the second one is dead."""

    bounds = np.array([0, 3])
    facts = SimpleNamespace(ring=SimpleNamespace(node=np.array([7, 5, 6])))
    in_round = SimpleNamespace(alive=np.array([True, False, True]))


def counted(*came: tuple[int, int, int]) -> dict[str, dict[int, int]]:
    """Return how many live nodes have which bytes, by column, from (node, column, bytes)."""
    at, of, sent = np.array(came).T
    tables = Tables.of({})
    measure = MeasureBytes(Given(), {}, (), keeps_messages=False)
    measure.step(0, tables, {"bytes of a node": {"at": at, "of": of, "bytes": sent}}, 1)
    found: dict[str, dict[int, int]] = {}
    rows = tables[BYTES_MEASURED]
    for name, value, count in zip(*(rows[name].tolist() for name in rows), strict=True):
        found.setdefault(name, {})[value] = count
    return found


@pytest.mark.parametrize("large", [2**53, 2**60 + 2**7])
def test_bytes_of_a_round_are_added_exactly(large):
    """A sum of float64 has no odd numbers beyond 2**53."""
    found = counted((0, 0, large), (0, 0, 1), (1, 0, 5), (2, 3, large - 1), (2, 3, 4))
    assert found["payload_up"] == {large + 1: 1, 0: 1}
    assert found["control_down"] == {large + 3: 1, 0: 1}
    assert found["payload_down"] == found["control_up"] == {0: 2}


def test_more_bytes_than_64_bits_hold_end_the_run():
    with pytest.raises(RunError, match=r"^a node has 4\.61e\+18 bytes in a round.*message_size"):
        counted((0, 0, 2**61), (0, 0, 2**61))
