"""Anycasts: by hand, on drawn trees with any buckets, and on the trees of runs and worlds."""

import random
from typing import Any

import anycast_played
import numpy as np
import pyarrow as pa
import pytest
from living_groups import world_of
from oracle.scribe_living.cases import random_world
from seeds import seeds
from small_network import NETWORK
from world_states import Played

from scribe_spark import Simulation, WorldConfig, make_world
from scribe_spark.config import RunConfig
from scribe_spark.core import draws
from scribe_spark.core.errors import InputError
from scribe_spark.systems.scribe import anycast

SLOW = pytest.mark.slow

#: The children of 1 are 3 and 4; the members are the leaves.
TREE: dict[str, Any] = {
    "nodes": [*range(9)], "root": 0, "edges": [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)],
    "members": [3, 4, 5], "routes": {8: [8, 7, 1, 0], 6: [6, 0]},
}  # fmt: skip

#: A change of the tree, the origin, and what is found: by whom, messages, and nodes visited.
BY_HAND = [
    ({"accepts": [3, 4, 5]}, 0, None, None, None),
    ({"accepts": [3]}, 8, 3, None, None),
    ({"accepts": [5]}, 8, 5, 7, 5),  # 7, 1, two leaves, 0, 2, 5
    ({"accepts": [5]}, 6, 5, None, None),
    ({"accepts": []}, 8, -1, 7, 6),
    ({"accepts": []}, 6, -1, 6, 6),
    ({"accepts": [1, 2]}, 8, -1, 7, 6),  # who is no member is not asked
    ({"accepts": [3, 5]}, 3, 5, 5, 5),  # nor is the origin: 1, 4, 0, 2, 5
    ({"accepts": [5], "alive": [1, 1, 0, 1, 1, 1, 1, 1, 1]}, 8, -1, 5, 4),
    ({"accepts": [5], "alive": [1, 1, 1, 1, 1, 1, 1, 1, 0]}, 8, -1, 0, 0),  # a dead origin
    ({"accepts": [5], "routes": {8: [8, 7, 6]}}, 8, -1, 2, 0),  # no way to the tree
    ({"accepts": [5], "routes": {8: [8, 7, 8]}}, 8, -1, 1, 0),  # a route in a circle
]


@pytest.mark.parametrize("buckets", [1, 2, 7])
@pytest.mark.parametrize(("change", "origin", "accepted", "messages", "visited"), BY_HAND)
def test_anycasts_by_hand(change, origin, accepted, messages, visited, buckets):
    (found,) = anycast_played.play_case({**TREE, "queries": [origin], **change}, buckets)
    expected = {"accepted": accepted, "messages": messages, "visited": visited}
    assert {n: found[n] for n, one in expected.items() if one is not None} == {
        n: one for n, one in expected.items() if one is not None
    }
    assert found["accepted"] in {*change["accepts"], -1}


def test_children_are_visited_in_a_drawn_order():
    """The order is that of the draws, and another one for another number."""
    case = {**TREE, "edges": [(0, node) for node in range(1, 7)], "members": range(1, 7)}
    case |= {"queries": [8] * 20, "routes": {8: [8, 0]}, "accepts": range(1, 7)}
    found = [one["accepted"] for one in anycast_played.play_case({**case, "seed": 3})]
    drawn = draws.bits_np(3, "anycast", np.arange(20)[:, None], 0, np.arange(1, 7))
    assert found == (1 + drawn.argmin(axis=1)).tolist()
    assert len(set(found)) > 3


def drawn_case(seed: int) -> dict[str, Any]:
    """Return a drawn tree whose leaves are members; origins are outside and inside."""
    rng = random.Random(seed)
    inside, size = rng.randint(2, 25), 30
    place = rng.sample(range(size), size)
    edges = [(place[rng.randrange(node)], place[node]) for node in range(1, inside)]
    parents = {parent for parent, _ in edges}
    leaves = [node for node in place[:inside] if node not in parents]
    members = sorted({*leaves, *rng.sample(place[:inside], inside // 3)} - {place[0]})
    outside = place[inside:]
    routes = {node: [node, rng.choice(place[:inside])] for node in outside}
    return {
        "nodes": rng.sample(range(100), size), "seed": seed, "group_number": seed,
        "root": place[0], "edges": edges, "members": members, "routes": routes, "accepts": [],
        "queries": rng.sample(outside, 3) + rng.sample(place[:inside], 2),
        "distance": [[rng.randint(1, 999) for _ in range(size)] for _ in range(size)],
    }  # fmt: skip


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=SLOW) for n in range(6, 200))])
def test_a_lone_member_that_accepts_is_found_and_no_node_is_visited_twice(seed):
    case = drawn_case(seed)
    inside = {case["root"], *(child for _, child in case["edges"])}
    one = case["members"][seed % len(case["members"])]
    for accepts in ([], [one], case["members"]):
        case["accepts"] = accepts
        found = anycast_played.play_case(case, 1)
        for origin, walk in zip(case["queries"], found, strict=True):
            expected = {*accepts} - {origin}
            assert (walk["accepted"] in expected) if expected else (walk["accepted"] == -1)
            assert walk["visited"] == walk["messages"] - (walk["accepted"] >= 0) + (
                origin in inside
            )
            assert expected or walk["visited"] == len(inside)
        for buckets in (2, 7):
            assert anycast_played.play_case(case, buckets) == found


