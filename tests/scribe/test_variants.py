"""The tree variants over all cases, against the oracle."""

import functools
import random
from typing import Any, NamedTuple

import keyed
import pytest
import worlds
from oracle.living.overlay import Overlay
from oracle.scribe_living import in_run
from oracle.scribe_living.bottleneck import overloaded
from oracle.scribe_living.state import Scribe

from scribe_spark.config import TreesConfig
from scribe_spark.core.progress import Silent
from scribe_spark.runtime import blocks
from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe import variants

SEED = 7


def limits(one: worlds.World) -> dict[int, int]:
    """A limit for every node of a case: all the same, or from 2 up (1 would make long chains)."""
    rng = random.Random(one.case.seed)
    most = rng.choice([3, 4, 6])
    least = rng.choice([2, most])
    return {node: rng.randint(least, most) for node in one.case.ids}


def forest(spark, b: int, in_tasks: bool, **changes) -> variants.VariantContext:
    """All cases of one b with their limits, as a variant gets them."""
    cases = worlds.of_b(b)
    rows = [(one.base + node, most) for one in cases for node, most in limits(one).items()]
    capacities = spark.createDataFrame(rows, "node bigint, limit bigint").repartition("node")
    groups, edges = worlds.groups(spark, b), worlds.edges(spark, b)
    members = worlds.members(spark, b).repartition("node")
    overlay = worlds.overlay(spark, b)
    trees = scribe_trees.plant_trees(overlay, groups, members, edges)
    trees.in_tasks = in_tasks
    return variants.VariantContext(
        overlay,
        groups,
        members,
        blocks.materialise(edges.repartition("parent"))[0],
        TreesConfig(**changes),
        SEED,
        Silent(),
        capacities,
        trees,
    )


def edges_of(variant: variants.Variant) -> dict[int, list[tuple]]:
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


@functools.cache
def perfect_overlay(seed: int) -> Overlay:
    """The oracle's of a case; its draws are Spark's, whose rows have the case's base added."""
    one = worlds.worlds()[seed]

    def draw(purpose: str, *ids: int, among: int | None = None) -> int:
        rows = [number + one.base for number in ids]
        if purpose == "randomised hop":  # group, child, attempt, node, candidate
            rows[2] = ids[2]
        return keyed.bits(SEED, purpose, *rows)

    return in_run.perfect_overlay(one.case, one.overlay.proximity, draw)


def planted(seed: int, trees: bool = True, **settings: Any) -> Scribe:
    """A case's trees before a variant acts, or members that have not joined; their limits."""
    one = worlds.worlds()[seed]
    given = (one.case.keys, one.roots, one.case.members, one.grown.edges() if trees else ())
    return in_run.plant(perfect_overlay(seed), *given, limits(one), **settings)


@functools.cache
def collapsed(seed: int) -> list[tuple]:
    """The oracle's edges of a case."""
    return sorted(in_run.collapse_paths(planted(seed, collapse=True)))


@functools.cache
def lazily(seed: int) -> list[tuple]:
    """The oracle's edges of a case."""
    return sorted(in_run.grow_lazily(planted(seed, trees=False)))


class Removed(NamedTuple):
    """What the bottleneck remover makes of a case.

    `joins` to siblings: (group, sibling, child, probes), sorted; `rejoined` is the number of JOINs
    with randomised routes that were accepted.
    """

    edges: list[tuple]
    joins: list[tuple]
    overloaded: list[int]
    rejoined: int


@functools.cache
def removed(seed: int, *shed: str) -> Removed:
    """What the oracle makes of a case; `shed`: which group, child, table."""
    scribe = planted(seed, shed=shed)
    made = in_run.remove_bottlenecks(scribe)
    joins = sorted((group, to, child, n) for one in made for group, _, child, to, n in one.chosen())
    rejoined = sum(taken for one in made for *_, taken in one.routed)
    return Removed(sorted(in_run.edges_of(scribe)), joins, overloaded(scribe), rejoined)


