"""The tree variants over all cases, against the oracle."""

import functools
import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import keyed
import numpy as np
import pytest
import worlds
from oracle.living.overlay import Overlay
from oracle.scribe_living import in_run
from oracle.scribe_living.bottleneck import ATTEMPTS, SHED_CHILD, SHED_GROUP, SHED_TABLE, overloaded
from oracle.scribe_living.phase import Phase
from oracle.scribe_living.state import Join, Scribe
from played import halves

from scribe_spark.config import TreesConfig
from scribe_spark.core.progress import Silent
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory, bucket_bounds
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import AT
from scribe_spark.pastry.overlay import PastryNextHop
from scribe_spark.rounds.player import RoundPlayer
from scribe_spark.runtime import blocks
from scribe_spark.systems.scribe import small_groups as paths
from scribe_spark.systems.scribe import trees as scribe_trees
from scribe_spark.systems.scribe import variants
from scribe_spark.systems.scribe import variants as scribe_variants
from scribe_spark.systems.scribe.bottleneck import remove_bottlenecks
from scribe_spark.systems.scribe.events import JOINING
from scribe_spark.systems.scribe.scribe import ChildLimits, RoundOfGroups
from scribe_spark.systems.scribe.trees import CHILDREN, Plant, settled_environment, settled_round
from scribe_spark.systems.scribe.variants import grow_anew

SEED = 7


def limits(one: worlds.World) -> dict[int, int]:
    """A limit for every node of a case: all the same, or from 2 up (1 would make long chains)."""
    rng = random.Random(one.case.seed)
    most = rng.choice([3, 4, 6])
    least = rng.choice([2, most])
    return {node: rng.randint(least, most) for node in one.case.ids}


