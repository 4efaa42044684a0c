"""Bytes of nodes, by hand."""

from __future__ import annotations

from scribe_spark import RunConfig
from scribe_spark.measures.measure import Found, RunTables, Size
from scribe_spark.measures.message_bytes import node_bytes
from scribe_spark.measures.metrics import metric_rows
from scribe_spark.systems import systems_of_run

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
