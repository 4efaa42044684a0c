"""CREATE and JOIN: roots and trees of all cases, against the oracle, and what trees must be."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import worlds
from oracle import scribe as oracle_scribe
from pyspark.sql import functions as F
from scribe_spark.scribe.application import Kind

from scribe_spark import scribe
from scribe_spark.overlay import Overlay
from scribe_spark.runtime import blocks
from scribe_spark.scribe import Scribe, operations
from scribe_spark.superstep import Round, Table


@pytest.fixture(scope="module")
def edges(spark) -> dict[int, list[tuple]]:
    """seed -> (group, parent, child) that `scribe.join` made, in the case's own numbers."""
    table = worlds.edges(spark).select("group", "parent", "child")
    return worlds.by_seed(map(tuple, table.collect()), 0, 1, 2)


@pytest.mark.parametrize("b", worlds.BS)
def test_create_is_delivered_at_the_root(spark, b):
    overlay = worlds.overlay(spark, b)
    trees = scribe.create(overlay, worlds.groups(spark, b))
    delivered = overlay.add_path_delay(trees.created.outcomes())
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
    trees.release()


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
    trees = scribe.join(worlds.overlay(spark, b), groups, members)
    again = worlds.by_seed(in_tuples(trees), 0, 1, 2)
    for one in worlds.of_b(b):
        assert again[one.case.seed] == edges[one.case.seed]
    trees.release()


def in_tuples(trees: scribe.Trees) -> list[tuple]:
    return [tuple(row) for row in trees.edges().select("group", "parent", "child").collect()]


@pytest.mark.parametrize("b", [1, 4])
def test_create_and_join_in_one_loop_are_what_they_are_apart(spark, edges, b):
    overlay, groups = worlds.overlay(spark, b), worlds.groups(spark, b)
    trees = scribe.build_trees(overlay, groups, worlds.members(spark, b))
    together = worlds.by_seed(in_tuples(trees), 0, 1, 2)
    for one in worlds.of_b(b):
        assert together[one.case.seed] == edges[one.case.seed]
    roots = {row["group"]: row["node"] for row in trees.created.outcomes().collect()}
    assert roots == {row["group"]: row["root"] for row in groups.collect()}
    trees.release()


def test_a_second_batch_of_joins_grows_the_trees_of_the_first(spark, edges):
    b = 4
    overlay, groups = worlds.overlay(spark, b), worlds.groups(spark, b)
    members = worlds.members(spark, b)
    draw = F.xxhash64("group", "node") % 3 == 0
    first = scribe.join(overlay, groups, members.where(draw))
    some = len(in_tuples(first))
    both = scribe.join(overlay, groups, members.where(~draw), children=first.children)
    grown = worlds.by_seed(in_tuples(both), 0, 1, 2)
    for one in worlds.of_b(b):
        assert grown[one.case.seed] == edges[one.case.seed]
    assert 0 < some < sum(map(len, grown.values()))
    both.release()


def test_a_round_of_join_shuffles_nothing_but_its_messages(spark):
    members = worlds.members(spark, 2).repartition("node").persist()
    watched = Watched(scribe.children_table(), Kind.JOIN)
    joins = operations._joins(worlds.groups(spark, 2), members)
    worlds.overlay(spark, 2).route(watched, joins).release()
    assert len(watched.plans) > 2
    for plan in watched.plans[1:]:
        assert "Exchange" not in plan
        assert "Union" not in plan  # the rounds before are one leaf of the plan
    members.unpersist()