def forest(spark, b: int, in_tasks: bool, **changes) -> scribe_variants.VariantContext:
    """All cases of one b with their limits, as a variant gets them."""
    cases = worlds.of_b(b)
    rows = [(one.base + node, most) for one in cases for node, most in limits(one).items()]
    capacities = spark.createDataFrame(rows, "node bigint, limit bigint").repartition("node")
    groups, edges = worlds.groups(spark, b), worlds.edges(spark, b)
    members = worlds.members(spark, b).repartition("node")
    overlay = worlds.overlay(spark, b)
    trees = scribe_trees.plant_trees(overlay, groups, members, edges)
    trees.in_tasks = in_tasks
    return scribe_variants.VariantContext(
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


def edges_of(variant: scribe_variants.Variant) -> dict[int, list[tuple]]:
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


def planted(
    seed: int, trees: bool = True, limit_of_all: int | None = None, **settings: Any
) -> Scribe:
    """A case's trees before a variant acts, or members that have not joined; their limits."""
    one = worlds.worlds()[seed]
    given = (one.case.keys, one.roots, one.case.members, one.grown.edges() if trees else ())
    own = limits(one) if limit_of_all is None else dict.fromkeys(one.case.ids, limit_of_all)
    return in_run.plant(perfect_overlay(seed), *given, own, **settings)


@functools.cache
def collapsed(seed: int) -> list[tuple]:
    """The oracle's edges of a case."""
    return sorted(in_run.collapse_paths(planted(seed, collapse=True)))


@functools.cache
def lazily(seed: int, limit: int | None = None) -> list[tuple]:
    """The oracle's edges of a case, perhaps with the same limit for all nodes."""
    return sorted(in_run.grow_lazily(planted(seed, trees=False, limit_of_all=limit)))


class Removed(NamedTuple):
    """What the bottleneck remover makes of a case.

    `chosen` has (group, node that drops, child, sibling, probes) in order; `routed` has randomised
    routes: (group, path, accepted).
    """

    edges: list[tuple]
    chosen: list[tuple]
    overloaded: list[int]
    routed: list[tuple]

    @property
    def joins(self) -> list[tuple]:
        """The JOINs to siblings: (group, sibling, child, probes), sorted."""
        return sorted((group, to, child, n) for group, _, child, to, n in self.chosen)

    @property
    def rejoined(self) -> int:
        """The number of JOINs with randomised routes that were accepted."""
        return sum(accepted for *_, accepted in self.routed)


@functools.cache
def removed(seed: int, *shed: str) -> Removed:
    """What the oracle makes of a case; `shed`: which group, child, table."""
    scribe = planted(seed, shed=shed)
    made = in_run.remove_bottlenecks(scribe)
    chosen = [one for drops in made for one in drops.chosen()]
    routed = [(join.group, path, taken) for drops in made for join, path, taken in drops.routed]
    return Removed(sorted(in_run.edges_of(scribe)), chosen, overloaded(scribe), routed)


@pytest.mark.parametrize("b", worlds.EACH_B)
@pytest.mark.parametrize("name", ["collapse", "grow_lazily"])
def test_variants_without_drops_equal_the_oracle(spark, name, b):
    """Trees get shorter by collapse; lazy growth lets some nodes that are no members adopt."""
    lazy_one = name == "grow_lazily"
    variant = getattr(variants, name)(forest(spark, b, in_tasks=lazy_one and b == 4))
    found = edges_of(variant)
    acted = 0
    for one in worlds.of_b(b):
        expected = (lazily if lazy_one else collapsed)(one.case.seed)
        assert found[one.case.seed] == expected, one.case.seed
        if lazy_one:
            acted += any(child not in one.case.members[group] for group, _, child in expected)
        else:
            acted += len(expected) < len(one.grown.edges())
    assert acted > (0 if lazy_one else 5) or b == 8  # routes of one hop
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
    variant = variants.collapse(scribe_variants.VariantContext(overlay, groups, members, *rest))
    own, shorter = edges_of(scribe_variants.Variant(trees.edges())), edges_of(variant)
    for one in worlds.of_b(b):
        seed = one.case.seed
        assert own[seed] == sorted(one.grown.edges()), seed
        assert of_roots[seed] == one.deliveries("root"), seed
        assert got[seed] == one.deliveries("routed"), seed
        assert shorter[seed] == collapsed(seed), seed
    assert trees.engine.tables.costs.supersteps == 0  # nothing was a job of its own
    for played in (variant, sent, trees):
        played.release()


# --- the programs, over buckets in process


def in_buckets(
    one: worlds.World, buckets: int, edges: list, shed: tuple[str, str, str] | None = None
) -> tuple[RoundPlayer, RoundOfGroups]:
    """A case whose nodes know their trees."""
    bounds, facts = bucket_bounds(one.ring, buckets, one.case.b), RingInMemory(one.ring)
    numbers = sorted(one.case.keys)
    known = [(group, one.roots[group]) for group in numbers]
    first = {"root": _messages(one, known), JOINING: _messages(one, one.case.joins())}
    first |= {"parent": _messages(one, edges, "child")}
    first |= {"child": _messages(one, [(g, child, parent) for g, parent, child in edges], "parent")}
    groups = np.array(numbers) + one.base, *halves(one.case.keys, numbers)
    round = settled_round(*groups, len(one.ring), PastryNextHop(facts), worlds.LAN_US)
    names = ("shed_group", "shed_child", "shed_table")
    rules = TreesConfig(**dict(zip(names, shed, strict=True)) if shed else {})
    trees, roots = rules.for_tasks(), first["root"][AT]
    round = replace(round, trees=trees, limits=limits_of(one), roots=roots)
    engine = InTask([Tables.of(known) for known in one.make_tables(bounds)])
    player = RoundPlayer(engine, settled_environment(facts, bounds, one.kernel, SEED))
    sent = {kind: messages for kind, messages in first.items() if len(messages[AT])}
    engine.play(Plant(player.environment, round), sent)
    return player, round


def _messages(one: worlds.World, rows: list[tuple], *more: str) -> dict[str, np.ndarray]:
    """(group, node, ...): indices of groups, and positions of nodes."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 2 + len(more)).T
    group = np.searchsorted(sorted(one.case.keys), columns[0])
    at, *others = (one.ring.positions(column + one.base) for column in columns[1:])
    return {AT: at, "group": group, **dict(zip(more, others, strict=True))}


def limits_of(one: worlds.World) -> ChildLimits:
    """The limits of a case."""
    own = np.zeros(one.ring.node.max() + 1, dtype=np.int64)
    for node, most in limits(one).items():
        own[one.base + node] = most
    return ChildLimits(64, own)


def edges_in(one: worlds.World, tables: list[Tables]) -> list[tuple]:
    """(group, parent, child) in the case's own numbers, sorted."""
    numbers, node = sorted(one.case.keys), one.ring.node - one.base
    found = []
    for mine in tables:
        key = mine[CHILDREN]["key"] if CHILDREN in mine else np.empty(0, dtype=np.int64)
        place, child = np.divmod(key, len(node))
        for at, below in zip(place.tolist(), child.tolist(), strict=True):
            group, parent = divmod(at, len(node))
            found.append((numbers[group], int(node[parent]), int(node[below])))
    return sorted(found)


CASES = worlds.worlds()
SOME = [one for one in (CASES[LONG], *CASES[::6]) if one.grown.edges()]


def shed_of(one: worlds.World, table: str) -> tuple[str, str, str]:
    """By turns each rule for the group and the child to drop."""
    choices = list(itertools.product(SHED_GROUP, SHED_CHILD))
    return (*choices[one.case.seed // 2 % len(choices)], table)


@pytest.mark.parametrize("buckets", [1, 2, 7])
@pytest.mark.parametrize("table", SHED_TABLE)
def test_the_remover_in_buckets_equals_the_oracle(buckets: int, table: str) -> None:
    acted, rejoined = 0, 0
    assert len(SOME) > 30
    for one in SOME:
        ours, grown = removed(one.case.seed, *shed_of(one, table)), sorted(one.grown.edges())
        player, round = in_buckets(one, buckets, grown, shed_of(one, table))
        remove_bottlenecks(player, round)
        assert edges_in(one, player.engine.tables) == ours.edges, one.case.seed
        acted += bool(ours.joins)
        rejoined += ours.rejoined
    assert acted > 15
    assert (rejoined > 5) == (table == "whole")


@pytest.mark.parametrize("buckets", [1, 2, 7])
@pytest.mark.parametrize(
    ("play", "expected"),
    [(paths.collapse, collapsed), (grow_anew, lazily)],
    ids=["collapse", "lazy"],
)
def test_other_variants_in_buckets_equal_the_oracle(play, expected, buckets: int) -> None:
    changed = 0
    for one in SOME:
        grown = sorted(one.grown.edges())
        player, round = in_buckets(one, buckets, grown)
        play(player, round)
        assert edges_in(one, player.engine.tables) == expected(one.case.seed), one.case.seed
        changed += grown != expected(one.case.seed)
    assert changed > 5


# --- what holds of these trees


def assert_trees(one: worlds.World, edges: set[tuple]) -> None:
    """One parent for each node, no loop, and a multicast reaches each member once."""
    assert len({(group, child) for group, _, child in edges}) == len(edges)
    for group, root in one.roots.items():
        reached = [root]
        for node in reached:
            reached += [child for g, parent, child in edges if (g, parent) == (group, node)]
            assert len(reached) <= len(one.case.ids)
        in_group = {node for g, *ends in edges if g == group for node in ends}
        assert sorted(reached) == sorted(in_group | {root})
        assert one.case.members[group] <= set(reached)


@pytest.mark.parametrize("table", SHED_TABLE)
def test_the_remover_keeps_limits_and_moves_dropped_children_alone(table: str) -> None:
    above, refused = 0, 0
    for one in SOME:
        ours, most = removed(one.case.seed, *shed_of(one, table)), limits(one)
        edges, before = set(ours.edges), set(one.grown.edges())
        assert_trees(one, edges)
        loads = Counter(parent for _, parent, _ in edges)
        assert ours.overloaded == sorted(node for node, n in loads.items() if n > most[node])
        tables = Counter((group, parent) for group, parent, _ in edges)
        assert all(n == 1 for (_, parent), n in tables.items() if parent in ours.overloaded)
        below = {(group, child) for group, _, child in before}
        if table == "remaining":  # each child is dropped once in a step
            for group, parent, child, to, _ in ours.chosen:
                before.remove((group, parent, child))
                before.add((group, to, child))
            assert edges == before
            assert ours.routed == []
        else:
            on_routes = {(group, at) for group, path, taken in ours.routed if taken for at in path}
            assert below <= {(group, child) for group, _, child in edges} <= below | on_routes
        above += len(ours.overloaded)
        refused += sum(not taken for *_, taken in ours.routed)
    assert above > 0
    assert (refused > 5) == (table == "whole")


def test_any_limit_can_be_met_by_one_group() -> None:
    for one in SOME:
        scribe = planted(one.case.seed, limit_of_all=1)
        first = min(scribe.entries)
        scribe.entries = {first: scribe.entries[first]}
        in_run.remove_bottlenecks(scribe)
        assert overloaded(scribe) == []


def test_randomised_routes_end_at_the_root_and_never_return() -> None:
    for one in SOME:
        scribe = planted(one.case.seed, trees=False)
        removal = in_run.RemovalInRun(scribe, Phase(scribe.overlay))
        scribe.entries = {}  # nobody answers on the way
        for group, node in itertools.product(one.case.keys, one.case.ids):
            path = removal.route(Join(group, node, 0, "shed"), attempt=node % ATTEMPTS)
            assert (path[0], path[-1]) == (node, one.roots[group])
            assert len(set(path)) == len(path)


def test_collapse_keeps_members_roots_and_forks() -> None:
    for one in SOME:
        edges, after = one.grown.edges(), set(collapsed(one.case.seed))
        assert_trees(one, after)
        tables = Counter((group, parent) for group, parent, _ in edges)
        forks = {at for at, children in tables.items() if children > 1}
        roots = set(one.roots.items())
        kept = forks | set(one.case.joins()) | roots
        above = {(group, child): parent for group, parent, child in edges}
        expected = set()
        for group, node in kept - roots:
            parent = above[group, node]
            while (group, parent) not in kept:
                parent = above[group, parent]
            expected.add((group, parent, node))
        assert after == expected


@pytest.mark.parametrize("limit", [None, 0, 1000])
def test_lazy_trees_run_along_routes(limit: int | None) -> None:
    """Without limits, members are the only forwarders."""
    for one in SOME:
        case, edges = one.case, set(lazily(one.case.seed, limit))
        assert_trees(one, edges)
        grown = {(group, child) for group, _, child in one.grown.edges()}
        forwarding = {(group, parent) for group, parent, _ in edges}
        members = {(group, m) for group, m in case.joins() if one.roots[group] != m}
        below = {(group, child) for group, _, child in edges}
        assert members <= below <= grown & (members | forwarding)
        assert limit != 1000 or below == members
        for group, parent, child in edges:
            assert parent in one.overlay.route(child, case.keys[group])[1:]
