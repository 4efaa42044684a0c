"""CREATE and JOIN: roots and trees of all cases, against the oracle, and what trees must be."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest
import worlds
from oracle import scribe as oracle_scribe
from pyspark.sql import functions as F

from scribe_spark import scribe
from scribe_spark.overlay import Application, Overlay
from scribe_spark.scribe import Scribe


@pytest.fixture(scope="module")
def edges(spark) -> dict[int, list[tuple]]:
    """seed -> (group, parent, child) that `scribe.join` made, in the case's own numbers."""
    table = worlds.edges(spark).select("group", "parent", "child")
    return worlds.by_seed(map(tuple, table.collect()), 0, 1, 2)


@pytest.mark.parametrize("b", worlds.BS)
def test_create_is_delivered_at_the_root(spark, b):
    overlay = worlds.overlay(spark, b)
    rounds = scribe.create(overlay, worlds.groups(spark, b))
    delivered = overlay.travelled(rounds.union().where("next IS NULL"))
    found = {row["group"]: row for row in delivered.collect()}
    asked = worlds.groups(spark, b).collect()
    assert len(found) == len(asked) == delivered.count()
    for row in asked:
        mine = found[row["group"]]
        assert mine["node"] == row["root"]  # the oracle's
        assert (mine["source"], mine["source_router"]) == (row["creator"], row["creator_router"])
        assert (mine["key_hi"], mine["key_lo"]) == (row["key_hi"], row["key_lo"])
        assert mine["router"] == row["root_router"]
        one = worlds.worlds()[row["group"] // worlds.STRIDE]
        route = one.overlay.route(row["creator"] - one.base, one.case.keys[row["group"] - one.base])
        assert mine["hops"] == len(route) - 1
    rounds.release()


def test_trees_equal_the_oracle(edges):
    assert sum(bool(mine) for mine in edges.values()) > 150
    assert len(worlds.worlds()) >= 200
    for one in worlds.worlds():
        assert edges[one.case.seed] == sorted(one.grown.edges()), one.case.seed


def test_trees_equal_the_oracle_in_any_order_of_joins_and_arrivals(edges):
    for one in worlds.worlds():
        rng = random.Random(one.case.seed)
        joins = one.case.joins()
        rng.shuffle(joins)
        system = oracle_scribe.Scribe(one.overlay, one.case.keys, rng)
        system.join_all(joins)
        assert edges[one.case.seed] == sorted(system.edges())


def test_trees_do_not_depend_on_order_or_partitions_of_the_members(spark, edges):
    b = 2
    members = worlds.members(spark, b).orderBy(F.col("node").desc()).repartition(5)
    groups = worlds.groups(spark, b).orderBy(F.rand(1)).repartition(3)
    rounds = scribe.join(worlds.overlay(spark, b), groups, members)
    children = Scribe.children(rounds.tables).select("group", "parent", "child")
    again = worlds.by_seed(map(tuple, children.collect()), 0, 1, 2)
    for one in worlds.of_b(b):
        assert again[one.case.seed] == edges[one.case.seed]
    rounds.release()


def test_a_round_of_join_shuffles_nothing_but_its_messages(spark):
    members = worlds.members(spark, 2).repartition("node").persist()
    rounds = scribe.join(worlds.overlay(spark, 2), worlds.groups(spark, 2), members)
    assert len(rounds.tables) > 2
    onward = Scribe("JOIN").forward(rounds.tables[-1], rounds.tables)
    plan = onward._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "Union" not in plan  # and the rounds before are one leaf of its plan
    rounds.release()
    members.unpersist()


def test_every_tree_has_one_root_and_no_loop_and_reaches_every_member_once(edges):
    for one in worlds.worlds():
        mine = edges[one.case.seed]
        received = Counter((group, child) for group, _, child in mine)
        assert set(received.values()) <= {1}
        parent_of = {(group, child): parent for group, parent, child in mine}
        in_tree = {(group, node) for group, *ends in mine for node in ends}
        for group, node in in_tree | set(one.case.joins()):
            here, steps = node, 0
            while (group, here) in parent_of:
                here, steps = parent_of[group, here], steps + 1
                assert steps <= len(one.case.ids)
            assert here == one.roots[group]
        # nobody forwards for nothing: leaves are members
        parents = {(group, parent) for group, parent, _ in mine}
        assert {at for at in in_tree if at not in parents} <= set(one.case.joins())


def test_edges_carry_routers_and_delays(spark):
    rows = worlds.edges(spark).collect()
    assert rows
    for row in rows:
        one = worlds.worlds()[row["group"] // worlds.STRIDE]
        parent, child = row["parent"] - one.base, row["child"] - one.base
        routers = row["parent_router"] - one.base, row["child_router"] - one.base
        assert routers == (one.case.router[parent], one.case.router[child])
        assert row["delay_us"] == one.overlay.proximity(parent, child)


# --- the upcalls, by hand -------------------------------------------------------------------------

SENT = (
    "node bigint, key_hi bigint, key_lo bigint, group bigint, source bigint, source_router bigint"
)
MESSAGE = f"{SENT}, router bigint, next bigint"


def message(node: int, source: int, group: int = 1, following: int | None = 99) -> tuple:
    return (node, 0, 0, group, source, 10 * source, 10 * node, following)


def forwarded(spark, *rounds: list[tuple], kind: str = "JOIN") -> list[tuple]:
    """What `forward` lets pass of the last of some rounds."""
    past = [spark.createDataFrame(rows, MESSAGE) for rows in rounds]
    onward = Scribe(kind).forward(past[-1], past)
    assert set(onward.columns) == set(past[-1].columns)
    onward = onward.select("group", "node", "source", "source_router", "next")
    return sorted(map(tuple, onward.collect()))


def test_forward_takes_over_a_join_once_per_group_and_node(spark):
    arrivals = [message(5, 1), message(5, 2), message(5, 2, group=2), message(6, 3)]
    taken_over = [(1, 5, 5, 50, 99), (1, 6, 6, 60, 99), (2, 5, 5, 50, 99)]
    assert forwarded(spark, [message(1, 1)], arrivals) == taken_over


def test_forward_at_a_node_in_the_tree_ends_the_join(spark):
    # 5 has sent its own JOIN, 6 has forwarded one; 7 only for another group
    earlier = [[message(5, 5)], [message(6, 4), message(7, 4, group=2)]]
    now = [message(5, 1), message(6, 1), message(7, 1)]
    assert forwarded(spark, *earlier, now) == [(1, 7, 7, 70, 99)]


def test_forward_lets_creates_and_a_nodes_own_join_pass(spark):
    own = [message(5, 5), message(6, 6)]
    assert forwarded(spark, own) == [(1, 5, 5, 50, 99), (1, 6, 6, 60, 99)]
    creates = [message(5, 1), message(5, 2)]
    passed = [(1, 5, 1, 10, 99), (1, 5, 2, 20, 99)]
    assert forwarded(spark, [message(5, 5)], creates, kind="CREATE") == passed


def test_children_are_the_sources_of_joins_of_others(spark):
    past = [
        spark.createDataFrame([message(5, 5)], MESSAGE),
        spark.createDataFrame([message(7, 5, following=None), message(7, 6, group=2)], MESSAGE),
    ]
    found = Scribe.children(past)
    assert found.columns == ["group", "parent", "child", "parent_router", "child_router"]
    assert sorted(map(tuple, found.collect())) == [(1, 7, 5, 70, 50), (2, 7, 6, 70, 60)]


def test_deliver_sends_on_a_multicast_only(spark):
    at = spark.createDataFrame(
        [(1, 7, 2, 500), (2, 7, 0, 0), (1, 8, 1, 1)],
        "group bigint, node bigint, hops int, delay_us bigint",
    )
    tables = spark.createDataFrame(
        [(1, 7, 5, 30), (1, 7, 6, 40), (3, 7, 9, 1)],
        "group bigint, parent bigint, child bigint, delay_us bigint",
    )
    sent = Scribe("MULTICAST", tables).deliver(at, [])
    assert sent.columns == at.columns
    assert sorted(map(tuple, sent.collect())) == [(1, 5, 3, 530), (1, 6, 3, 540)]
    assert Scribe("JOIN").deliver(at, []) is None
    assert Scribe("CREATE", tables).deliver(at, []) is None


@dataclass(frozen=True)
class Spy(Application):
    """Scribe, with the nodes that the upcalls are called at."""

    forwards: list
    delivers: list
    remembers = True

    def forward(self, messages, past):
        self.forwards.extend(r["node"] for r in messages.select("node").collect())
        return Scribe("JOIN").forward(messages, past)

    def deliver(self, messages, past):
        self.delivers.extend(r["node"] for r in messages.select("node").collect())
        return Scribe("JOIN").deliver(messages, past)


def test_forward_is_called_on_the_way_and_deliver_at_the_root(spark):
    one = max(worlds.of_b(4), key=lambda w: max((len(r) for r in routes(w)), default=0))
    route = max(routes(one), key=len)
    group, member = next(
        (g, m) for g, m in one.case.joins() if one.overlay.route(m, one.case.keys[g]) == route
    )
    overlay: Overlay = worlds.overlay(spark, 4)
    spy = Spy([], [])
    row = (one.base + member, *worlds.halves(one.case.keys[group]), one.base + group)
    sent = spark.createDataFrame(
        [(*row, one.base + member, one.base + one.case.router[member])], SENT
    )
    overlay.route(spy, sent).release()
    assert len(route) > 2
    assert spy.forwards == [one.base + node for node in route[:-1]]
    assert spy.delivers == [one.base + route[-1]]


def routes(one: worlds.World) -> list[list[int]]:
    return [one.overlay.route(member, one.case.keys[group]) for group, member in one.case.joins()]
