"""Anycasts: the kernel against the oracle on any buckets, and the trees of runs and worlds."""

import sys
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from arriving import Kernel
from living_groups import world_of
from oracle.anycast import Case, random_case, walk
from oracle.scribe_living.cases import random_world
from poisoned import PoisonedTask
from pyspark import cloudpickle
from seeds import seeds
from small_network import NETWORK
from split_states import empty_state, split_state, tables_of
from world_states import Played

from scribe_spark import Simulation, WorldConfig, make_world
from scribe_spark.config import RunConfig
from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import InputError
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.rounds.applications import Applications
from scribe_spark.rounds.events import Lives
from scribe_spark.systems.scribe import anycast
from scribe_spark.systems.scribe.trees import settled_environment, settled_round
from scribe_spark.systems.scribe.upcalls import CAUSES, ScribeApplication

SLOW = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # applications go to the workers


@dataclass(frozen=True)
class _Routes:
    """The next hop of each node to the group's key, as of `overlay.NextHop`."""

    onward: np.ndarray

    def __call__(self, first, tables, at, key_hi, key_lo):
        return self.onward[at]


@dataclass(frozen=True)
class _Asks(ScribeApplication):
    """Some members accept; their numbers."""

    accepts: frozenset[int]

    def accept(self, calls, asked) -> np.ndarray:
        return np.array([node in self.accepts for node in asked["node"].tolist()], dtype=bool)


def play(case: Case, buckets: int) -> list[tuple[int, int, int, int]]:
    """Let the kernel play the calls: accepted, messages, visited, delay_us."""
    size, state = len(case.nodes), empty_state(len(case.nodes), 1)
    inside = [x for x in range(size) if case.is_in_tree(x)]
    state.entries.enter(np.array(inside, dtype=np.int64), 0, CAUSES[0])
    state.entries.member[:] = [x in case.members for x in inside]
    state.entries.root[:] = [x == case.root for x in inside]
    state.entries.parent[:] = [case.parent(x) for x in inside]
    edges = np.array(sorted(p * size + c for p, c in case.edges), dtype=np.int64)
    state.children.insert(edges, number=0, refreshed=0, got_payload=False)
    if case.root != NONE:
        of = {"creator": case.root, "root": case.root, "length": 0, "values": NONE}
        state.copies.insert(np.array([case.root]), epoch=0, version=0, incarnation=0, **of)
    every, zero = np.arange(size), np.zeros(size, dtype=np.uint64)
    ring = Ring(zero, zero, np.array(case.nodes), every)
    bounds = np.linspace(0, size, buckets + 1).astype(np.int64)
    kernel = Kernel(np.array(case.distance, dtype=np.int64).reshape(size, size), every)
    environment = settled_environment(RingInMemory(ring), bounds, kernel, case.seed)
    environment = replace(environment, lives=Lives.of(size, np.flatnonzero(case.alive)))
    onward = every.copy()
    for route in case.routes.values():
        onward[list(route[:-1])] = route[1:]
    key, number = zero[:1], np.array([case.group_number])
    round = settled_round(number, key, key, size, _Routes(onward), 0)
    asks = _Asks(frozenset(case.nodes[x] for x in case.accepts))
    round = replace(round, applications=Applications(lambda _: asks, size))
    calls = np.arange(len(case.queries))
    anycasts = anycast.Anycasts(calls, np.zeros_like(calls), np.array(case.queries))
    ends = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    tables = PoisonedTask([tables_of(split_state(state, ring, *mine)) for mine in ends])
    found = anycast.play_anycasts(tables, anycast.Anycast(environment, round, anycasts))
    columns = found.accepted, found.messages, found.visited, found.delay_us
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", seeds(range(200), 12))
def test_the_kernel_equals_the_oracle(seed: int) -> None:
    case = random_case(seed)
    walks = [walk(case, query) for query in range(len(case.queries))]
    expected = [(one.accepted, one.messages, len(one.visited), one.delay_us) for one in walks]
    for buckets in (1, 2, 7):
        assert play(case, buckets) == expected, f"{buckets} buckets"


def test_long_walks_go_on_in_a_further_play_and_too_long_ones_are_refused(monkeypatch):
    case = replace(random_case(24), accepts=frozenset())
    found = play(case, 2)
    assert max(visited for _, _, visited, _ in found) > 30
    monkeypatch.setattr(anycast, "_SUPERSTEPS", 7)
    assert play(case, 2) == found
    monkeypatch.setattr(anycast, "MOST_LISTED", 30)
    with pytest.raises(InputError, match="must be at most 30"):
        play(case, 2)


