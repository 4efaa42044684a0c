"""The option withhold: what is refused; and runs and worlds whose nodes forward nothing."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_network import NETWORK, table

from scribe_spark.config import Execution, RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import run, run_world
from scribe_spark.underlay.protocol import withheld_nodes

from .conftest import GROWN

CLASSES = [{"name": "fast", "share": 0.25}, {"name": "slow", "share": 0.75}]


@pytest.mark.parametrize(
    ("withhold", "table", "says"),
    [
        ("0%", None, "must be above 0% and below 100%"),
        ("100%", None, "must be above 0% and below 100%"),
        ("nodes.csv", "node\n3\n60\n", "row 2 has node 60; nodes are 0 to 59"),
        ("nodes.csv", "nodes\n3\n", "needs node"),
        ("nodes.csv", "node\n" + "\n".join(map(str, range(60))), "has all nodes"),
        ("absent.csv", None, "does not exist"),
    ],
)
def test_bad_nodes_are_refused(withhold, table, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if table is not None:
        (tmp_path / withhold).write_text(table)
    with pytest.raises(InputError, match=says) as caught:
        withheld_nodes(RunConfig(**GROWN, withhold=withhold))
    assert str(caught.value).startswith(f"withhold = {withhold!r}: ")


def test_a_share_and_a_class_are_drawn_by_node():
    nodes = np.arange(20_000)
    drawn = withheld_nodes(RunConfig(withhold="12.5 %")).of_nodes(nodes)
    assert drawn.mean() == pytest.approx(0.125, abs=0.01)
    config = RunConfig(withhold="fast", classes=CLASSES)
    fast = withheld_nodes(config.replace(nodes=len(nodes)))
    assert len(fast) / len(nodes) == pytest.approx(0.25, abs=0.01)
    with pytest.raises(InputError, match="is the class of all nodes"):
        withheld_nodes(config.replace(classes=[{"name": "fast", "share": 1.0}]))


SIZES = {"message_size": "10KB", "uplink": "50Mbit/s"}

#: GossipSub's meshes do not reach all members if a part of them forwards nothing.
THIN = {
    **{"gossipsub_d": 2, "gossipsub_d_low": 1, "gossipsub_d_high": 2, "gossipsub_d_out": 0},
    "gossipsub_flood_publish": False,
}


def play_trees(spark, config: RunConfig, out: Path) -> None:
    """Write the tables of a run but for measures."""
    how, phases = Execution(out=str(out), engine="tasks"), ("topology", "overlay", "trees")
    run(spark, config, how, phases=phases).close()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, SIZES])
def test_trees_of_a_run_end_at_nodes_that_withhold(spark, tmp_path, sizes):
    """What is reached is what a walk down the trees of the same run without the option reaches."""
    silent = set(range(0, 60, 4))
    pd.DataFrame({"node": sorted(silent)}).to_csv(tmp_path / "nodes.csv", index=False)
    config = RunConfig(**GROWN | {"variants": "plain", "systems": "scribe,bayeux"}, **sizes)
    for name, given in (
        ("all", config),
        ("some", config.replace(withhold=str(tmp_path / "nodes.csv"))),
    ):
        play_trees(spark, given, tmp_path / name)
    edges, wanted = table(tmp_path / "all", "tree_edges"), table(tmp_path / "all", "deliveries")
    found = table(tmp_path / "some", "deliveries")
    for system in ("scribe", "bayeux"):
        below = defaultdict(list)
        for row in edges[edges["system"] == system].itertuples():
            below[row.group, row.parent].append(row.child)
        mine, seen = wanted[wanted["system"] == system], set()
        for group in mine["group"].unique():
            children = {child for (of, _), some in below.items() if of == group for child in some}
            tops = {node for of, node in below if of == group} - children
            waiting = list(tops)
            while waiting:
                node = waiting.pop()
                seen.add((group, node))
                if node not in silent or node in tops:  # the root is the source
                    waiting += below[group, node]
        reached = set(map(tuple, found[found["system"] == system][["group", "node"]].to_numpy()))
        members = set(map(tuple, mine[["group", "node"]].to_numpy()))
        assert reached == members & seen
        assert len(members) // 4 < len(reached) < len(members)
    assert len(found[found["system"] == "ip_multicast"]) == len(members)


def test_nodes_of_a_run_announce_unless_they_withhold_all(spark, tmp_path):
    given = {"nodes": 60, "groups": 3, "systems": "gossipsub", "withhold": "40%"}
    config = RunConfig(**NETWORK, **given, **SIZES, **THIN, overlay="perfect")
    silent = withheld_nodes(config)
    sent = {}
    for kind in ("payload", "all"):
        out = tmp_path / kind
        play_trees(spark, config.replace(withhold_kind=kind), out)
        copies, sources = table(out, "copies"), table(out, "groups").set_index("group")["root"]
        own = copies["sender"] == copies["group"].map(sources)
        others = copies[silent.of_nodes(copies["sender"].to_numpy()) & ~own]
        sent[kind] = {*others["kind"]}
    assert sent == {"payload": {"IHAVE", "IWANT", "IDONTWANT"}, "all": {"IWANT"}}


@pytest.mark.parametrize("engines", [(), pytest.param(("tasks", "jobs"), marks=pytest.mark.slow)])
def test_nodes_of_a_world_announce_unless_they_withhold_all(spark, tmp_path, engines):
    config = WorldConfig(
        **NETWORK,
        **{"nodes": 60, "groups": 4, "rounds": 2, "publications": 1, "measures": "node_stress"},
        **{"systems": "gossipsub,plumtree", "withhold": "30%"},
        **THIN,
        round_seconds=2.0,
    )

    def played(kind: str, engine: str = "tasks", buckets: int = 1) -> pd.Series:
        out = tmp_path / f"{kind} {engine} {buckets}"
        how = Execution(out=str(out), engine=engine, buckets=buckets)
        run_world(spark, config.replace(withhold_kind=kind), how)
        return table(out, "rounds").set_index(["round", "measure"])["value"]

    payload, all_kinds = played("payload"), played("all")
    for engine in engines:
        pd.testing.assert_series_equal(played("all", engine, 2), all_kinds)
    for name in ("gossipsub.messages.IHAVE", "plumtree.messages.ihave"):
        before, after = (one.xs(name, level="measure").sum() for one in (payload, all_kinds))
        assert 0 < after < before, name
