"""With no events after the joins, trees are those of the static oracle (tests/oracle/scribe)."""

from __future__ import annotations

from typing import Any

import pytest

from ..bottleneck import SHED_TABLE, Reroute, randomised_route, remove_bottlenecks
from ..living.draws import keyed_draw
from ..living.overlay import Overlay, Rules
from ..living.perfect import enter_perfect
from ..random_cases import Case, random_case
from ..scribe import Scribe as StaticScribe
from ..variants import collapse, grow_lazily, in_waves
from .bottleneck import ATTEMPTS, Removal
from .groups import Group, Settings
from .state import Scribe
from .world import Event, Run

SEEDS = [seed for seed in range(120) if (case := random_case(seed)).keys and len(case.ids) > 1]


def living(case: Case, **settings: Any) -> Run:
    """The case's perfect overlay, and its groups."""
    static = case.overlay(case.routes())
    rules = Rules(b=case.b, l=case.leaf_set_size)
    overlay = Overlay(case.ids, static.proximity, keyed_draw(case.seed), rules)
    enter_perfect(overlay, case.ids)
    groups = {group: Group(key) for group, key in case.keys.items()}
    return Run(Scribe(overlay, groups, Settings(replicas=1, **settings)))


def edges(run: Run) -> set[tuple[int, int, int]]:
    """(group, parent, child)."""
    return {(group, node, child) for group, node, child, *_ in run.seen[-1].children}


@pytest.mark.parametrize("seed", SEEDS)
def test_trees_are_the_static_runs(seed: int) -> None:
    case = random_case(seed)
    static = StaticScribe(case.overlay(case.routes()), case.keys)
    static.join_all(case.joins())
    run = living(case)
    events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
    events += [(0, member, "join", group) for group, member in case.joins()]
    run.play(events, 5)
    assert edges(run) == static.edges()
    for seen in run.seen[1:]:
        assert seen.joins == []
        assert seen.children != [] or static.edges() == set()


@pytest.mark.parametrize("table", SHED_TABLE)
def test_the_bottleneck_remover_makes_the_trees_of_a_run(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody comes or goes, once is enough: later rounds drop nobody.

    In round 0 of a world the paths that answers have brought may be out of date; in a run they are
    not: they end at the roots, and a JOIN that was accepted on its way up the tree is not refused
    after that (rule S29).
    """
    roots: dict[int, int] = {}
    monkeypatch.setattr(Removal, "known_path", lambda *_: ())
    monkeypatch.setattr(Removal, "top", lambda _, group, node: roots[group])
    dropped, rejoined = 0, 0
    for seed in SEEDS[::3]:
        case = random_case(seed)
        static = StaticScribe(case.overlay(case.routes()), case.keys)
        static.join_all(case.joins())
        roots |= {group: static.overlay.root(key) for group, key in case.keys.items()}
        limit = 2 + seed % 3
        run = living(case, limit=limit, shed=("largest", "farthest", table))
        removal = remove_bottlenecks(
            static.edges(),
            static.overlay.proximity,
            dict.fromkeys(case.ids, limit),
            shed_table=table,
            rejoin=rerouted(static, run),
        )
        events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
        events += [(0, member, "join", group) for group, member in case.joins()]
        first, second = run.play(events, 2)
        assert not second.counts.get("shed")
        assert not second.joins
        assert edges(run) == removal.edges, seed
        assert first.overloaded == second.overloaded == sorted(removal.overloaded)
        assert first.counts.get("shed", 0) == len(removal.joins)
        assert first.counts.get("delay probe", 0) == sum(join.probes for join in removal.joins)
        dropped += len(removal.joins)
        rejoined += len(removal.rejoins)
    assert dropped > 50
    assert (rejoined > 20) == (table == "whole")


def rerouted(static: StaticScribe, run: Run) -> Reroute:
    """The randomised routes of a run, with the draws of a world's round 0."""

    def draws(purpose: str, *ids: int) -> int:
        return run.scribe.overlay.draw({"rejoin": "randomised hop"}[purpose], *ids)

    def reroute(child: int, group: int, attempt: int) -> list[int]:
        key = static.keys[group]
        return randomised_route(static.overlay, key, group, child, attempt, draws, ATTEMPTS)

    return reroute


def test_collapse_makes_the_trees_of_a_run() -> None:
    """Where nobody comes or goes, once is enough."""
    cut = 0
    for seed in SEEDS[::3]:
        case = random_case(seed)
        static = StaticScribe(case.overlay(case.routes()), case.keys)
        static.join_all(case.joins())
        run = living(case, collapse=True)
        events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
        events += [(0, member, "join", group) for group, member in case.joins()]
        first, second = run.play(events, 2)
        roots = {group: node for group, node, _, root, *_ in first.entries if root}
        assert edges(run) == collapse(static.edges(), case.members, roots)
        assert second.joins == []
        cut += len(static.edges()) - len(edges(run))
    assert cut > 10


def test_lazy_growth_makes_the_trees_of_a_run() -> None:
    """Where nobody comes or goes, and all join in one round."""
    adopted = 0
    for seed in SEEDS[::2]:
        case = random_case(seed)
        static = case.overlay(case.routes())
        limit = 1 + seed % 4
        run = living(case, limit=limit, remover=False, lazy=True)
        draw = run.scribe.overlay.draw
        routes = {
            (group, node): static.route(node, case.keys[group])[1:]
            for group, its in case.members.items()
            for node in its
        }
        roots = {group: static.root(key) for group, key in case.keys.items()}
        of_group = in_waves(case.members, lambda _, *ids, draw=draw: draw("arrival", *ids))
        expected = grow_lazily(routes, of_group, roots, dict.fromkeys(case.ids, limit))
        events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
        events += [(0, member, "join", group) for group, member in case.joins()]
        run.play(events, 2)
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


@pytest.mark.parametrize("seed", SEEDS[::6])
def test_deliveries_are_the_static_runs(seed: int) -> None:
    case = random_case(seed)
    static = StaticScribe(case.overlay(case.routes()), case.keys)
    static.join_all(case.joins())
    run = living(case)
    source = max(case.ids)
    events: list[Event] = [(0, min(case.ids), "create", group) for group in case.keys]
    events += [(0, member, "join", group) for group, member in case.joins()]
    run.play([*events, *((2, source, "publish", group) for group in case.keys)], 3)
    for group in case.keys:
        expected = set(static.multicast(group, "routed", source)) | ({source} & case.members[group])
        assert {node for (_, g, _), node in run.seen[2].deliveries if g == group} == expected
