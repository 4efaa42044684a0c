"""The kernel of the clock with bandwidth against an event queue."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import bandwidth as oracle
from oracle.bandwidth_cases import OPTIMUM, OPTIMUM_US, by_hand, greedy_tree, random_case

from .played import case_of


def compare(network, publications, rules, seed=0) -> None:
    """Compare the kernel on 1, 2 and more buckets with the event queue."""
    wanted = oracle.play(network, publications, rules)
    first = {key: tuple(one) for key, one in wanted.first.items()}
    copies = {
        (one.publication, one.sender, one.receiver, one.hops, one.start_us, one.complete_us)
        for one in wanted.copies
    }
    case = case_of(network, publications, rules)
    size = len(network.nodes)
    cuts = np.random.default_rng(seed).integers(0, size + 1, 6).tolist()
    for bounds in ([0, size], [0, size // 2, size], sorted([0, size, *cuts])):
        assert case.played(bounds) == (first, copies), bounds


@pytest.mark.parametrize("case", list(by_hand()), ids=lambda case: case.name)
def test_cases_by_hand(case):
    compare(case.network, case.publications, case.rules)
    firsts, copies = case_of(case.network, case.publications, case.rules).played(
        [0, len(case.network.nodes)]
    )
    assert {(p, y, x): (s, c) for p, y, x, _, s, c in copies} == case.copies
    assert {key: first for key, first in firsts.items() if first[1]} == case.first


@pytest.mark.parametrize("part", range(4))
def test_random_cases(part):
    for seed in range(part * 80, part * 80 + 80):
        compare(*random_case(seed), seed)


def test_the_greedy_tree_is_the_optimum():
    network, _ = greedy_tree(**OPTIMUM)
    publication = oracle.Publication(0, 0, OPTIMUM["size"])
    case = case_of(network, [publication], oracle.Rules(oracle.SERIAL))
    first, _ = case.played([0, len(network.nodes)])
    assert max(at_us for at_us, _, _ in first.values()) == OPTIMUM_US == 7_370_000


def test_windows_go_on_where_a_player_has_stopped(monkeypatch):
    """A player takes many supersteps for messages that never end, so windows come in parts."""
    monkeypatch.setattr("scribe_spark.bandwidth.windows._AT_ONCE", 5)
    for seed in range(20):
        compare(*random_case(seed), seed)
