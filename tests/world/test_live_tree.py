"""The reference tree over a world's live nodes: in one task and on buckets, and when resumed."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from killed import killed_then_gone_on
from live_hosts import Hosts
from stopping import Stops

from scribe_spark import experiments
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.engine.ring import Ring
from scribe_spark.experiments import run_world
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.sweep_kinds import sweep_kind
from scribe_spark.experiments.world_setup import make_world
from scribe_spark.worlds import LiveTree, World
from scribe_spark.worlds.live_tree import LIVE_TREE_MEASURES

pytestmark = pytest.mark.slow

CONFIG = WorldConfig(
    transit_domains=2, transit_size=2, stubs_per_transit=2, stub_size=3, nodes=60, leaf_set=8,
    initial=45, generator="churn", lifetime=8.0, rounds=5, lookups=20, reference_tree=True,
    reference_children=3,
)  # fmt: skip


def play(spark, out, config=CONFIG, progress=None, **how):
    execution = Execution(out=str(out), master="local[2]", **how)
    experiments.check_world_run(config, execution)
    run_world(spark, config, execution, progress)
    return spark.read.parquet(str(out / "tables" / "rounds")).toPandas()


def digest(out) -> str:
    manifest = json.loads((out / "manifest.json").read_text())
    return manifest["world"]["tables"]["rounds"]["digest"]


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("live-tree") / "out"
    return out, play(spark, out)


def test_each_round_s_events_are_played(spark, finished):
    out, rounds = finished
    mine = rounds[rounds["system"] == "reference_tree"]
    assert set(mine["measure"]) == set(LIVE_TREE_MEASURES)
    found = mine.pivot(index="round", columns="measure", values="value").to_dict("index")
    nodes = spark.read.parquet(str(out / "tables" / "nodes")).toPandas().sort_values("node")
    events = spark.read.parquet(str(out / "tables" / "events")).toPandas()
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


def test_the_overlay_is_the_same_with_and_without_it(spark, finished, tmp_path):
    without = play(
        spark, tmp_path / "out", CONFIG.replace(reference_tree=False, reference_children=2)
    )
    _, rounds = finished
    both = rounds[rounds["system"] == "pastry"]
    order = ["round", "measure"]
    assert (
        both.sort_values(order).to_numpy().tolist()
        == without.sort_values(order).to_numpy().tolist()
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The reference tree" not in page


def test_buckets_measure_what_one_task_does(spark, tmp_path):
    """The same rounds on three buckets, and from a save in the middle."""
    with experiments.Simulation(spark, experiments.network_of(CONFIG)) as simulation:
        one = make_world(simulation, CONFIG)
        many = make_world(simulation, CONFIG, one._events, buckets=3)
        computed = 0.0
        for number in range(4):
            measured = one.step()
            assert many.step() == measured
            computed += measured["reference_tree.hosts"]
            if number == 1:
                saved = many.saved.localCheckpoint()
        assert computed > 20
        rest = simulation.nodes, one._events, simulation.underlay, one._protocols
        again = World.of_save(saved, *rest, 3)
        again.step()
        assert again.step() == measured
        for world in (many, again, one):
            world.release()


def test_it_goes_on_to_the_same_rounds(spark, finished, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[run_world.__module__], "SAVE_EVERY", 0.0)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        play(spark, out, progress=Stops("round 2"))
    play(spark, out, resume=True, partitions=3)
    assert digest(out) == digest(finished[0])


def test_killed_worlds_go_on(finished, tmp_path):
    """Killed with -9 in a round; the rest is played by executor processes."""
    out, log = tmp_path / "out", tmp_path / "log"
    given = {name: v for name, v in CONFIG.given().items() if name != "reference_tree"}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    command = [sys.executable, "-m", "scribe_spark.cli", "world", *flags, "--reference-tree"]
    killed_then_gone_on([*command, f"--out={out}", "--resume"], "round 2:", log)
    assert digest(out) == digest(finished[0])


def test_sweeps_see_the_measures(spark, tmp_path):
    kind = sweep_kind(WorldConfig)
    config = CONFIG.replace(rounds=2)
    execution = Execution(out=str(tmp_path / "out"), master="local[2]")
    run_world(spark, config, execution)
    with Folder(spark, execution.out) as folder:
        found = kind.read(folder)
    for measure in LIVE_TREE_MEASURES:
        assert f"{measure}.most" in found.values
        assert f"{measure}.most" in kind.units()
        assert measure in found.rounds
