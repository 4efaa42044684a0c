"""CREATE, JOIN and MULTICAST: roots, trees and deliveries of all cases, against the oracle.

In process, for several numbers of buckets, case by case; and on Spark, all cases in one ring.
"""

import itertools
from collections import Counter

import numpy as np
import played
import pytest
import worlds
from pyspark.sql import Row
from pyspark.sql import functions as F

from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe import trees as scribe_trees


@pytest.fixture(scope="module", params=worlds.EACH_B)
def built(spark, request) -> tuple[int, list[Row]]:
    """A b, and the edges that Spark made of all its cases."""
    return request.param, worlds.built_edges(spark, request.param).collect()


@pytest.fixture(scope="module")
def edges(built) -> dict[int, list[tuple]]:
    """The seeds of all cases of a b -> (group, parent, child), in the case's own numbers."""
    b, rows = built
    ends = [(row["group"], row["parent"], row["child"]) for row in rows]
    found = worlds.by_seed(ends, 0, 1, 2)
    return {one.case.seed: found[one.case.seed] for one in worlds.of_b(b)}


#: One for all nodes, many of few nodes; two in between are slow tests.
BUCKETS = [1, pytest.param(2, marks=pytest.mark.slow), 7]


@pytest.mark.parametrize("buckets", BUCKETS)
def test_trees_and_deliveries_in_process_equal_the_oracle(buckets):
    """Every member gets the message once, after the hops and the delay of its path."""
    cases = [one for one in worlds.worlds() if one.case.keys]
    assert len(cases) >= 200
    many = delivered = 0
    for one in cases:
        trees = played.trees(one, buckets)
        edges = trees.edges()
        assert edges == sorted(one.grown.edges()), one.case.seed
        assert trees.roots() == one.roots, one.case.seed
        found = trees.multicast()
        assert len(found) == len({row[:2] for row in found}), one.case.seed
        assert sorted(found) == sorted(expected_deliveries(one)), one.case.seed
        many += len(edges) > 10
        delivered += len(found)
    assert many > 50
    assert delivered > 1_000


def expected_deliveries(one: worlds.World) -> list[tuple]:
    """(group, member, hops, delay_us) down the oracle's trees, the root's own included."""
    parent = {(group, child): up for group, up, child in one.grown.edges()}
    rows = []
    for group, member in set(one.case.joins()):
        hops, delay, at = 0, 0, member
        while (group, at) in parent:
            up = parent[group, at]
            hops, delay, at = hops + 1, delay + one.overlay.proximity(up, at), up
        rows.append((group, member, hops, delay))
    return rows


def test_a_superstep_reads_no_other_buckets_tables():
    """Each bucket is played with its own tables alone; what the others have would raise."""
    for one in worlds.worlds()[::20]:
        trees = played.trees(one, 7, poisoned=True)
        assert trees.edges() == sorted(one.grown.edges())


def test_messages_between_buckets_are_few_and_counted():
    """A message a hop for each JOIN under way, and an answer for each child."""
    one = max(worlds.worlds(), key=lambda w: len(w.case.joins()))
    trees = played.trees(one, 1)
    children = len(trees.edges())
    assert trees.player.sent >= 2 * children


@pytest.mark.parametrize("b", worlds.EACH_B)
def test_create_is_delivered_at_the_root(spark, b):
    overlay = worlds.overlay(spark, b)
    groups = worlds.groups(spark, b)
    trees = scribe_trees.build_trees(overlay, groups, worlds.members(spark, b).limit(0))
    found = {row["group"]: row for row in trees.created().to_pylist()}
    asked = groups.collect()
    assert len(found) == len(asked)
    for row in asked:
        mine = found[row["group"]]
        assert mine["node"] == row["root"]  # the oracle's
        assert (mine["source"], mine["source_router"]) == (row["creator"], row["creator_router"])
        assert mine["router"] == row["root_router"]
        one = worlds.worlds()[row["group"] // worlds.STRIDE]
        creator = row["creator"] - one.base
        route = one.overlay.route(creator, one.case.keys[row["group"] - one.base])
        legs = [one.overlay.proximity(*leg) for leg in itertools.pairwise(route)]
        assert (mine["hops"], mine["delay_us"]) == (len(legs), sum(legs))
        assert mine["direct_us"] == one.overlay.proximity(route[0], route[-1])
    assert trees.edges().count() == 0
    trees.release()


def test_trees_equal_the_oracle(edges):
    """Tests of the oracle say what holds of its trees: one root, no loop, any order of JOINs."""
    assert sum(bool(mine) for mine in edges.values()) > 20
    for seed, mine in edges.items():
        assert mine == sorted(worlds.worlds()[seed].grown.edges()), seed


def test_trees_do_not_depend_on_order_or_partitions_of_the_members(spark, built, edges):
    b, _ = built
    members = worlds.members(spark, b).orderBy(F.col("node").desc()).repartition(5)
    groups = worlds.groups(spark, b).orderBy(F.rand(1)).repartition(3)
    trees = scribe_trees.build_trees(worlds.overlay(spark, b), groups, members)
    rows = trees.edges().select("group", "parent", "child").collect()
    again = worlds.by_seed(map(tuple, rows), 0, 1, 2)
    assert {seed: again[seed] for seed in edges} == edges
    trees.release()


def test_edges_carry_routers_and_delays(built):
    _, rows = built
    assert rows
    for row in rows:
        one = worlds.worlds()[row["group"] // worlds.STRIDE]
        parent, child = row["parent"] - one.base, row["child"] - one.base
        routers = row["parent_router"] - one.base, row["child_router"] - one.base
        assert routers == (one.case.router[parent], one.case.router[child])
        assert row["delay_us"] == one.overlay.proximity(parent, child)


def test_figure_3_takes_over_a_join_once_per_group_and_node():
    """Several JOINs come to a node that is not in the tree: it sends one of its own."""
    one = max(worlds.worlds(), key=lambda w: len(w.case.joins()))
    trees = played.trees(one, 1)
    own = Counter(map(tuple, np.stack([*trees.joins(["group", "source", AT])], axis=1).tolist()))
    assert set(own.values()) == {1}
    senders = Counter((group, source) for group, source, _ in own)
    # a node's JOIN is at one node a superstep and ends at the first of the tree
    assert max(senders.values()) == 1
