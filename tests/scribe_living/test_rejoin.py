"""JOINs with randomised routes in worlds where half of the tree is gone, against the oracle."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from living_groups import World, world_of
from oracle.scribe_living import bottleneck
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.joining import JoinPhase
from oracle.scribe_living.phase import Phase
from oracle.scribe_living.upcalls import Join

from scribe_spark.core.arrays import NONE
from scribe_spark.scribe.rejoin import rejoin
from scribe_spark.scribe.scribe import REFUSED, Joins, Scribe
from scribe_spark.scribe.state import cause

SEEDS = [*range(16), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(16, 240)]]


class Seen:
    """Messages that were counted, and who has met whom dead."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.found: set[tuple[int, int]] = set()

    def count(self, kind: str, messages: int, lost: int = 0, *, between) -> None:
        """See `scribe.Counter`."""
        self.counts[kind] += int(messages)
        self.counts[f"lost {kind}"] += int(lost)

    def meet(self, node: np.ndarray, dead: np.ndarray) -> None:
        """See `scribe.Counter`."""
        self.found |= set(zip(node.tolist(), dead.tolist(), strict=True))


def torn(seed: int) -> tuple[World, int, list[int]]:
    """A world after some rounds; nodes die unnoticed, members of a group lose their parents.

    Of every second the group's state is lost, too.
    """
    case = replace(random_world(seed), buffer=None)
    world, pick, rounds = world_of(case), random.Random(f"torn {seed}"), min(6, case.rounds)
    for number in range(rounds):
        world.step(number, [event for event in case.events if event[0] == number])
    run, state, place = world.run.scribe, world.state, _places(world)
    group = pick.choice(sorted(case.groups))
    index = int(np.searchsorted(world.groups.number, group))
    # 1. some die, and take what they knew of the group with them
    for node in pick.sample(sorted(run.overlay.live), len(run.overlay.live) // 3):
        run.overlay.exit(node, 9)
        run.forget(node)
        world.overlay.exit(np.array([place[node]]), rounds - 1, 9)
    dead = np.flatnonzero(~world.overlay.alive)
    state.entries.drop(np.flatnonzero(np.isin(state.entries.key % state.size, dead)))
    state.copies.drop(np.flatnonzero(np.isin(state.copies.key % state.size, dead)))
    if seed % 2:
        for pair in [pair for pair in run.copies if pair[0] == group]:
            del run.copies[pair]
        state.copies.drop(np.flatnonzero(state.copies.key // state.size == index))
        for node in [node for node, entry in run.entries.get(group, {}).items() if entry.root]:
            del run.entries[group][node]
            state.entries.drop(state.entries.find(np.array([index * state.size + place[node]])))
    # 2. others have no parent
    there = sorted(run.entries.get(group, {}))
    children = [
        one for one in pick.sample(there, min(4, len(there))) if not _is_root(run, group, one)
    ]
    for node in children:
        run.entries[group][node].parent = None
        row = state.entries.find(np.array([index * state.size + place[node]]))
        state.entries.parent[row] = NONE
    return world, group, children


def _is_root(run, group: int, node: int) -> bool:
    return run.entries[group][node].root


def _places(world: World) -> dict[int, int]:
    return {node: at for at, node in enumerate(world.overlay.states.known.node.tolist())}


def play(world: World, group: int, children: list[int], to: list[int | None]) -> tuple[dict, dict]:
    """Both route the JOINs of the children; what they leave."""
    run, place, number = world.run.scribe, _places(world), world.run.scribe.round
    before = Counter(run.overlay.counts)
    run.refused, run.added, phase = Counter(), [], Phase(run.overlay)
    joins = [Join(group, node, number, "shed") for node in children]
    bottleneck.rejoin(run, JoinPhase(run, phase), list(zip(joins, to, strict=True)))
    counts = run.overlay.counts - before
    theirs = {
        "tree": sorted(
            (node, entry.root, -1 if entry.parent is None else entry.parent, sorted(entry.children))
            for node, entry in run.entries.get(group, {}).items()
        ),
        "counts": {kind: counts[kind] for kind in ("JOIN", "lost JOIN")},
        "refused": run.refused["no group"],
        "found": sorted(phase.found),
    }
    seen, overlay = Seen(), world.overlay
    of = (world.groups, world.rules, world.state, number)
    scribe = Scribe(
        *(overlay.states.known, lambda: overlay.states, overlay.is_alive, world.pastry.kernel),
        *of,
        counter=seen,
        seed=world.pastry.rules.seed,
        sees_all=True,
    )
    index = int(np.searchsorted(world.groups.number, group))
    at = np.array([place[node] for node in children], dtype=np.int64)
    top = np.array([NONE if one is None else place[one] for one in to], dtype=np.int64)
    rejoin(scribe, Joins.of(np.full(len(at), index), at, number, cause("shed")), top)
    entries, size = world.state.entries, world.state.size
    name = [*world.overlay.states.known.node.tolist(), -1]
    below: dict[int, list[int]] = {}
    for key in world.state.children.key.tolist():
        if key // size // size == index:
            below.setdefault(name[key // size % size], []).append(name[key % size])
    mine = np.flatnonzero(entries.key // size == index)
    ours = {
        "tree": sorted(
            (
                name[entries.key[row] % size],
                bool(entries.root[row]),
                name[entries.parent[row]],
                sorted(below.get(name[entries.key[row] % size], [])),
            )
            for row in mine
        ),
        "counts": {kind: seen.counts[kind] for kind in ("JOIN", "lost JOIN")},
        "refused": sum(int(one["count"].sum()) for one in scribe.notes.get(REFUSED, [])),
        "found": sorted({(name[a], name[b]) for a, b in seen.found}),
    }
    return ours, theirs


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_with_randomised_routes_are_the_oracles(seed: int) -> None:
    world, group, children = torn(seed)
    live = sorted(world.run.scribe.overlay.live)
    pick = random.Random(seed)
    to = [pick.choice([None, *live]) for _ in children]
    ours, theirs = play(world, group, children, to)
    assert ours == theirs


def test_some_meet_the_dead_some_find_no_group_and_some_become_roots() -> None:
    seen = Counter[str]()
    for seed in range(40):
        world, group, children = torn(seed)
        before = sum(entry.root for entry in world.run.scribe.entries.get(group, {}).values())
        ours, _ = play(world, group, children, [None] * len(children))
        seen["lost"] += ours["counts"]["lost JOIN"]
        seen["no group"] += ours["refused"]
        seen["roots"] += sum(root for _, root, *_ in ours["tree"]) - before
    assert all(seen[kind] for kind in ("lost", "no group", "roots"))
