"""Arrivals in one task, beside the oracle: equal after every wave, messages by kind included."""

import pytest
from arriving import Arrivals, arrivals, as_snapshot, grow, oracle_snapshot
from oracle.living.arrival import arrive
from oracle.living.measures import wrong_leaf_sets
from oracle.living.world import differences
from seeds import seeds

from scribe_spark.pastry.waves import wave_ends, wave_size

SEEDS = seeds(range(120), 30)
BUCKETS = (1, 2, 7)
PARTS = ("live", "leaf_sets", "sides", "cells", "counts")


def compared(case: Arrivals, buckets: int) -> list[str]:
    """Where kernels and oracle differ, wave by wave."""
    overlay = case.oracle()
    for done in grow(case, buckets):
        arrive(overlay, case.arriving(done.number))
        assert wrong_leaf_sets(overlay) == []
        ours = as_snapshot(done.states, done.live, done.messages)
        if lines := differences(ours, oracle_snapshot(overlay), PARTS):
            return [f"wave {done.number}, {case.rules}", *lines]
    return []


@pytest.mark.parametrize("seed", SEEDS)
def test_states_and_messages_are_the_oracles_after_every_wave(seed: int) -> None:
    assert compared(arrivals(seed, most=60 if seed % 12 == 0 else 16), BUCKETS[seed % 3]) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_introductions_are_the_oracles(seed: int) -> None:
    growth = [1.5, 2, 4, 8][seed % 4]
    case = arrivals(seed, most=60 if seed % 12 == 0 else 16, introduce=True, growth=growth)
    assert compared(case, BUCKETS[seed // 4 % 3]) == []


def test_a_wave_is_a_share_of_the_nodes_before_it_and_one_at_least():
    assert [wave_size(n, 1.25) for n in (1, 4, 7, 8, 100)] == [1, 1, 1, 2, 25]
    assert wave_size(20, 1.15) == 3, "20 x 0.15 is 2.9999999999999982 as floats"
    assert [wave_size(n, 2) for n in (1, 5)] == [1, 5]


def test_waves_end_with_all_nodes():
    assert wave_ends(20, 2).tolist() == [1, 2, 4, 8, 16, 20]
    assert wave_ends(5, 1.0001).tolist() == [1, 2, 3, 4, 5]
    assert wave_ends(1, 2).tolist() == [1]