def test_long_walks_go_on_in_a_further_play_and_too_long_ones_are_refused(monkeypatch):
    case = {**TREE, "edges": [(0, node) for node in range(1, 60)], "nodes": None}
    case |= {"members": range(1, 60), "accepts": [], "queries": [0], "routes": {}}
    (found,) = anycast_played.play_case(case)
    monkeypatch.setattr(anycast, "_SUPERSTEPS", 7)
    assert anycast_played.play_case(case) == [found]
    assert found["messages"] == 59
    monkeypatch.setattr(anycast, "MOST_LISTED", 59)
    with pytest.raises(InputError, match="must be at most 59"):
        anycast_played.play_case(case)


# --- on Spark


GROUPS = {**NETWORK, "nodes": 60, "groups": 2, "group_size": 15, "seed": 4}


def check(found, memberships) -> None:
    """Check the results of anycasts for which few members accept, and those for which none do."""
    few, none = ({row[:2]: row[2:] for row in map(tuple, rows.collect())} for rows in found)
    inside = {(row["group"], row["node"]): row["member"] for row in memberships}
    can = {pair for pair, member in inside.items() if member and pair[1] % 7 == 0}
    for (group, origin), (_, accepted, messages, _, delay_ms) in few.items():
        there = {node for of, node in can if of == group} - {origin}
        assert (accepted in there) if there else accepted is None
        assert delay_ms > 0 or not messages
    for (group, origin), (_, accepted, messages, visited, _) in none.items():
        assert accepted is None
        assert visited == sum(of == group for of, _ in inside)
        assert messages >= visited - ((group, origin) in inside)
    assert len(few) == len(none) == 120


@SLOW
def test_anycasts_on_the_trees_of_a_run(spark):
    with Simulation(spark, RunConfig(**GROUPS)) as simulation:
        pairs = [(group, node) for group in (1, 2) for node in range(60)]
        calls = spark.createDataFrame(pairs, "group bigint, node bigint")
        trees = simulation.grown.trees
        found = [
            trees.anycast(calls, application)
            for application in (anycast_played.Few, anycast_played.Nobody)
        ]
        rows = trees.edges().collect()
        inside = {(row["group"], row[end]) for row in rows for end in ("parent", "child")}
        members = {(row["group"], row["node"]) for row in trees.read_members().frame.collect()}
        check(found, [{"group": g, "node": n, "member": (g, n) in members} for g, n in inside])


@SLOW
@pytest.mark.parametrize(("buckets", "engine"), [(1, "tasks"), (2, "tasks"), (2, "jobs")])
def test_anycasts_on_the_trees_of_a_world(spark, buckets, engine):
    config = WorldConfig(**GROUPS, generator="mass-failure", event_round=1, share=0.2, rounds=9)
    with Simulation(spark, config) as simulation:
        world = make_world(
            simulation, config, buckets=buckets, engine=engine, application=anycast_played.Few
        )
        with pytest.raises(ValueError, match="no round has been played"):
            world.anycast(spark.createDataFrame([(1, 3)], "group bigint, node bigint"))
        for _ in range(7):  # until the trees are repaired
            world.step()
        before = world.saved.count()
        rows = [(group, node) for group in (1, 2) for node in range(60)]
        calls = spark.createDataFrame(rows, "group bigint, node bigint")
        alive = {row["node"] for row in world.nodes.collect()}
        found = [world.anycast(calls), world.anycast(calls, anycast_played.Nobody)]
        found = [rows.toPandas() for rows in found]
        for rows in found:
            rows = rows[~rows["node"].isin(alive)]
            assert (rows["messages"] == 0).all()
            assert rows["accepted"].isna().all()
        inside = world.memberships.where("parent IS NOT NULL OR root").count()
        assert inside > 10
        none = found[1][found[1]["node"].isin(alive)]
        trees = world.memberships.groupBy("group").count().toPandas().set_index("group")["count"]
        assert (none["visited"] == none["group"].map(trees)).all()
        few = found[0][found[0]["node"].isin(alive)]
        assert (few["accepted"].dropna() % 7 == 0).all()
        assert few["accepted"].notna().mean() > 0.9
        assert world.saved.count() == before
        world.step()
        with pytest.raises(InputError, match="group of an anycast = 9: does not exist"):
            world.anycast(spark.createDataFrame([(9, 3)], "group bigint, node bigint"))
        world.release()


@pytest.mark.parametrize("seed", seeds(range(30), 1))
def test_anycasts_on_the_trees_of_living_worlds_are_the_same_on_any_buckets(seed):
    """Trees are under repair: walks ask members only, and visit no node twice."""
    found = []
    for buckets in (1, 2, 7):
        played = Played(world_of(random_world(seed, most=40, rounds=9)), buckets)
        played.play(saves=False)
        groups, nodes = played.protocols.groups.numbers, played.known.node
        pairs = np.array([(group, node) for group in groups for node in nodes[:12]])
        calls = pa.table({"group": pairs[:, 0], "node": pairs[:, 1], "number": pairs[:, 1] % 3})
        before = played.seen()
        found.append(
            [
                played.state.anycast(8, calls, application).to_pylist()
                for application in (None, anycast_played.Few, anycast_played.Nobody)
            ]
        )
        assert played.seen() == before
    assert found[1:] == found[:1] * 2
    every, few, none = found[0]
    members = {(group, node) for group, node, _, member, _ in before["memberships"] if member}
    assert seed or any(one["accepted"] is not None for one in every)
    for one in every + few + none:
        assert one["visited"] <= one["messages"] + 1
        assert one["accepted"] is None or (one["group"], one["accepted"]) in members
    assert all(one["accepted"] % 7 == 0 for one in few if one["accepted"] is not None)
    assert all(one["accepted"] is None for one in none)
