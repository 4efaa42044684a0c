"""JOINs with randomised routes in worlds where half of the tree is gone, against the oracle."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from living_groups import World, world_of
from oracle.scribe_living import bottleneck
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.phase import Phase
from oracle.scribe_living.state import Join
from poisoned import PoisonedPlayer
from seeds import seeds
from split_states import join_states, split_state, state_of, tables_of

from scribe_spark.core.arrays import NONE
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.player import FOUND, MESSAGES, counted
from scribe_spark.systems.scribe.bottleneck import DROPPED, REFUSED_JOINS, rejoin
from scribe_spark.systems.scribe.scribe import REFUSED, SCRIBE_KINDS, RoundOfGroups
from scribe_spark.systems.scribe.state import NOTHING, cause

SEEDS = seeds(range(240), 10)


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
        world.overlay.lives.exit(np.array([place[node]]), rounds - 1, 9)
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


def play(
    world: World, group: int, children: list[int], to: list[int | None], buckets: int = 1
) -> tuple[dict, dict]:
    """Both route the JOINs of the children, which have been refused; what they leave."""
    run, place, number = world.run.scribe, _places(world), world.run.scribe.round
    before = Counter(run.overlay.counts)
    run.refused, run.added, phase = Counter(), [], Phase(run.overlay)
    removal = bottleneck.Removal(run, phase)
    for child, top in zip(children, to, strict=True):
        entry = run.entries[group][child]
        entry.cause, entry.number, entry.tried, entry.extra = "shed", number, True, None
        join, top = Join(group, child, number, "shed"), None if top == child else top
        removal.dropped[group, child] = bottleneck.Dropped(join, -1, 0, -1, top)
        removal.refused.append((group, child))
    for attempt in range(bottleneck.ATTEMPTS):
        removal.rejoin(attempt)
    removal.join_tops()
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
    index = int(np.searchsorted(world.groups.number, group))
    at = np.array([place[node] for node in children], dtype=np.int64)
    top = np.array([NONE if one is None else place[one] for one in to], dtype=np.int64)
    state, overlay = world.state, world.overlay
    row = state.entries.find(index * state.size + at)
    state.entries.cause[row], state.entries.number[row] = cause("shed"), number
    state.entries.tried[row], state.entries.extra[row] = True, NOTHING
    kinds = MESSAGE_KINDS + SCRIBE_KINDS
    of_pastry = (world.config, world.pastry.kernel)
    player = PoisonedPlayer.of(overlay, *of_pastry, buckets, kinds)
    for tables, (first, last) in zip(
        player.engine.tables, itertools.pairwise(player.environment.bounds.tolist()), strict=True
    ):
        tables.update(tables_of(split_state(state, overlay.states.known, first, last)))
        mine = np.argsort(at)
        mine = mine[(at[mine] >= first) & (at[mine] < last)]
        if len(mine):
            none = np.full(len(mine), NONE)
            own_top = np.where(top[mine] == at[mine], NONE, top[mine])
            dropped = {"pair": index * state.size + at[mine], "to": none, "parent": none}
            tables[DROPPED] = {**dropped, "turn": none, "top": own_top}
            tables[REFUSED_JOINS] = {"pair": dropped["pair"]}
    player.engine.open_all()
    sections = world.config.scribe, world.config.trees
    of_round = number, world.groups, *sections, state.incarnation
    rejoin(player, RoundOfGroups(*of_round, source=world.config.groups.source))
    taken = player.take(MESSAGES, FOUND, REFUSED)
    messages = [0, 0]
    if MESSAGES in taken:
        sums = counted(taken[MESSAGES], len(kinds))
        messages = [int(one[kinds.index("JOIN")]) for one in sums]
    size, of_state = state.size, (state.size, state.incarnation, len(world.groups))
    after = join_states([state_of(tables, *of_state) for tables in player.engine.tables])
    name = [*overlay.states.known.node.tolist(), -1]
    below: dict[int, list[int]] = {}
    for key in after.children.key.tolist():
        if key // size // size == index:
            below.setdefault(name[key // size % size], []).append(name[key % size])
    entries = after.entries
    mine = np.flatnonzero(entries.key // size == index)
    found = taken.get(FOUND, {"node": at[:0], "dead": at[:0]})
    pairs = zip(found["node"].tolist(), found["dead"].tolist(), strict=True)
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
        "counts": dict(zip(("JOIN", "lost JOIN"), messages, strict=True)),
        "refused": int(taken[REFUSED]["count"].sum()) if REFUSED in taken else 0,
        "found": sorted({(name[a], name[b]) for a, b in pairs}),
    }
    return ours, theirs


@pytest.mark.parametrize("seed", SEEDS)
def test_joins_with_randomised_routes_are_the_oracles(seed: int) -> None:
    world, group, children = torn(seed)
    live = sorted(world.run.scribe.overlay.live)
    pick = random.Random(seed)
    to = [pick.choice([None, *live]) for _ in children]
    ours, theirs = play(world, group, children, to, buckets=(1, 2, 7)[seed % 3])
    assert ours == theirs