# --- on Spark


class Few(ScribeApplication):
    """Of the members of a group, those with a number that seven divides accept."""

    def __init__(self, nodes: int) -> None: ...

    def accept(self, calls, asked) -> np.ndarray:
        assert (calls.here["joined"][asked["call"]] >= 0).all()
        return asked["node"] % 7 == 0


class Nobody(Few):
    """No member accepts."""

    def accept(self, calls, asked) -> np.ndarray:
        return np.zeros(len(asked["node"]), dtype=bool)


GROUPS = {**NETWORK, "nodes": 60, "groups": 2, "group_size": 15, "seed": 4}
CALLS = [(group, node) for group in (1, 2) for node in range(60)]


def check(few, none, sizes) -> None:
    """Check the calls of live nodes for which few members accept, and those for which none do."""
    assert (few["accepted"].dropna() % 7 == 0).all()
    assert few["accepted"].notna().mean() > 0.9
    assert none["accepted"].isna().all()
    assert (none["visited"] == none["group"].map(sizes)).all()


@SLOW
def test_anycasts_on_the_trees_of_a_run(spark):
    with Simulation(spark, RunConfig(**GROUPS)) as simulation:
        trees, calls = simulation.built_trees, spark.createDataFrame(CALLS, "group long, node long")
        few, none = (trees.anycast(calls, one).toPandas() for one in (Few, Nobody))
        edges = trees.edges().toPandas().groupby("group")
        check(few, none, {group: len({*of["parent"], *of["child"]}) for group, of in edges})


@SLOW
@pytest.mark.parametrize(("buckets", "engine"), [(2, "tasks"), (2, "jobs")])
def test_anycasts_on_the_trees_of_a_world(spark, buckets, engine):
    config = WorldConfig(**GROUPS, generator="mass-failure", event_round=1, share=0.2, rounds=9)
    with Simulation(spark, config) as simulation:
        world = make_world(simulation, config, buckets=buckets, engine=engine, application=Few)
        calls = spark.createDataFrame(CALLS, "group long, node long")
        with pytest.raises(ValueError, match="no round has been played"):
            world.anycast(calls)
        for _ in range(7):  # until the trees are repaired
            world.step()
        before, alive = world.saved.count(), world.nodes.toPandas()["node"]
        found = [world.anycast(calls, *of).toPandas() for of in ((), (Nobody,))]
        for rows in found:
            rows = rows[~rows["node"].isin(alive)]
            assert (rows["messages"] == 0).all()
            assert rows["accepted"].isna().all()
        sizes = world.memberships.groupBy("group").count().toPandas().set_index("group")["count"]
        check(*(rows[rows["node"].isin(alive)] for rows in found), sizes)
        assert world.saved.count() == before
        world.step()
        with pytest.raises(InputError, match="group of an anycast = 9: does not exist"):
            world.anycast(spark.createDataFrame([(9, 3)], "group long, node long"))
        world.release()


@pytest.mark.parametrize("seed", seeds(range(30), 1))
def test_anycasts_on_the_trees_of_living_worlds_are_the_same_on_any_buckets(seed):
    """Trees are under repair: walks ask members only, and visit no node twice."""
    found = []
    for buckets in (1, 7):
        played = Played(world_of(random_world(seed, most=40, rounds=9)), buckets)
        played.play(saves=False)
        groups, nodes = played.protocols.groups.numbers, played.known.node
        pairs = np.array([(group, node) for group in groups for node in nodes[:12]])
        calls = pa.table({"group": pairs[:, 0], "node": pairs[:, 1], "number": pairs[:, 1] % 3})
        before = played.seen()
        found.append(
            [
                played.state.anycast(8, calls, application).to_pylist()
                for application in (None, Few, Nobody)
            ]
        )
        assert played.seen() == before
    assert found[0] == found[1]
    every, few, none = found[0]
    members = {(group, node) for group, node, _, member, _ in before["memberships"] if member}
    assert seed or any(one["accepted"] is not None for one in every)
    for one in every + few + none:
        assert one["visited"] <= one["messages"] + 1
        assert one["accepted"] is None or (one["group"], one["accepted"]) in members
    assert all(one["accepted"] % 7 == 0 for one in few if one["accepted"] is not None)
    assert all(one["accepted"] is None for one in none)
