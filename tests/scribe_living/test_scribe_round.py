"""The kernels of Scribe alive against the oracle: state, messages and deliveries of every round."""

from __future__ import annotations

import pytest
from living_groups import World, publication_results, repair_results, world_of
from oracle.living.compare import differences as overlay_differences
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.compare import PARTS, differences
from oracle.scribe_living.measures import publications, rounds_until_repaired

OVERLAY_PARTS = ("live", "sides", "cells", "new_leafs")

#: Those from 40 on but the last six take minutes.
SEEDS = [
    *range(40),
    *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 240)],
    *[pytest.param(seed, marks=pytest.mark.slow) for seed in (257, 350, 640, 882, 979)],
]


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
    world = world_of(random_world(seed))
    assert compared(world) == []
    # what is known at the end only
    repaired = {
        one: after for one, after in rounds_until_repaired(world.run).items() if after is not None
    }
    assert repair_results(world) == repaired
    theirs = sorted(publications(world.run), key=lambda one: one.publication)
    assert sorted(publication_results(world), key=lambda one: one.publication) == theirs
