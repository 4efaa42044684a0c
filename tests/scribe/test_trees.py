"""CREATE, JOIN and MULTICAST: roots, trees and deliveries of all cases, against the oracle.

In process, for several numbers of buckets, case by case; and on Spark, all cases in one ring.
"""

import itertools
from collections.abc import Iterator

import played
import pytest
import worlds
from pyspark.sql import functions as F

from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe.trees import Trees

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("buckets", "step"), [(7, 2), *(pytest.param(n, 1, marks=SLOW) for n in (1, 2, 7))]
)
def test_trees_and_deliveries_in_process_equal_the_oracle(buckets, step):
    """Every member gets the message once, after the hops and the delay of its path."""
    cases = [one for one in worlds.worlds()[::step] if one.case.keys]
    many = delivered = 0
    for one in cases:
        trees = played.trees(one, buckets)
        edges = trees.edges()
        assert edges == sorted(one.grown.edges()), one.case.seed
        assert trees.roots() == one.roots, one.case.seed
        found = trees.multicast()
        assert sorted(found) == sorted(expected_deliveries(one)), one.case.seed
        many += len(edges) > 10
        delivered += len(found)
    assert many > 30
    assert delivered > 1_000


def expected_deliveries(one: worlds.World) -> list[tuple]:
    """(group, member, hops, delay_us) down the oracle's trees, the root's own included."""
    of_roots = [(group, root, 0, 0) for group, root in one.roots.items()]
    rows = [row for row in of_roots if row[1] in one.case.members[row[0]]]
    return rows + one.deliveries("root")


@pytest.fixture(scope="module", params=worlds.EACH_B)
def built(spark, request) -> Iterator[tuple[int, Trees]]:
    """A b, and the trees that Spark makes of its cases, of members and groups in any order."""
    b = request.param
    members = worlds.members(spark, b).orderBy(F.col("node").desc()).repartition(5)
    groups = worlds.groups(spark, b).orderBy(F.rand(1)).repartition(3)
    trees = scribe_trees.build_trees(worlds.overlay(spark, b), groups, members)
    yield b, trees
    trees.release()


def test_create_is_delivered_at_the_root(spark, built):
    b, trees = built
    found = {row["group"]: row for row in trees.created().to_pylist()}
    asked = worlds.groups(spark, b).collect()
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


def test_trees_equal_the_oracle(built):
    """Edges have routers and delays."""
    b, trees = built
    rows = trees.edges().collect()
    ends = [(row["group"], row["parent"], row["child"]) for row in rows]
    found = worlds.by_seed(ends, 0, 1, 2)
    for one in worlds.of_b(b):
        assert found[one.case.seed] == sorted(one.grown.edges()), one.case.seed
    for row in rows:
        one = worlds.worlds()[row["group"] // worlds.STRIDE]
        parent, child = row["parent"] - one.base, row["child"] - one.base
        routers = row["parent_router"] - one.base, row["child_router"] - one.base
        assert routers == (one.case.router[parent], one.case.router[child])
        assert row["delay_us"] == one.overlay.proximity(parent, child)


@pytest.mark.parametrize("source", [pytest.param("root", marks=SLOW), "routed", "direct"])
def test_deliveries_equal_the_oracle(spark, built, source):
    """Those with the source "direct" go down trees that are given by their edges."""
    (b, trees), groups = built, worlds.groups(spark, built[0])
    if source == "root":
        groups = groups.withColumns({"source": groups.root, "source_router": groups.root_router})
    if source == "direct":
        given = worlds.overlay(spark, b), groups, worlds.members(spark, b), worlds.edges(spark, b)
        trees = scribe_trees.plant_trees(*given)
    delivered, tables = scribe_trees.multicast(trees, groups, source)
    assert delivered.frame.columns == ["group", "node", "hops", "delay_us"]
    found = worlds.by_seed(map(tuple, delivered.frame.collect()), 0, 1)
    assert sum(bool(mine) for mine in found.values()) > 20
    for one in worlds.of_b(b):
        assert found[one.case.seed] == one.deliveries(source), one.case.seed
    tables.release()
    if source == "direct":
        trees.release()
