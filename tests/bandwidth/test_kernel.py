"""The kernel of the clock with bandwidth against an event queue."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from oracle import bandwidth as oracle
from oracle.bandwidth_cases import OPTIMUM, OPTIMUM_US, by_hand, greedy_tree, random_case
from seeds import seeds

from scribe_spark.bandwidth import (
    ARRIVALS,
    COPIES,
    LINKS,
    ROOMS,
    ClockSetting,
    Discipline,
    Nodes,
    TimedPublications,
    Windows,
    play_windows,
)
from scribe_spark.bandwidth.setting import mesh_links
from scribe_spark.engine.in_task import InTask, play
from scribe_spark.engine.program import Tables

from .played import case_of


def compare(network, publications, rules, seed=0):
    """Compare the kernel on 1, 2 and more buckets with the event queue; return both results."""
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
    return wanted, first, copies


@pytest.mark.parametrize("case", list(by_hand()), ids=lambda case: case.name)
def test_cases_by_hand(case):
    wanted, firsts, copies = compare(case.network, case.publications, case.rules)
    assert {(p, y, x): (s, c) for p, y, x, _, s, c in copies} == case.copies
    assert {key: first for key, first in firsts.items() if first[1]} == case.first
    assert {tuple(one) for one in wanted.held_back} == case.held_back


@pytest.mark.parametrize("part", seeds(range(4), in_each_run=2))
def test_random_cases(part):
    for seed in range(part * 80, part * 80 + 80):
        compare(*random_case(seed), seed)


def test_the_greedy_tree_is_the_optimum():
    """600 KB at 10 Mbit/s to 10,000 nodes by the best tree takes 7.370 s."""
    network, last = greedy_tree(**OPTIMUM)
    publication = oracle.Publication(0, 0, OPTIMUM["size"])
    _, first, copies = compare(network, [publication], oracle.Rules(oracle.SERIAL))
    assert max(at_us for at_us, _, _ in first.values()) == last == OPTIMUM_US == 7_370_000
    assert len(first) == len(copies) + 1 == OPTIMUM["nodes"]


def test_windows_go_on_where_a_player_has_stopped(monkeypatch):
    """A player takes many supersteps for messages that never end, so windows come in parts."""
    monkeypatch.setattr("scribe_spark.bandwidth.windows._AT_ONCE", 5)
    for seed in range(20):
        compare(*random_case(seed), seed)


def mesh(nodes: int, topics: int) -> tuple[ClockSetting, dict[str, np.ndarray]]:
    """Return the setting and links of meshes of mean degree 8 in which every node is."""
    rng = np.random.default_rng(nodes)
    own = np.tile(np.arange(nodes), 4 * topics)
    topic = np.repeat(np.arange(topics), 4 * nodes)
    other = rng.integers(0, nodes, len(own))
    ends = np.array([topic, np.minimum(own, other), np.maximum(own, other)])
    topic, a, b = np.unique(ends[:, own != other], axis=1)
    room, delay_us = np.tile(topic * ROOMS, 2), rng.integers(20_000, 200_000, len(a))
    ends = room, np.r_[a, b], room, np.r_[b, a]
    links = mesh_links(*ends, np.tile(delay_us, 2), np.zeros_like(room))
    zero, rate = np.zeros(topics, dtype=np.int64), np.full(nodes, 50_000_000)
    published = TimedPublications.of(zero, np.arange(topics), zero, zero + 128_000)
    rates = Nodes(np.arange(nodes), rate, rate, np.zeros(nodes, dtype=np.int64))
    kept = ("publication", "node", "sender", "sent_us", "hops", "first")
    return ClockSetting(rates, published, Discipline(idontwant=0), kept=kept), links


def test_a_link_takes_little_memory():
    """88 bytes a link, with the copies on it and all that is kept of them."""
    given, links = mesh(4_000, 5)
    tables = [Tables.of({LINKS: dict(links)})]
    tracemalloc.start()
    try:
        play_windows(InTask(tables), np.array([0, 4_000]), given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(tables[0][COPIES]) == set(given.kept)
    assert peak / len(links["node"]) < 100


def test_copies_that_nobody_asks_for_are_not_kept():
    given, links = mesh(50, 1)
    tables = [Tables.of({LINKS: dict(links)})]
    play_windows(InTask(tables), np.array([0, 50]), replace(given, kept=()))
    assert (COPIES in tables[0], ARRIVALS in tables[0]) == (False, True)


def test_a_window_takes_one_superstep_where_nobody_announces_publications():
    given, links = mesh(50, 1)
    supersteps = {}
    for least in (None, 10**9):
        rules = replace(given, discipline=Discipline(idontwant=least))
        tables = Tables.of({LINKS: dict(links)})
        supersteps[least] = len(play(Windows(np.array([0, 50]), rules), [tables])) - _OTHERS
    assert supersteps[10**9] == 2 * supersteps[None] > 0


#: Links are offered and answered; nobody has a next window; nobody sends.
_OTHERS = 4
