"""Coverage of runs and worlds on Spark, against one event after the other on their deliveries."""

from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from oracle.coverage import Questions, answers, coverage_measures, quorum_time

from scribe_spark import RunConfig, experiments
from scribe_spark.config import Execution

#: Two regions, so that there are classes of delays.
NODES, UP, DOWN = 60, 10_000_000, 4_000_000
GIVEN: dict[str, Any] = {
    "nodes": NODES, "overlay": "perfect", "groups": 4, "regions": "continents",
    "systems": "scribe,gossipsub", "gossipsub_heartbeats": 3, "source": "direct",
    "deadline": "60ms,150ms", "quorum": "2/3", "replies": True, "reply_size": "2KB",
}  # fmt: skip
SIZED = {"message_size": "20KB", "uplink": "10Mbit/s", "downlink": "4Mbit/s"}
SEVERAL = {"publications": 3, "interval": "20ms", "published_by": "members"}
DEADLINES = {"60ms": 60_000, "150ms": 150_000}
WEIGHT = {node: Fraction(node % 7, 2) for node in range(0, NODES, 2)}

pytestmark = pytest.mark.slow


@pytest.fixture
def weights(tmp_path) -> dict[str, str]:
    """Return the setting of a table of weights."""
    path = tmp_path / "weights.csv"
    rows = [f"{node},{float(weight)}\n" for node, weight in WEIGHT.items()]
    path.write_text("node,weight\n" + "".join(rows))
    return {"weights": str(path)}


def tables_of(out: Path, *names: str) -> list[pd.DataFrame]:
    return [pd.read_parquet(out / "tables" / name) for name in names]


def questions(simulation: Any, nodes: pd.DataFrame, sized: bool, weighted: bool) -> Questions:
    """Return the questions, with answers that take the direct way back; of an open simulation."""
    kernel, lan_us = simulation.underlay.kernel, simulation.underlay.lan_us
    router = kernel.index(nodes.sort_values("node")["router"].to_numpy())
    delays = kernel.delays(np.repeat(router, NODES), np.tile(router, NODES))
    direct = (delays.reshape(NODES, NODES) + 2 * lan_us).tolist()
    up, down = (-(-8_000_000 * 2_000 // rate) if sized else 0 for rate in (UP, DOWN))

    def back(node: int, source: int) -> int:
        return direct[node][source] + up

    weight = WEIGHT if weighted else dict.fromkeys(range(NODES), Fraction(1))
    return Questions(DEADLINES, Fraction(2, 3), weight, back, lambda source: down, weighted)


@pytest.mark.parametrize(
    ("more", "weighted"), [({}, True), (SIZED, False), (SIZED | SEVERAL, True), (SEVERAL, False)]
)
def test_runs_equal_an_event_queue(spark, tmp_path, weights, more, weighted):
    config = RunConfig(**GIVEN, **more, **(weights if weighted else {}))
    out = tmp_path / "out"
    execution = Execution(out=str(out), master="local[2]", partitions=2)
    experiments.check(config, execution)
    with experiments.run(spark, config, execution) as done:
        asked = questions(
            done.simulation, *tables_of(out, "nodes"), "message_size" in more, weighted
        )
        metrics = {row["name"]: row["value"] for row in done.metrics()}
    delivered, coverage, quorums, edges, parts, nodes = tables_of(
        out, "deliveries", "coverage", "quorums", "tree_edges", "by_part", "nodes"
    )
    if "publication" in delivered:
        schedule = tables_of(out, "schedule")[0]
        starts = dict(zip(schedule["publication"], schedule["node"], strict=True))
    else:
        delivered["publication"] = delivered["group"]
        tops = edges[edges["system"] == "ip_multicast"]
        starts = dict(zip(tops["group"], tops["parent"], strict=True))
        quorums["publication"] = quorums["group"]
    reached: dict[str, dict] = defaultdict(lambda: {name: {} for name in starts})
    names = "system", "publication", "node", "hops", "delay_ms"
    for system, name, node, hops, ms in delivered[list(names)].itertuples(False, None):
        reached[system][name][node] = hops, round(ms * 1000)
    members = {name: set(came) for name, came in reached["ip_multicast"].items()}
    for system, came in reached.items():
        found = {
            name.removeprefix(f"{system}."): value
            for name, value in metrics.items()
            if name.startswith(f"{system}.") and ".groups" not in name and value is not None
        }
        wanted = coverage_measures(starts, members, came, asked)
        assert {name: found.get(name) for name in wanted} == pytest.approx(wanted, rel=1e-12)
        for row in quorums[quorums["system"] == system].itertuples():
            got = {node: at for node, (_, at) in came[row.publication].items()}
            needed = asked.quorum * sum(asked.weight.get(n, 0) for n in members[row.publication])
            ways = (
                [(at, node) for node, at in got.items()],
                answers(got, starts[row.publication], asked),
            )
            for way, ms in zip(ways, (row.quorum_ms, row.replies_ms), strict=True):
                at = quorum_time(way, needed, asked.weight)
                assert ms == pytest.approx(at / 1000) if at is not None else pd.isna(ms)
    rows = coverage[coverage["system"] == "scribe"]
    assert len(rows) == len(DEADLINES) * len([n for n in starts if members[n]])
    assert coverage["expected_weight"].isna().all() != weighted
    shares = parts[parts["measure"].str.startswith("within_150ms")]
    region = dict(zip(nodes["node"], nodes["region"], strict=True))
    for row in shares.itertuples():
        weight = asked.weight if row.measure.endswith(".weight") else dict.fromkeys(region, 1)
        due = [(p, n) for p, of in members.items() for n in of if region[n] == row.part]
        kept = [(p, n) for p, n in due if reached[row.system][p].get(n, (0, 10**9))[1] <= 150_000]
        total = sum(weight.get(n, 0) for _, n in due)
        assert row.count == len(due)
        assert row.mean == pytest.approx(float(sum(weight.get(n, 0) for _, n in kept) / total))
