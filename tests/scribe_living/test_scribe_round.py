"""The kernels of Scribe alive against the oracle: state, messages and deliveries of every round."""

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from living_groups import (
    World,
    deliveries_out_of_order,
    publication_results,
    repair_results,
    world_of,
)
from oracle.living.world import differences as overlay_differences
from oracle.scribe_living import bottleneck
from oracle.scribe_living.bottleneck import SHED_CHILD, SHED_GROUP, SHED_TABLE
from oracle.scribe_living.cases import World as Case
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.measures import (
    failures,
    late_deliveries,
    out_of_order,
    publications,
    rounds_until_repaired,
    with_two_roots,
)
from oracle.scribe_living.world import PARTS, differences
from seeds import seeds

from scribe_spark.systems.scribe.measures import group_measures

OVERLAY_PARTS = ("live", "sides", "cells", "new_leafs")

#: Worlds with reliable delivery take two seconds, others a fifth of that: of these there are more.
QUICK = [seed for seed in range(40) if seed % 8]
#: In the last three publications are kept: taken later, given up, lost with their sources.
IN_EACH_RUN = [*range(0, 40, 8), 7, 11, 12]
REST = [seed for seed in range(240) if seed not in IN_EACH_RUN]
REST += [257, 289, 299, 350, 395, 640, 882]
SEEDS = seeds([*IN_EACH_RUN, *REST], len(IN_EACH_RUN))


def compared(world: World) -> list[str]:
    """Where kernels and oracle differ, in the first round in which they do."""
    case = world.case
    for number in range(case.rounds):
        events = [event for event in case.events if event[0] == number]
        ours, theirs = world.step(number, events)
        lines = differences(ours, theirs, PARTS)
        lines += overlay_differences(ours.overlay, theirs.overlay, OVERLAY_PARTS)
        if ours.ordered != theirs.ordered and sorted(ours.ordered) == sorted(theirs.ordered):
            lines += _order(ours.ordered, theirs.ordered)
        if lines:
            return [f"seed {case.seed}, round {number}, {case.settings}, {case.rules}", *lines]
    return []


def _order(ours: list, theirs: list) -> list[str]:
    """Members whose users get publications in another order."""

    def by_member(ordered: list) -> dict:
        got: dict = {}
        for publication, node in ordered:
            got.setdefault((publication[1], node), []).append(publication)
        return got

    mine, yours = by_member(ours), by_member(theirs)
    return [f"{who}: {mine[who]}, theirs {yours[who]}" for who in mine if mine[who] != yours[who]]


@pytest.mark.parametrize("seed", SEEDS)
def test_state_and_messages_are_the_oracles_after_every_round(seed: int) -> None:
    check(world_of(random_world(seed)))


@pytest.mark.parametrize(
    ("seed", "buckets"),
    [
        *((7, 7), (12, 2)),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in product(range(240), (2, 7))),
    ],
)
def test_buckets_that_cannot_see_each_other_play_the_same(seed: int, buckets: int) -> None:
    check(world_of(random_world(seed)).in_buckets(buckets))


