"""Loops of supersteps that do not end: one line names the system, the step and the limit."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
from pyspark import cloudpickle

from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import (
    Discipline,
    Nodes,
    TimedLinks,
    TimedPublications,
    mesh_links,
)
from scribe_spark.bandwidth.windows import LINKS, play_windows
from scribe_spark.dissemination import EDGES, START, Dissemination
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask, play
from scribe_spark.engine.limits import counted, most_supersteps
from scribe_spark.engine.on_spark import ROWS, BucketTables, Layout
from scribe_spark.engine.program import AT, Prefixed, Tables, Together
from scribe_spark.engine.ring import Ring
from scribe_spark.errors import RunError
from scribe_spark.gossipsub.publication import publish_lazily
from scribe_spark.overlay import Application
from scribe_spark.overlay.route import Route
from scribe_spark.scribe.bottleneck import remove_bottlenecks
from scribe_spark.scribe.collapse import collapse
from scribe_spark.scribe.lazy import grow_lazily
from scribe_spark.worlds.live_tree import LiveTree, live_tree_measures

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # programs go to the workers


@pytest.mark.parametrize(
    ("nodes", "most"), [(0, 1_000), (1, 1_004), (100, 1_400), (2_250, 10_000), (10**7, 10_000)]
)
def test_the_limit_follows_from_the_nodes(nodes, most):
    assert most_supersteps(nodes) == most


def test_a_limit_is_the_number_of_passes():
    assert [*islice(counted("a step", 3), 3)] == [0, 1, 2]
    with pytest.raises(RunError, match=r"^a step: has not ended after 3 supersteps; "):
        list(counted("a step", 3))


# --- programs

NUMBERS = np.arange(4, dtype=np.uint64)
RING = RingInMemory(Ring(NUMBERS, NUMBERS, np.arange(4), np.zeros(4, dtype=np.int64)))


@dataclass(frozen=True)
class Echo:
    """Nodes 0 and 3 answer each other; supersteps are counted in `seen`."""

    bounds: np.ndarray
    seen: list[int]

    def step(self, bucket, tables, inbox, superstep):
        """See `engine.Program`."""
        self.seen.append(superstep)
        at = np.array([0]) if not superstep and not bucket else inbox.get("echo", {AT: []})[AT]
        return {"echo": {AT: 3 - np.asarray(at, dtype=np.int64)}}


@dataclass(frozen=True)
class Negative:
    """Delays between the routers of nodes."""

    delay_us: int

    def delays(self, a, b):
        return np.full(len(a), self.delay_us)


def circle(delay_us: int) -> tuple[Dissemination, Tables]:
    """Return a program that sends a message from node 0 around nodes 1, 2 and 3, and the edges."""
    node = np.arange(1, 4)
    edges = {"group": 0 * node, "node": np.r_[0, node], "peer": np.r_[1, 2, 3, 1]}
    edges["group"] = np.zeros(4, dtype=np.int64)
    program = Dissemination(np.array([0, 4]), RING, Negative(delay_us), 0)
    return program, Tables.of({EDGES: edges})


BOUNDS = np.array([0, 2, 4])


@pytest.mark.parametrize(
    ("program", "step"),
    [
        (Echo(BOUNDS, []), "test_limits Echo"),
        (Together((Echo(BOUNDS, []), Echo(BOUNDS, []))), "test_limits Echo, Echo"),
        (Prefixed(Echo(BOUNDS, []), "bayeux/"), "bayeux/Echo"),
    ],
)
@pytest.mark.parametrize("in_task", [False, True])
def test_nodes_that_answer_each_other_end(program, step, in_task):
    tables = [Tables(), Tables()]
    with pytest.raises(RunError, match=f"^{step}: has not ended after 1,016 supersteps; "):
        InTask(tables).play(program) if in_task else play(program, tables)


def test_a_program_has_all_supersteps_of_its_limit():
    echo = Echo(np.array([0, 4]), [])
    with pytest.raises(RunError, match="supersteps"):
        play(echo, [Tables()])
    assert echo.seen == list(range(1_016))


def test_a_message_that_gains_time_on_a_circle_ends():
    start = {START: {AT: np.array([0]), "group": np.array([0])}}
    program, tables = circle(5)
    assert len(play(program, [tables], start)) < 10
    program, tables = circle(-5)
    with pytest.raises(RunError, match=r"^dissemination Dissemination: .* delays"):
        play(program, [tables], start)


class Around:
    """A rule that sends every message to the next node, for ever."""

    def __call__(self, first, tables, at, hi, lo):
        return (at + 1) % 4


class Alone(Application):
    independent = True


def test_a_route_in_a_circle_inside_a_bucket_ends():
    route = Route(np.array([0, 4]), RING, Alone(), (), {}, Around(), Negative(1), 0)
    zero = np.zeros(1, dtype=np.int64)
    columns = dict.fromkeys((AT, "key_hi", "key_lo", "start", "hops", "delay_us"), zero)
    with pytest.raises(RunError, match=r"^overlay route: .* 1,016 hops inside a bucket; "):
        play(route, [Tables()], {"message": columns})


def test_jobs_end_with_the_name_of_the_system(spark, monkeypatch):
    monkeypatch.setattr("scribe_spark.engine.limits._LEAST", 3)
    monkeypatch.setattr("scribe_spark.engine.limits._OF_A_NODE", 0)
    layout = Layout(spark, 1, 1)
    first = spark.createDataFrame([(0, 0, True, "a", 0, None, None, 0, 1)], ROWS)
    tables = BucketTables(layout, first)
    try:
        with pytest.raises(RunError, match=r"^GossipSub PUBLISH: has not ended after 3 supersteps"):
            tables.play(Echo(np.array([0, 4]), []), "GossipSub PUBLISH")
    finally:
        tables.release()
        layout.release()


# --- repeated programs


class Endless:
    """A player whose programs always leave something to do."""

    given = SimpleNamespace(facts=SimpleNamespace(ring=range(4)))

    def play(self, program, first=None):
        return 1

    def has(self, name):
        return True


@dataclass(frozen=True)
class Hosts(LiveTree):
    def hosts(self, player):
        return SimpleNamespace(bounds=np.array([0, 4]))


def lazily(player) -> None:
    rules = SimpleNamespace(mcache_gossip=3)
    topics = SimpleNamespace(rules=rules, space=SimpleNamespace(size=4))
    publish_lazily(lambda program, name: [1, 1, 1], topics, None)


@pytest.mark.parametrize(
    ("repeat", "step"),
    [
        (lambda player: collapse(player, None), "scribe collapse: .* passes"),
        (lambda player: grow_lazily(player, None), "scribe lazy growth: .* waves"),
        (lambda player: remove_bottlenecks(player, None), "scribe bottleneck remover: .* passes"),
        (
            lambda player: live_tree_measures(Hosts(), player),
            "reference_tree reconfiguration: .* rounds",
        ),
        (lazily, "GossipSub gossip: .* heartbeats"),
    ],
)
def test_a_step_that_is_repeated_for_ever_ends(repeat, step, monkeypatch):
    for name in ("AssignKeys", "FindParents", "Reconfigure"):
        monkeypatch.setattr(f"scribe_spark.worlds.live_tree.{name}", lambda *_: None)
    with pytest.raises(RunError, match=f"^{step.replace('.*', 'has not ended after 1,016')}; "):
        repeat(Endless())


# --- windows of time


def test_windows_that_do_not_go_on_end(monkeypatch):
    """A publication on two links: its beginning, and four windows of each of two copies."""
    zero = np.zeros(2, dtype=np.int64)
    node, peer = np.array([0, 1]), np.array([1, 0])
    links = mesh_links(zero, node, zero, peer, zero + 50, zero)
    assert {*links} >= {*TimedLinks().to_columns()}
    rate = np.full(2, 10**6)
    published = TimedPublications.of(zero[:1], zero[:1], zero[:1], zero[:1] + 100)
    given = ClockSetting(Nodes(node, rate, rate, zero), published, Discipline())

    def played() -> None:
        tables = [Tables.of({LINKS: dict(links)})]
        play_windows(InTask(tables), np.array([0, 2]), replace(given, kept=()))

    played()
    monkeypatch.setattr("scribe_spark.bandwidth.bucket.ClockBucket.first_window", lambda _: 7)
    with pytest.raises(RunError, match=r"^clock with bandwidth: .* after 11 windows; "):
        played()