@pytest.mark.parametrize(
    ("name", "b"),
    [
        ("grow_lazily", 4),
        *(pytest.param("collapse", b, marks=pytest.mark.slow) for b in worlds.BS),
        *(pytest.param("grow_lazily", b, marks=pytest.mark.slow) for b in worlds.BS if b != 4),
    ],
)
def test_variants_without_drops_equal_the_oracle(spark, name, b):
    """Trees get shorter by collapse; lazy growth lets some nodes that are no members adopt."""
    lazy_one = name == "grow_lazily"
    variant = getattr(variants, name)(forest(spark, b, in_tasks=lazy_one and b == 4))
    found = edges_of(variant)
    for one in worlds.of_b(b):
        expected = (lazily if lazy_one else collapsed)(one.case.seed)
        assert found[one.case.seed] == expected, one.case.seed
    variant.release()


#: The seed of a case for which the remover takes three times as many supersteps as for any other.
LONG = 2


@pytest.mark.parametrize(
    ("b", "in_tasks", "changes"),
    [
        (4, True, {}),
        *(pytest.param(b, False, {}, marks=pytest.mark.slow) for b in worlds.BS),
        *(
            pytest.param(b, False, changes, marks=pytest.mark.slow)
            for b, changes in (
                (4, {"shed_group": "random", "shed_child": "nearest"}),
                (2, {"shed_table": "whole"}),
            )
        ),
    ],
    ids=str,
)
def test_bottleneck_remover_equals_the_oracle(spark, b, in_tasks, changes):
    start = forest(spark, b, in_tasks, **changes)
    shed = start.rules.shed_group, start.rules.shed_child, start.rules.shed_table
    variant = variants.remove_bottlenecks(start)
    found = edges_of(variant)
    sent = variant.joins.select("group", "parent", "child", "probes").where("probes > 0").collect()
    joins = worlds.by_seed(map(tuple, sent), 0, 1, 2)
    above, rejoined, acted = 0, 0, 0
    for one in worlds.of_b(b):
        ours = removed(one.case.seed, *shed)
        assert found[one.case.seed] == ours.edges, one.case.seed
        assert joins[one.case.seed] == ours.joins
        above += len(ours.overloaded)
        rejoined += ours.rejoined
        acted += bool(ours.joins)
    assert variant.overloaded == above
    assert acted > (5 if b == 8 else 15)
    assert (rejoined > 0) == (start.rules.shed_table == "whole")
    variant.release()


def test_trees_that_grow_in_tasks_are_the_oracles(spark):
    """JOINs, MULTICASTs and a variant, each in a job whose tasks exchange messages."""
    b, overlay = 4, worlds.overlay(spark, 4)
    assert overlay.ring.layout.buckets > 1
    groups, members = worlds.groups(spark, b), worlds.members(spark, b)
    trees = scribe_trees.build_trees(overlay, groups, members, in_tasks=True, publishes=True)
    assert trees.delivered is not None
    of_roots = worlds.by_seed(map(tuple, trees.delivered.frame.collect()), 0, 1)
    delivered, sent = scribe_trees.multicast(trees, groups, "routed")
    got = worlds.by_seed(map(tuple, delivered.frame.collect()), 0, 1)
    rest = trees.edges(), TreesConfig(), SEED, Silent(), None, trees
    variant = variants.collapse(variants.VariantContext(overlay, groups, members, *rest))
    own, shorter = edges_of(variants.Variant(trees.edges())), edges_of(variant)
    for one in worlds.of_b(b):
        seed = one.case.seed
        assert own[seed] == sorted(one.grown.edges()), seed
        assert of_roots[seed] == one.deliveries("root"), seed
        assert got[seed] == one.deliveries("routed"), seed
        assert shorter[seed] == collapsed(seed), seed
    assert trees.engine.tables.costs.supersteps == 0  # nothing was a job of its own
    for played in (variant, sent, trees):
        played.release()
