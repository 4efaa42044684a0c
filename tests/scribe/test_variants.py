"""The tree variants over all cases, against their oracles."""

from __future__ import annotations

import random
from collections import Counter

import keyed
import numpy as np
import pytest
import worlds
from oracle.bottleneck import Removal, randomised_route, remove_bottlenecks
from oracle.variants import collapse, grow_lazily, in_waves

from scribe_spark import scribe
from scribe_spark.config import TreesConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_process import play
from scribe_spark.engine.program import AT, deliver
from scribe_spark.overlay.route import Route
from scribe_spark.pastry.bucket_tables import KNOWN
from scribe_spark.pastry.overlay import PastryNextHop
from scribe_spark.progress import Silent
from scribe_spark.runtime import blocks
from scribe_spark.scribe import variants
from scribe_spark.scribe.rejoin import ATTEMPTS
from scribe_spark.scribe.trees import Run
from scribe_spark.scribe.variants.bottleneck import Remover
from scribe_spark.scribe.variants.lazy import Ask, TakeIn
from scribe_spark.scribe.variants.planted import Limited

SEED = 7


def limits(one: worlds.World) -> dict[int, int]:
    """A limit for every node of a case: all the same, or from 2 up (1 would make long chains)."""
    rng = random.Random(one.case.seed)
    most = rng.choice([3, 4, 6])
    least = rng.choice([2, most])
    return {node: rng.randint(least, most) for node in one.case.ids}


def forest(spark, b: int | None = None, **changes) -> scribe.VariantContext:
    """All cases (of one b), with their limits, as a variant gets them."""
    cases = worlds.worlds() if b is None else worlds.of_b(b)
    rows = [(one.base + node, most) for one in cases for node, most in limits(one).items()]
    capacities = spark.createDataFrame(rows, "node bigint, limit bigint").repartition("node")
    groups = worlds.groups(spark, b)
    edges = worlds.edges(spark)
    if b is not None:
        edges = edges.join(groups.select("group"), "group", "left_semi")
    return scribe.VariantContext(
        worlds.overlay(spark, b or 4),
        groups,
        worlds.members(spark, b).repartition("node"),
        blocks.materialise(edges.repartition("parent"))[0],
        TreesConfig(**changes),
        SEED,
        Silent(),
        capacities,
    )


