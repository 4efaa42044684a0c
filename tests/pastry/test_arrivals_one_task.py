"""Arrivals in one task, beside the oracle: equal after every wave, messages by kind included."""

from __future__ import annotations

import numpy as np
import pytest
from arriving import Arrivals, arrivals, as_snapshot, contacts, oracle_snapshot
from oracle.living.arrival import arrive
from oracle.living.compare import differences
from oracle.living.measures import wrong_leaf_sets

from scribe_spark.pastry.arrivals.one_task import waves

SEEDS = range(240)
PARTS = ("live", "leaf_sets", "sides", "cells", "counts")


def compared(case: Arrivals) -> list[str]:
    """Where kernels and oracle differ, wave by wave."""
    overlay, wave = case.oracle(), case.wave[case.known.node]
    lines = []
    for done in waves(case.known, wave, contacts(case), case.rules, case.kernel):
        rounds = arrive(overlay, [int(n) for n in np.flatnonzero(case.wave == done.number)])
        assert wrong_leaf_sets(overlay) == []
        ours = as_snapshot(done.states, done.live)
        lines += differences(ours, oracle_snapshot(overlay), PARTS)
        if rounds != done.rounds:
            lines.append(f"wave {done.number}: {done.rounds} rounds of exchange, not {rounds}")
        if lines:
            return [f"wave {done.number}, {case.rules}", *lines]
    return lines


@pytest.mark.parametrize("seed", SEEDS)
def test_states_and_messages_are_the_oracles_after_every_wave(seed: int) -> None:
    assert compared(arrivals(seed, most=60 if seed % 12 == 0 else 16)) == []
