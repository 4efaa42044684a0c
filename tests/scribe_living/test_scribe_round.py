"""The kernels of Scribe alive against the oracle: state, messages and deliveries of every round."""

from __future__ import annotations

import pytest
from living_groups import World, without_zeros, world_of
from oracle.living.compare import differences as overlay_differences
from oracle.scribe_living.cases import random_world
from oracle.scribe_living.compare import PARTS, differences

OVERLAY_PARTS = ("live", "sides", "cells", "new_leafs")


def compared(world: World) -> list[str]:
    """Where kernels and oracle differ in the first round in which they do."""
    case = world.case
    for number in range(case.rounds):
        events = [event for event in case.events if event[0] == number]
        ours, theirs = world.step(number, events)
        theirs.refused = without_zeros(theirs.refused)
        theirs.duplicates = without_zeros(theirs.duplicates)
        theirs.counts = without_zeros(theirs.counts)
        lines = differences(ours, theirs, PARTS)
        lines += overlay_differences(ours.overlay, theirs.overlay, OVERLAY_PARTS)
        if lines:
            return [f"seed {case.seed}, round {number}, {case.settings}, {case.rules}", *lines]
    return []


@pytest.mark.parametrize("seed", range(40))
def test_state_and_messages_are_the_oracles_after_every_round(seed: int) -> None:
    assert compared(world_of(random_world(seed))) == []