@pytest.mark.parametrize("seed", seeds(range(2, 210), in_each_run=1))
def test_tasks_of_supersteps_play_the_same(seed: int) -> None:
    case = random_world(seed)
    if seed % 3 == 2:
        case = replace(case, buffer=None)
    check(world_of(case).in_tasks((2, 7, 1)[seed // 3 % 3]))


@pytest.mark.parametrize("buckets", [2, 7])
@pytest.mark.parametrize("seed", seeds([1, 15, *QUICK], in_each_run=1))
def test_buckets_play_best_effort(seed: int, buckets: int) -> None:
    check(world_of(replace(random_world(seed), buffer=None)).in_buckets(buckets))


@pytest.mark.parametrize("seed", seeds(QUICK, in_each_run=5))
def test_best_effort_is_the_oracles_after_every_round(seed: int) -> None:
    check(world_of(replace(random_world(seed), buffer=None)))


@pytest.mark.parametrize("seed", seeds([0, 2, 5, 7, *range(8, 60)], in_each_run=4))
def test_rounds_that_lose_copies_are_the_oracles(seed: int) -> None:
    """Two thirds with best effort, on 1, 2 and 7 buckets."""
    case = random_world(seed) if seed % 3 == 2 else replace(random_world(seed), buffer=None)
    world = world_of(case).with_losses(withholds=seed % 2 > 0)
    check(world.in_buckets((1, 2, 7)[seed // 3 % 3]))
    assert any(seen.counts.get("lost payload") for seen in world.run.seen)


@pytest.mark.parametrize("seed", seeds(range(120), in_each_run=4))
def test_the_bottleneck_remover_is_the_oracles_after_every_round(seed: int) -> None:
    check(world_of(with_limit(seed)))


@pytest.mark.parametrize("seed", seeds(range(80), in_each_run=4))
def test_collapse_is_the_oracles_after_every_round(seed: int) -> None:
    """Every second with limits, too; every third with reliable delivery."""
    case = with_limit(seed) if seed % 2 else random_world(seed)
    settings = replace(case.settings, collapse=True)
    world = world_of(replace(case, settings=settings, buffer=None if seed % 3 else case.buffer))
    check(world)


@pytest.mark.parametrize("seed", seeds([0, 1, 2, 20, 32, *range(3, 200)], in_each_run=5))
def test_lazy_growth_is_the_oracles_after_every_round(seed: int) -> None:
    """Every third with reliable delivery; others with the remover or collapse, too."""
    case = with_limit(seed)
    settings = replace(case.settings, lazy=True, remover=seed % 4 == 0, collapse=seed % 5 == 0)
    check(world_of(replace(case, settings=settings)))


@pytest.mark.parametrize(
    ("seed", "buckets"), seeds([(0, 2), (1, 7), (2, 2), *product(range(3, 120), (2, 7))], 3)
)
def test_buckets_play_the_variants(seed: int, buckets: int) -> None:
    """By turns the remover, with whole tables, lazy growth with and without it, and collapse."""
    case = whole_tables(seed) if seed % 3 == 1 else with_limit(seed)
    lazy, remover = seed % 3 == 2, seed % 3 < 2 or seed % 4 == 0
    settings = replace(case.settings, lazy=lazy, remover=remover, collapse=seed % 5 == 4)
    check(world_of(replace(case, settings=settings)).in_buckets(buckets))


def test_in_the_worlds_that_collapse_some_ask_the_dead() -> None:
    counts: Counter[str] = Counter()
    for seed in range(6):
        case = random_world(seed)
        case = replace(case, settings=replace(case.settings, collapse=True), buffer=None)
        counts.update(case.play().scribe.overlay.counts)
    assert counts["collapse"] > 2 * counts["lost collapse"] > 0


def with_limit(seed: int) -> Case:
    """A random world whose nodes have a limit of children; every third with reliable delivery.

    Of every fourth each node has a limit of its own.
    """
    case, pick = random_world(seed), random.Random(f"limit {seed}")
    shed = tuple(map(pick.choice, (SHED_GROUP, SHED_CHILD, SHED_TABLE)))
    limited = replace(case.settings, limit=pick.choice([1, 2, 2, 3, 4]), shed=shed)
    if seed % 4 == 1:
        own = tuple(pick.randint(1, 5) for _ in range(case.count))
        limited = replace(limited, capacities=own)
    return replace(case, settings=limited, buffer=None if seed % 3 else case.buffer)


@pytest.mark.parametrize("seed", seeds(range(200), in_each_run=2))
def test_joins_that_are_refused_are_routed_with_randomisation_as_by_the_oracle(seed: int) -> None:
    check(world_of(whole_tables(seed)))


def whole_tables(seed: int) -> Case:
    """A world in which dropped children may choose each other."""
    case = with_limit(seed)
    return replace(case, settings=replace(case.settings, shed=(*case.settings.shed[:2], "whole")))


def test_randomised_joins_are_accepted_or_refused_again(monkeypatch) -> None:
    rejoin, seen = bottleneck.Removal.rejoin, Counter[str]()

    def noted(removal, attempt) -> None:
        refused = len(removal.refused_children())
        rejoin(removal, attempt)
        again = len(removal.refused_children())
        seen["refused"] += again
        seen[f"taken {attempt > 0}"] += refused - again
        seen["too often"] += again * (attempt == bottleneck.ATTEMPTS - 1)

    monkeypatch.setattr(bottleneck.Removal, "rejoin", noted)
    for seed in range(16):
        whole_tables(seed).play()
    assert all(seen[kind] for kind in ("refused", "taken False", "taken True", "too often"))


def test_the_worlds_with_limits_have_all_that_can_happen_to_a_dropped_child() -> None:
    """A child is told or is dead, its siblings too; it is refused, waits, and is dropped again."""
    counts: Counter[str] = Counter()
    for seed in range(12):
        world = world_of(with_limit(seed))
        for number in range(world.case.rounds):
            seen = world.run.step(number, [e for e in world.case.events if e[0] == number])
            counts.update(
                {kind: n for kind, n in seen.counts.items() if "shed" in kind or "probe" in kind}
            )
            counts["overloaded"] += len(seen.overloaded)
            counts["waits"] += sum(cause == "shed" for *_, cause in seen.entries)
        counts[f"{world.case.settings.shed[2]} {world.case.buffer is None}"] += 1
    assert all(counts[kind] for kind in ("shed", "lost shed", "delay probe", "lost delay probe"))
    assert counts["overloaded"]
    assert counts["waits"]
    assert all(counts[f"{table} {best}"] for table in SHED_TABLE for best in (True, False))


def check(world: World) -> None:
    """Compare a world round by round, and what is known at the end only."""
    assert compared(world) == []
    repaired = {
        one: after for one, after in rounds_until_repaired(world.run).items() if after is not None
    }
    assert repair_results(world) == repaired
    theirs = sorted(publications(world.run), key=lambda one: one.publication)
    assert sorted(publication_results(world), key=lambda one: one.publication) == theirs
    compare_measures(world)


def compare_measures(world: World) -> None:
    """Numbers of each round that follow from the oracle's records."""
    wrong = out_of_order(world.run, numbered=world.case.buffer is not None)
    two_roots = {group for seen in world.run.seen for group in with_two_roots(seen)}
    in_disorder = {publication[1] for rows in wrong.values() for publication, _ in rows}
    assert in_disorder <= two_roots, "reliable delivery keeps order, best effort has none"
    for seen, result in zip(world.run.seen, world.results, strict=True):
        late = late_deliveries(seen)
        assert deliveries_out_of_order(world, seen.round) == sorted(wrong[seen.round])
        expected = {
            "joins.at_root": len(seen.at_root),
            "repair.nodes": len(seen.repairing),
            "failures": len(failures(world.run, seen.round)),
            "deliveries.out_of_order": len(wrong[seen.round]),
            "deliveries.late": sum(late.values()),
            **{f"deliveries.late.{age}": count for age, count in late.items()},
        }
        measured = group_measures(result.tables, len(world.groups))
        assert measured.items() >= expected.items()
        ages = [name for name in measured if name.startswith("deliveries.late.")]
        assert len(ages) == len(late)
