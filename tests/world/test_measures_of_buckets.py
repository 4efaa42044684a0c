"""Measures of a round are sums of buckets: the same for any number of them, without Spark."""

from __future__ import annotations

import numpy as np
import pytest
from living_worlds import World, state_of, world
from poisoned import PoisonedPlayer
from traffic import Traffic

from scribe_spark.pastry.arrivals.observer import TRAFFIC
from scribe_spark.pastry.events import Events
from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.worlds.world_state import play_overlay


def played(case: World, rounds: int, buckets: int) -> list:
    """Measures and messages of each round, these in any order."""
    player = PoisonedPlayer.of(state_of(case), case.config, case.kernel, buckets)
    seen = []
    for number in range(rounds):
        mine = [(node, kind) for when, node, kind in case.events if when == number]
        node = np.array([node for node, _ in mine], dtype=np.int64)
        events = Events.of(case.known, node, np.array([kind for _, kind in mine], dtype=str))
        _, measures = play_overlay(player, number, events, 20, keeps_messages=True)
        traffic = Traffic()
        traffic.take(player.take(TRAFFIC), MESSAGE_KINDS)
        pairs = {kind: sorted(zip(*ends, strict=True)) for kind, ends in traffic.ends.items()}
        seen.append((measures, pairs))
    return seen


@pytest.mark.parametrize("seed", [3, 5, 8, 13, 21, 34])
def test_measures_and_messages_do_not_depend_on_buckets(seed: int) -> None:
    case = world(seed, rounds=4, most=50, busy=0.2)
    one = played(case, 4, 1)
    assert one == played(case, 4, 2) == played(case, 4, 7)
    assert all(
        len(pairs) == measures[f"messages.{'join message' if kind == 'join' else kind}"]
        for measures, by_kind in one
        for kind, pairs in by_kind.items()
    )
