"""Arrivals in one task, beside the oracle: equal after every wave, messages by kind included."""

from __future__ import annotations

from dataclasses import replace

import pytest
from arriving import Arrivals, arrivals, as_snapshot, contacts, oracle_snapshot
from oracle.living.arrival import arrive
from oracle.living.compare import differences
from oracle.living.measures import wrong_leaf_sets

from scribe_spark.pastry.arrivals.one_task import waves

SEEDS = [*range(60), *(pytest.param(n, marks=pytest.mark.slow) for n in range(60, 120))]
PARTS = ("live", "leaf_sets", "sides", "cells", "counts")


def compared(case: Arrivals) -> list[str]:
    """Where kernels and oracle differ, wave by wave."""
    overlay, number = case.oracle(), case.known.node
    wave, rank = case.wave[number], case.rank[number]
    lines = []
    for done in waves(case.known, wave, rank, contacts(case), case.rules, case.kernel):
        rounds = arrive(overlay, case.arriving(done.number))
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


@pytest.mark.parametrize("seed", SEEDS)
def test_introductions_are_the_oracles(seed: int) -> None:
    growth = [1.5, 2, 4, 8][seed % 4]
    case = arrivals(seed, most=60 if seed % 12 == 0 else 16, introduce=True, growth=growth)
    assert compared(case) == []


def test_nodes_that_arrive_one_by_one_are_introduced_to_nobody() -> None:
    states = []
    for introduce in (False, True):
        case = arrivals(5, growth=1.0001, introduce=introduce)
        number = case.known.node
        orders = case.wave[number], case.rank[number]
        *_, done = waves(case.known, *orders, contacts(case), case.rules, case.kernel)
        assert done.number == len(number) - 1 > 10
        states.append(as_snapshot(done.states, done.live))
    assert states[0] == states[1]


def test_introductions_depend_on_the_order_within_a_wave() -> None:
    """Else the comparison above could not see it."""
    case = arrivals(21, most=60, growth=8, introduce=True, contact="nearest")
    other = replace(case, rank=case.rank[::-1])
    number = case.known.node
    seen = []
    for one in (case, other):
        orders = case.wave[number], one.rank[number]
        *_, done = waves(case.known, *orders, contacts(case), case.rules, case.kernel)
        seen.append(as_snapshot(done.states, done.live).cells)
    assert seen[0] != seen[1]