class Watched(Scribe):
    """Scribe, and what Spark makes of each round of it."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.plans: list[str] = []

    def forward(self, state, messages, round):
        done = super().forward(state, messages, round)
        self.plans.append(done.outbox._jdf.queryExecution().executedPlan().toString())
        return done


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
    "node bigint, key_hi bigint, key_lo bigint, kind int, group bigint, source bigint, "
    "source_router bigint, path array<bigint>"
)
MESSAGE = f"{SENT}, router bigint, next bigint"


def message(
    node: int, source: int, group: int = 1, following: int | None = 99, kind: Kind = Kind.JOIN
) -> tuple:
    return (node, 0, 0, int(kind), group, source, 10 * source, None, 10 * node, following)


def children_of(spark, *rows: tuple[int, int, int]) -> Table:
    """A table of (group, node, child)."""
    table = scribe.children_table()
    if rows:
        frame = spark.createDataFrame(
            [(g, n, c, 10 * n, 10 * c) for g, n, c in rows],
            "group bigint, node bigint, child bigint, router bigint, child_router bigint",
        )
        change = table.prepare(frame, len(rows))
        table.write(change, *blocks.materialise(change.frame))
    return table


def round_of(application: Scribe, inbox) -> Round:
    """What the loop counts of an inbox."""
    counts = {name: inbox.where(which).count() for name, which in application.counts.items()}
    return Round(0, inbox.count(), counts)


def forwarded(spark, known: list[tuple], arrivals: list[tuple], *kinds: Kind):
    """What `forward` lets pass, and what it adds to children tables."""
    application = Scribe(children_of(spark, *known), *(kinds or [Kind.JOIN]))
    inbox = spark.createDataFrame(arrivals, MESSAGE)
    done = application.forward(application.state, inbox, round_of(application, inbox))
    assert set(done.outbox.columns) == set(inbox.columns)
    onward = done.outbox.select("group", "node", "source", "source_router", "next").collect()
    changes = done.changes.get("children")
    rows = [] if changes is None else changes.select("group", "node", "child").collect()
    return sorted(map(tuple, onward)), sorted(map(tuple, rows))


def test_forward_takes_over_a_join_once_per_group_and_node(spark):
    arrivals = [message(5, 1), message(5, 2), message(5, 2, group=2), message(6, 3)]
    taken_over = [(1, 5, 5, 50, 99), (1, 6, 6, 60, 99), (2, 5, 5, 50, 99)]
    accepted = [(1, 5, 1), (1, 5, 2), (1, 6, 3), (2, 5, 2)]
    assert forwarded(spark, [(1, 1, 1)], arrivals) == (taken_over, accepted)


def test_forward_at_a_node_in_the_tree_ends_the_join(spark):
    # 5 has joined itself, 6 has forwarded a JOIN; 7 only for another group
    known = [(1, 5, 5), (1, 6, 4), (2, 7, 4)]
    now = [message(5, 1), message(6, 1), message(7, 1)]
    assert forwarded(spark, known, now) == ([(1, 7, 7, 70, 99)], [(1, 5, 1), (1, 6, 1), (1, 7, 1)])


def test_forward_lets_creates_and_a_nodes_own_join_pass(spark):
    own = [message(5, 5), message(6, 6)]
    passed = [(1, 5, 5, 50, 99), (1, 6, 6, 60, 99)]
    assert forwarded(spark, [], own) == (passed, [(1, 5, 5), (1, 6, 6)])
    creates = [message(5, 1, kind=Kind.CREATE), message(6, 2, kind=Kind.CREATE)]
    passed = [(1, 5, 1, 10, 99), (1, 6, 2, 20, 99)]
    assert forwarded(spark, [(1, 5, 5)], creates, Kind.CREATE) == (passed, [])
    # beside JOINs of the same group at the same node, in the tree already
    mixed = [*creates, message(5, 9)]
    assert forwarded(spark, [(1, 5, 5), (1, 5, 7)], mixed, Kind.CREATE, Kind.JOIN) == (
        passed,
        [(1, 5, 9)],
    )


def test_edges_are_the_joins_of_others(spark):
    children = children_of(spark, (1, 5, 5), (1, 7, 5), (2, 7, 6))
    found = scribe.Trees(None, children).edges()
    assert found.columns == ["group", "parent", "child", "parent_router", "child_router"]
    assert sorted(map(tuple, found.collect())) == [(1, 7, 5, 70, 50), (2, 7, 6, 70, 60)]


def test_deliver_sends_a_multicast_to_the_children(spark):
    at = spark.createDataFrame(
        [(1, 7, 2, 500), (2, 7, 0, 0), (1, 8, 1, 1)],
        "group bigint, node bigint, hops int, delay_us bigint",
    )
    entries = spark.createDataFrame(
        [(1, 7, 5, 30), (1, 7, 6, 40), (3, 7, 9, 1)],
        "group bigint, node bigint, child bigint, delay_us bigint",
    )
    table = Table(["group", "node", "child"], ["delay_us"], append_only=True, initial=entries)
    application = Scribe(table, Kind.MULTICAST)
    done = application.deliver(application.state, at, round_of(application, at))
    assert done.outcomes is at
    assert done.outbox.columns == at.columns
    assert sorted(map(tuple, done.outbox.collect())) == [(1, 5, 3, 530), (1, 6, 3, 540)]


def test_deliver_tells_roots_of_creates_and_accepts_joins(spark):
    arrivals = [message(5, 1, kind=Kind.CREATE, following=None), message(5, 2, following=None)]
    application = Scribe(children_of(spark), Kind.CREATE, Kind.JOIN)
    inbox = spark.createDataFrame(arrivals, MESSAGE)
    done = application.deliver(application.state, inbox, round_of(application, inbox))
    assert done.outbox is None
    assert [(r["node"], r["source"]) for r in done.outcomes.collect()] == [(5, 1)]
    added = done.changes["children"].select("group", "node", "child").collect()
    assert [tuple(row) for row in added] == [(1, 5, 2)]


class Spy(Scribe):
    """Scribe, with the nodes that the upcalls are called at."""

    def __init__(self) -> None:
        super().__init__(scribe.children_table(), Kind.JOIN)
        self.forwards: list[int] = []
        self.delivers: list[int] = []

    def forward(self, state, messages, round):
        self.forwards.extend(r["node"] for r in messages.select("node").collect())
        return super().forward(state, messages, round)

    def deliver(self, state, messages, round):
        self.delivers.extend(r["node"] for r in messages.select("node").collect())
        return super().deliver(state, messages, round)


def test_forward_is_called_on_the_way_and_deliver_at_the_root(spark):
    one = max(worlds.of_b(4), key=lambda w: max((len(r) for r in routes(w)), default=0))
    route = max(routes(one), key=len)
    group, member = next(
        (g, m) for g, m in one.case.joins() if one.overlay.route(m, one.case.keys[g]) == route
    )
    overlay: Overlay = worlds.overlay(spark, 4)
    spy, at = Spy(), one.base + member
    key = worlds.halves(one.case.keys[group])
    router = one.base + one.case.router[member]
    row = (at, *key, int(Kind.JOIN), one.base + group, at, router, None)
    overlay.route(spy, spark.createDataFrame([row], SENT)).release()
    assert len(route) > 2
    assert spy.forwards == [one.base + node for node in route[:-1]]
    assert spy.delivers == [one.base + route[-1]]


def routes(one: worlds.World) -> list[list[int]]:
    return [one.overlay.route(member, one.case.keys[group]) for group, member in one.case.joins()]
