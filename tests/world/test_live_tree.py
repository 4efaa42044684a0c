"""The reference tree over a world's live nodes: the oracle's rounds, and the same when resumed."""

from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest
from killed import killed_then_gone_on
from oracle.reference_tree.dht import Dht
from oracle.reference_tree.host_tree import tree_from_nothing
from oracle.reference_tree.reconfiguration import Event, reconfigure
from oracle.reference_tree.tree import reference_tree
from stopping import Stops

from scribe_spark import experiments
from scribe_spark.config import Execution, WorldConfig
from scribe_spark.engine.ring import Ring
from scribe_spark.experiments import run_world
from scribe_spark.experiments.sweep_kinds import sweep_kind
from scribe_spark.progress import Silent
from scribe_spark.reference_tree.reconfiguration import first_to_compute
from scribe_spark.worlds import LiveTree, live_tree
from scribe_spark.worlds.live_tree import LIVE_TREE_MEASURES, live_tree_measures

pytestmark = pytest.mark.slow

NODES = 60


def ring(ids: list[int]) -> Ring:
    hi, lo = (
        np.array(half, np.uint64) for half in zip(*[divmod(i, 2**64) for i in ids], strict=True)
    )
    return Ring(hi, lo, np.arange(len(ids)), np.zeros(len(ids), np.int64))


def as_alive(ids: list[int], hosts) -> np.ndarray:
    return np.isin(np.arange(len(ids)), [at for at, host in enumerate(ids) if host in hosts])


def links_of(neighbours) -> set[frozenset[int]]:
    return {frozenset((host, other)) for host, of in neighbours.items() for other in of}


@pytest.mark.parametrize(
    ("seed", "children", "assignment"),
    [(1, 2, "pastry"), (2, 3, "pastry"), (3, 2, "chord"), (4, 8, "pastry"), (5, 5, "chord")],
)
def test_rounds_of_many_events_at_once_are_the_oracle_s(seed, children, assignment):
    rng = random.Random(seed)
    ids = sorted({rng.getrandbits(128) for _ in range(NODES - 12)} | set(range(7, 19)))
    hosts = set(rng.sample(ids, 40))
    plain = tree_from_nothing(Dht(reference_tree(128, children), hosts, assignment)).neighbours()
    for _ in range(6):
        dht = Dht(reference_tree(128, children), hosts, assignment)
        gone = rng.sample(sorted(hosts), min(rng.choice([0, 1, 9, 60]), len(hosts) - 1))
        come = rng.sample(sorted(set(ids) - hosts), rng.choice([0, 1, min(9, NODES - len(hosts))]))
        events = [Event("failure", one) for one in gone] + [Event("join", one) for one in come]
        after, now, rounds = reconfigure(dht, plain, events)
        found = live_tree_measures(
            LiveTree(children, assignment),
            ring(ids),
            as_alive(ids, hosts),
            as_alive(ids, after.hosts),
        )
        hosts, tree = set(after.hosts), tree_from_nothing(after)
        depth = {host: 0 for host in hosts}
        for host in hosts:
            above = tree.parent[host]
            while above is not None:
                depth[host], above = depth[host] + 1, tree.parent[above]
        assert found == {
            "reference_tree.hosts": len({h for one in rounds for h in one.computed}),
            "reference_tree.links.removed": len(links_of(plain) - links_of(now)),
            "reference_tree.links.created": len(links_of(now) - links_of(plain)),
            "reference_tree.parent_lookups": sum(one.parent_lookups for one in rounds),
            "reference_tree.child_lookups": sum(one.child_lookups for one in rounds),
            "reference_tree.notices": sum(len(one.notices) for one in rounds),
            "reference_tree.rounds": len(rounds),
            "reference_tree.degree.largest": max(map(len, now.values())),
            "reference_tree.depth.largest": max(depth.values()),
            "reference_tree.depth.mean": sum(depth.values()) / len(depth),
            "reference_tree.faults": 0,
        }
        assert set(found) == set(LIVE_TREE_MEASURES)
        plain = now


def test_a_wrong_tree_is_a_fault(monkeypatch):
    """Without the hosts whose topmost key is another one, somebody keeps old neighbours."""

    def only_joined(before, after, links, joined, gone):
        return first_to_compute(before, after, links, joined, gone)[:0]

    rng = random.Random(9)
    ids = sorted(rng.getrandbits(128) for _ in range(40))
    was = np.arange(40) < 36
    now = np.arange(40) > 3
    right = live_tree_measures(LiveTree(), ring(ids), was, now)
    monkeypatch.setattr(live_tree, "first_to_compute", only_joined)
    wrong = live_tree_measures(LiveTree(), ring(ids), was, now)
    assert (right["reference_tree.faults"], wrong["reference_tree.faults"]) == (0, 1)


# --- in a world

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
    known = Ring(*halves, nodes["node"].to_numpy(), np.zeros(60, np.int64))
    alive = np.arange(60) < 45
    for number in range(5):
        was = alive.copy()
        for row in events[events["round"] == number].itertuples():
            alive[row.node] = row.event in ("arrive", "recover")
        assert found[number] == live_tree_measures(LiveTree(3, "pastry"), known, was, alive)
        assert found[number]["reference_tree.faults"] == 0
    assert sum(of["reference_tree.hosts"] for of in found.values()) > 20
    page = (out / "report.html").read_text()
    assert '<h2 id="section-2">The reference tree</h2>' in page
    assert "Hosts that find their neighbours anew" in page


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
    with experiments.Simulation(spark, experiments.network_of(config)) as shares:
        found = kind.run(spark, config, execution, Silent(), shares)
    for measure in LIVE_TREE_MEASURES:
        assert f"{measure}.most" in found.values
        assert f"{measure}.most" in kind.units()
        assert measure in found.rounds
