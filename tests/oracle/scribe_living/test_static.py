"""Worlds without events after the joins: next hops, and the trees that variants make of a run's."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from seeds import seeds

from ..knowledge import Damage, ImperfectOverlay
from ..living.draws import keyed_draw
from ..living.routing import candidates
from ..random_cases import Case, random_case
from ..ring import RING
from ..scribe import Scribe as StaticScribe
from . import bottleneck, in_run
from .bottleneck import SHED_TABLE
from .state import Group, Scribe, Settings
from .world import Event, Run

SEEDS = [seed for seed in range(120) if (case := random_case(seed)).keys and len(case.ids) > 1]


def living(case: Case, **settings: Any) -> Run:
    """The case's perfect overlay, and its groups."""
    static = case.overlay(case.routes())
    overlay = in_run.perfect_overlay(case, static.proximity, keyed_draw(case.seed))
    groups = {group: Group(key) for group, key in case.keys.items()}
    return Run(Scribe(overlay, groups, Settings(replicas=1, **settings)))


def edges(run: Run) -> set[tuple[int, int, int]]:
    """(group, parent, child)."""
    return {(group, node, child) for group, node, child, *_ in run.seen[-1].children}


@pytest.mark.parametrize("seed", seeds(SEEDS, 30))
def test_three_definitions_of_the_next_hop_agree_on_perfect_tables(seed: int) -> None:
    """By the ring as a whole, by what one node knows, and as the first that a living node tries."""
    case, pick = random_case(seed), random.Random(seed)
    ring = case.overlay(case.routes())
    known = ImperfectOverlay(ring, Damage(0, missing=0, farther=0))
    living = in_run.perfect_overlay(case, ring.proximity, keyed_draw(seed))
    keys = [*case.keys.values(), *(pick.randrange(RING) for _ in range(3))]
    keys += [ident ^ 1 << pick.randrange(128) for ident in pick.choices([*case.ids.values()], k=3)]
    for node, key in product(case.ids, keys):
        following = ring.next_hop(node, key)
        assert known.next_hop(node, key) == following
        tried = next(candidates(living, living.states[node], key), node)
        assert (None if tried == node else tried) == following


def planted(case: Case, run: Run, edges: set[tuple[int, int, int]], **settings: Any) -> Scribe:
    """Trees on the overlay of a world, in which they would grow."""
    overlay = run.scribe.overlay
    roots = {group: case.overlay(case.routes()).root(key) for group, key in case.keys.items()}
    return in_run.plant(overlay, case.keys, roots, case.members, edges, **settings)


def joining(case: Case) -> list[Event]:
    """Groups are created, and all members join, in round 0."""
    events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
    return events + [(0, member, "join", group) for group, member in case.joins()]


@pytest.mark.parametrize("table", SHED_TABLE)
def test_the_bottleneck_remover_makes_the_trees_of_a_run(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody comes or goes, once is enough: later rounds drop nobody.

    In round 0 of a world the paths that answers have brought may be out of date; in a run they are
    not.
    """
    monkeypatch.setattr(bottleneck, "Removal", in_run.RemovalInRun)
    dropped, rejoined = 0, 0
    for seed in SEEDS[::3]:
        case = random_case(seed)
        static = StaticScribe(case.overlay(case.routes()), case.keys)
        static.join_all(case.joins())
        remover: dict[str, Any] = {"limit": 2 + seed % 3, "shed": ("largest", "farthest", table)}
        run = living(case, **remover)
        scribe = planted(case, run, static.edges(), **remover)
        removals = in_run.remove_bottlenecks(scribe)
        chosen = [one for removal in removals for one in removal.chosen()]
        first, second = run.play(joining(case), 2)
        assert not second.counts.get("shed")
        assert not second.joins
        assert edges(run) == in_run.edges_of(scribe), seed
        assert first.overloaded == second.overloaded == bottleneck.overloaded(scribe)
        assert first.counts.get("shed", 0) == len(chosen)
        assert first.counts.get("delay probe", 0) == sum(probes for *_, probes in chosen)
        dropped += len(chosen)
        rejoined += sum(accepted for removal in removals for *_, accepted in removal.routed)
    assert dropped > 50
    assert (rejoined > 20) == (table == "whole")


def test_collapse_makes_the_trees_of_a_run() -> None:
    """Where nobody comes or goes, once is enough."""
    cut = 0
    for seed in SEEDS[::3]:
        case = random_case(seed)
        static = StaticScribe(case.overlay(case.routes()), case.keys)
        static.join_all(case.joins())
        run = living(case, collapse=True)
        _, second = run.play(joining(case), 2)
        scribe = planted(case, run, static.edges(), collapse=True)
        assert edges(run) == in_run.collapse_paths(scribe)
        assert second.joins == []
        cut += len(static.edges()) - len(edges(run))
    assert cut > 10


def test_lazy_growth_makes_the_trees_of_a_run() -> None:
    """Where nobody comes or goes, and all join in one round."""
    adopted = 0
    for seed in SEEDS[::2]:
        case, limit = random_case(seed), 1 + seed % 4
        run = living(case, limit=limit, remover=False, lazy=True)
        expected = in_run.grow_lazily(planted(case, run, set(), limit=limit))
        run.play(joining(case), 2)
        assert edges(run) == expected, seed
        assert run.seen[1].joins == []
        adopted += sum(child not in case.members[group] for group, _, child in expected)
    assert adopted > 20


@pytest.mark.parametrize("seed", SEEDS[::6])
def test_joins_in_any_rounds_make_the_same_trees(seed: int) -> None:
    case = random_case(seed)
    together, apart = living(case), living(case)
    create: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
    joins = case.joins()
    together.play(create + [(0, node, "join", group) for group, node in joins], 1)
    apart.play(
        create + [(at % 7, node, "join", group) for at, (group, node) in enumerate(joins)], 7
    )
    assert edges(together) == edges(apart)
