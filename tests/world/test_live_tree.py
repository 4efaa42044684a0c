"""The reference tree over a world's live nodes, on Spark; `test_world_state` has it on buckets."""

import numpy as np
import pytest
from live_hosts import Hosts
from small_network import NETWORK, table

from scribe_spark.config import Execution, WorldConfig
from scribe_spark.engine.facts import Ring
from scribe_spark.experiments import run_world
from scribe_spark.systems.reference_tree.live import LIVE_TREE_MEASURES, LiveTree
from scribe_spark.worlds.summary import measure_of, summary_units

pytestmark = pytest.mark.slow

CONFIG = WorldConfig(
    **NETWORK, nodes=60, leaf_set=8,
    initial=45, generator="churn", lifetime=8.0, rounds=5, lookups=20, reference_tree=True,
    reference_children=3,
)  # fmt: skip


def test_each_round_s_events_are_played(spark, tmp_path):
    out = tmp_path / "out"
    run_world(spark, CONFIG, Execution(out=str(out), master="local[2]"))
    rounds = table(out, "rounds")
    mine = rounds[rounds["system"] == "reference_tree"]
    assert set(mine["measure"]) == set(LIVE_TREE_MEASURES)
    found = mine.pivot(index="round", columns="measure", values="value").to_dict("index")
    nodes = table(out, "nodes").sort_values("node")
    events = table(out, "events")
    halves = (nodes[name].to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
    known = Ring(*halves, nodes["node"].to_numpy(), np.zeros(60, np.int64)).in_order()
    alive = np.arange(60) < 45
    hosts = Hosts(LiveTree(3, "pastry"), known, alive[known.node], [0, 20, 60])
    for number in range(5):
        for row in events[events["round"] == number].itertuples():
            alive[row.node] = row.event in ("arrive", "recover")
        assert found[number] == hosts.change(alive[known.node])
        assert found[number]["reference_tree.faults"] == 0
    assert sum(of["reference_tree.hosts"] for of in found.values()) > 20
    page = (out / "report.html").read_text()
    assert '<h2 id="section-2">The reference tree</h2>' in page
    assert "Hosts that search for new neighbours" in page


def test_sweeps_see_the_measures():
    measured = {measure_of(name) for name in summary_units() if name.endswith(".most")}
    assert LIVE_TREE_MEASURES.keys() <= measured
