"""Rounds of a world, beside the oracle: state, messages, lookups after each round."""

import pytest
from in_memory import InMemory
from in_tasks import InTasks
from living_worlds import PARTS, World, as_snapshot, sent, state_of, world
from oracle.living.world import Snapshot, differences
from poisoned import PoisonedPlayer


def slow(seeds: range) -> list:
    """Seeds for `make test-slow` alone."""
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds]


#: Besides, worlds of what is rare: messages in circles, waves after a recovery that is an arrival.
SEEDS = [*range(24), *slow(range(24, 240)), 399, 669, 696, 957]


def counted(snapshot: Snapshot) -> Snapshot:
    """Counts that are 0 are left out."""
    snapshot.counts = {kind: count for kind, count in snapshot.counts.items() if count}
    return snapshot


BUCKETS = (1, 2, 7)


def compared(
    case: World, rounds: int, buckets: int, played: type[InMemory] = PoisonedPlayer
) -> list[str]:
    """Where kernels and oracle differ, round by round."""
    state = state_of(case)
    player = played.of(state, case.config, case.kernel, buckets)
    for number in range(rounds):
        result = case.play(player, number)
        theirs = counted(case.play_oracle(number, sent(case, result)))
        lines = differences(as_snapshot(state, result), theirs, PARTS)
        if lines:
            mine = [(node, kind) for when, node, kind in case.events if when == number]
            return [f"round {number}, {case.config}, events {mine}", *lines]
    return []


@pytest.mark.parametrize("seed", SEEDS)
def test_states_and_messages_are_the_oracles_after_every_round(seed: int) -> None:
    case = world(seed, rounds=6, most=60 if seed % 12 == 0 else 30)
    assert compared(case, 6, BUCKETS[seed % 3]) == []


@pytest.mark.parametrize("seed", [*range(2), *slow(range(2, 210))])
def test_tasks_of_supersteps_play_the_same(seed: int) -> None:
    case = world(seed, rounds=6, most=60 if seed % 12 == 0 else 30)
    assert compared(case, 6, BUCKETS[seed % 3], InTasks) == []


@pytest.mark.parametrize("seed", [*range(6), *slow(range(6, 200))])
def test_the_latest_of_the_nearest_nodes_is_the_oracles(seed: int) -> None:
    given = {"introduce": bool(seed % 2), "growth": [None, 1.1, 1.5, 2][seed % 4]}
    case = world(seed, rounds=6, busy=0.2, contact="latest", **given)
    assert compared(case, 6, BUCKETS[seed % 3]) == []


@pytest.mark.parametrize("seed", [*range(6), *slow(range(6, 48))])
def test_nodes_that_arrive_in_a_round_are_introduced_as_by_the_oracle(seed: int) -> None:
    case = world(seed, rounds=6, most=60, busy=0.2, introduce=True, growth=[1.5, 2, 4][seed % 3])
    assert compared(case, 6, BUCKETS[seed // 3 % 3]) == []