def edges_of(variant: scribe.Variant) -> dict[int, list[tuple]]:
    """seed -> (group, parent, child), in the case's own numbers; routers and delays checked."""
    rows = variant.edges.collect()
    routers = {n: w.base + r for w in worlds.worlds() for n, r in _routers(w)}
    for row in rows:
        assert row["parent_router"] == routers[row["parent"]]
        assert row["child_router"] == routers[row["child"]]
        one = worlds.worlds()[row["group"] // worlds.STRIDE]
        ends = row["parent"] - one.base, row["child"] - one.base
        assert row["delay_us"] == one.overlay.proximity(*ends)
    return worlds.by_seed([(r["group"], r["parent"], r["child"]) for r in rows], 0, 1, 2)


def _routers(one: worlds.World):
    return [(one.base + node, router) for node, router in one.case.router.items()]


def draws_of(one: worlds.World, purposes: dict[str, str]):
    """The oracle's draws of a case are Spark's, whose rows have the case's base added."""

    def draws(purpose: str, *ids: int) -> int:
        rows = list(ids)
        if purpose == "rejoin":  # group, child, attempt, node, candidate
            attempt = rows.pop(2)
        rows = [row + one.base for row in rows]
        if purpose == "rejoin":
            rows.insert(2, attempt)
        return keyed.bits(SEED, purposes[purpose], *rows)

    return draws


DRAWS = {"shed": "shed", "rejoin": "randomised hop", "wave": "arrival"}


def assert_trees(one: worlds.World, edges: list[tuple]) -> None:
    """One root, one parent, no loop, every member reached."""
    received = Counter((group, child) for group, _, child in edges)
    assert set(received.values()) <= {1}
    parent_of = {(group, child): parent for group, parent, child in edges}
    for group, at in [*received, *[(g, m) for g, ms in one.case.members.items() for m in ms]]:
        for _ in range(len(one.case.ids) + 1):
            if at == one.roots[group]:
                break
            at = parent_of[group, at]
        assert at == one.roots[group]


@pytest.mark.parametrize("b", [4, pytest.param(None, marks=pytest.mark.slow)])
def test_collapse_equals_the_oracle(spark, b):
    variant = variants.collapse(forest(spark, b))
    found = edges_of(variant)
    shorter = 0
    for one in worlds.worlds() if b is None else worlds.of_b(b):
        expected = collapse(one.grown.edges(), one.case.members, one.roots)
        assert found[one.case.seed] == sorted(expected), one.case.seed
        assert_trees(one, found[one.case.seed])
        shorter += len(expected) < len(one.grown.edges())
    assert shorter > (5 if b else 50)
    variant.release()


@pytest.mark.parametrize(
    "b", [4, *(pytest.param(b, marks=pytest.mark.slow) for b in worlds.BS if b != 4)]
)
def test_lazy_growth_equals_the_oracle(spark, b):
    variant = variants.grow_lazily(forest(spark, b))
    found = edges_of(variant)
    adopted = 0
    for one in worlds.of_b(b):
        members = one.case.members
        routes = {
            (group, node): one.overlay.route(node, one.case.keys[group])[1:]
            for group, its in members.items()
            for node in its
        }
        waves = in_waves(members, draws_of(one, DRAWS))
        expected = grow_lazily(routes, waves, one.roots, limits(one))
        assert found[one.case.seed] == sorted(expected), one.case.seed
        assert_trees(one, found[one.case.seed])
        adopted += any(child not in members[group] for group, _, child in expected)
    assert adopted > 0 or b == 8  # routes of one hop
    variant.release()


def removed(one: worlds.World, rules: TreesConfig) -> Removal:
    """The oracle's."""
    draws = draws_of(one, DRAWS)

    def rejoin(child: int, group: int, attempt: int) -> list[int]:
        key = one.case.keys[group]
        return randomised_route(one.overlay, key, group, child, attempt, draws, ATTEMPTS)

    return remove_bottlenecks(
        one.grown.edges(),
        one.overlay.proximity,
        limits(one),
        shed_group=rules.shed_group,
        shed_child=rules.shed_child,
        shed_table=rules.shed_table,
        draws=draws,
        rejoin=rejoin,
    )


@pytest.mark.parametrize(
    ("b", "changes"),
    [
        (4, {}),
        *(pytest.param(b, {}, marks=pytest.mark.slow) for b in worlds.BS if b != 4),
        pytest.param(4, {"shed_group": "random", "shed_child": "nearest"}, marks=pytest.mark.slow),
        pytest.param(2, {"shed_table": "whole"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_bottleneck_remover_equals_the_oracle(spark, b, changes):
    start = forest(spark, b, **changes)
    variant = variants.remove_bottlenecks(start)
    found = edges_of(variant)
    sent = variant.joins.select("group", "parent", "child", "probes").where("probes > 0").collect()
    joins = worlds.by_seed(map(tuple, sent), 0, 1, 2)
    overloaded, rejoined, acted = 0, 0, 0
    for one in worlds.of_b(b):
        ours = removed(one, start.rules)
        assert found[one.case.seed] == sorted(ours.edges), one.case.seed
        assert_trees(one, found[one.case.seed])
        expected = sorted((join.group, join.to, join.child, join.probes) for join in ours.joins)
        assert joins[one.case.seed] == expected
        overloaded += len(ours.overloaded)
        rejoined += len(ours.rejoins)
        acted += bool(ours.joins)
    assert variant.overloaded == overloaded
    assert acted > (5 if b == 8 else 15)
    assert (rejoined > 0) == (start.rules.shed_table == "whole")
    variant.release()


# --- the programs, over buckets in process


def in_buckets(one: worlds.World, buckets: int) -> tuple[Run, list[Tables]]:
    """What programs over a case share, and what the nodes of each bucket know."""
    bounds, facts = bucket_bounds(one.ring, buckets, one.case.b), RingInMemory(one.ring)
    numbers = sorted(one.case.keys)
    keys = [one.case.keys[number] for number in numbers]
    halves = np.array([(key >> 64, key & (2**64 - 1)) for key in keys], dtype=np.uint64)
    run = Run(
        *(bounds, facts, PastryNextHop(facts), np.array(numbers) + one.base),
        *(halves[:, 0].copy(), halves[:, 1].copy(), one.kernel, worlds.LAN_US),
    )
    tables = [Tables.of({KNOWN: known}) for known in one.make_tables(bounds)]
    own = np.array([(one.base + node, most) for node, most in limits(one).items()])
    sent = {AT: one.ring.positions(own[:, 0]), "number": own[:, 0], "limit": own[:, 1]}
    for bucket, _, columns in deliver(bounds, {"limit": sent}):
        tables[bucket]["limit"] = {name: columns[name] for name in ("number", "limit")}
    return run, tables


def positions(one: worlds.World, rows: list[tuple]) -> list[np.ndarray]:
    """(group, node, ...): indices of groups, and positions of nodes."""
    columns = np.array(rows, dtype=np.int64).T
    group = np.searchsorted(sorted(one.case.keys), columns[0])
    return [group, *(one.ring.positions(column + one.base) for column in columns[1:])]


def edges_in(one: worlds.World, tables: list[Tables]) -> list[tuple]:
    """(group, parent, child) in the case's own numbers, sorted."""
    numbers, node = sorted(one.case.keys), one.ring.node - one.base
    found = []
    for mine in tables:
        place, child = (
            np.divmod(mine["children"]["key"], len(node)) if "children" in mine else ([], [])
        )
        for at, below in zip(place, child, strict=True):
            group, parent = divmod(int(at), len(node))
            found.append((numbers[group], int(node[parent]), int(node[below])))
    return sorted(found)


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_rounds_of_the_remover_do_not_depend_on_buckets(buckets):
    acted = 0
    for one in worlds.worlds()[::4]:
        ours, grown = removed(one, TreesConfig()), sorted(one.grown.edges())
        if not grown:
            continue
        run, tables = in_buckets(one, buckets)
        group, parent, child = positions(one, grown)
        first = {"edge": {AT: parent, "group": group, "child": child}}
        counts = play(Remover(run, Limited(), SEED), tables, first)
        assert edges_in(one, tables) == sorted(ours.edges)
        assert sum(counts) == len(ours.joins)
        acted += bool(ours.joins)
    assert acted > 15


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_waves_of_lazy_growth_do_not_depend_on_buckets(buckets):
    cases = [one for one in worlds.worlds()[::6] if one.case.keys]
    assert len(cases) > 30
    for one in cases:
        members = one.case.members
        routes = {
            (group, node): one.overlay.route(node, one.case.keys[group])[1:]
            for group, its in members.items()
            for node in its
        }
        waves = in_waves(members, draws_of(one, DRAWS))
        expected = grow_lazily(routes, waves, one.roots, limits(one))
        run, tables = in_buckets(one, buckets)
        joins = [(g, n, wave) for wave, its in enumerate(waves) for g, n in its]
        group, root = positions(one, list(one.roots.items()))
        first = {"root": {AT: root, "group": group}}
        if joins:
            group, at = positions(one, [join[:2] for join in joins])
            wave = np.array([join[2] for join in joins])
            first["member"] = {AT: at, "group": group, "wave": wave}
        taking = TakeIn(run, Limited(), SEED)
        play(taking, tables, first)
        for number in range(len(waves)):
            ways = (run.rule, run.kernel, worlds.LAN_US)
            payload = ("group", "member", "previous")
            asking = Route(run.bounds, run.facts, Ask(run, number), payload, None, *ways)
            play(asking, tables)
            play(taking, tables)
        assert edges_in(one, tables) == sorted(expected)
