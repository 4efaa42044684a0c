"""The clock that reacts: bandwidth as in the clock that holds copies back, and the dead."""

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from plumtree.played import Overlay
from scribe_spark.bandwidth.bucket import ClockSetting
from scribe_spark.bandwidth.setting import INTERLEAVED, SERIAL, Discipline, Nodes, TimedPublications
from scribe_spark.bandwidth.windows import ARRIVALS, COPIES, LINKS, play_windows
from scribe_spark.clock.bucket import BucketClock, Wires
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.program import Tables


def _regular(nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Return symmetric views of up to eight neighbours."""
    asked = [(a, int(b)) for a in range(nodes) for b in rng.choice(nodes, 3) if a != b]
    pairs = {frozenset(pair) for pair in asked}
    of: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for a, b in sorted(map(sorted, pairs)):
        of[a].append(b)
        of[b].append(a)
    width = max(map(len, of.values()))
    return np.array([peers + [-1] * (width - len(peers)) for peers in of.values()])


def _by_the_other_clock(views, delays, wires, source, at_us, validation_us):
    """Return the receipts and copies of floods to all neighbours but the first copy's sender."""
    node, slot = np.nonzero(views >= 0)
    peer, room = views[node, slot], np.zeros(len(node), dtype=np.int64)
    links = {
        **{"room": room, "node": node, "to_room": room, "peer": peer},
        **{"delay_us": delays[node, peer], "mesh": room == 0, "order": peer},
    }
    size = len(views)
    given = ClockSetting(
        Nodes(np.arange(size), wires.up, wires.down, validation_us),
        TimedPublications(at_us, source * 0, source, wires.size),
        Discipline(uplink=wires.uplink, held_back=False, spares=False, seed=None),
        rule=lambda first, links: links["peer"] != first["sender"],
        kept=("publication", "node", "sender", "at_us"),
    )
    player = InTask([Tables.of({LINKS: links})])
    play_windows(player, np.array([0, size]), given)
    found = player.gather(ARRIVALS, COPIES)
    columns = "publication", "node", "at_us", "hops", "sender"
    receipts = sorted(zip(*(found[ARRIVALS][one].tolist() for one in columns), strict=True))
    columns = "publication", "sender", "node", "at_us"
    copies = sorted(zip(*(found[COPIES][one].tolist() for one in columns), strict=True))
    return receipts, copies


@pytest.mark.parametrize(
    ("uplink", "buckets", "longest_us", "seed"),  # without ties, which the clocks break in two ways
    [
        (INTERLEAVED, 1, 1, 0),
        (SERIAL, 1, 9_000, 4),
        (SERIAL, 2, 1, 1),
        (INTERLEAVED, 2, 9_000, 3),
        (INTERLEAVED, 7, 9_000, 1),
        (SERIAL, 7, 9_000, 0),
    ],
)
def test_a_flood_takes_the_time_that_it_takes_without_reactions(uplink, buckets, longest_us, seed):
    """Also if nodes check a publication before they forward copies."""
    rng = np.random.default_rng(seed)
    nodes = 40
    views = _regular(nodes, rng)
    delays = rng.integers(1_000, 20_000, (nodes, nodes))
    rate = rng.choice([0, 10_000_000, 50_000_000], nodes)
    wires = Wires(rate, rng.permutation(rate), np.array([50_000]), uplink)
    source, at_us = np.array([int(rng.integers(nodes))]), np.array([5_000])
    checks_us = rng.integers(0, longest_us, nodes)
    overlay = Overlay(nodes, lambda a, b: delays[a, b], 1_000, buckets=buckets, wires=wires)
    overlay.validation_us = checks_us
    overlay.fix(views)
    overlay.play([(5_000, "publish", int(source[0]), 0)])
    expected = _by_the_other_clock(views, delays, wires, source, at_us, checks_us)
    assert (overlay.receipts(), overlay.copies()) == expected


def test_delays_of_all_lengths_and_windows_of_all_lengths_leave_the_same():
    rng = np.random.default_rng(3)
    views, delays = _regular(30, rng), rng.integers(12, 40, (30, 30))
    found = []
    for window_us, buckets in itertools.product((1, 5, 12), (1, 2)):
        overlay = Overlay(30, lambda a, b: delays[a, b], window_us, buckets=buckets)
        overlay.fix(views)
        overlay.play([(3, "publish", 4, 0), (3, "publish", 5, 1), (90, "publish", 4, 2)])
        found.append((overlay.receipts(), overlay.copies(), overlay.eager(), overlay.counts()))
    assert all(one == found[0] for one in found[1:])


def test_a_play_of_few_nodes_has_as_many_windows_as_it_needs():
    # a player ends a program of two nodes after 1,008 supersteps; a publication takes two windows
    overlay = Overlay(2, lambda a, b: np.full(len(a), 10), 10, buckets=2)
    overlay.fix(np.array([[1], [0]]))
    overlay.play([(100 * number, "publish", number % 2, number) for number in range(510)])
    expected = [
        (number, (number + hops) % 2, 100 * number + 10 * hops) for number in range(510)
        for hops in (0, 1)
    ]  # fmt: skip
    assert [one[:3] for one in overlay.receipts()] == sorted(expected)


def test_equal_messages_that_came_as_one_row_are_received():
    row = np.array([[7, 0, 1, 2, 3, 4]], dtype=np.int32)
    equal = np.concatenate([np.broadcast_to(row, (3, 6))])  # its last axis is not contiguous
    given: list[np.ndarray] = []
    calendar = SimpleNamespace(add=lambda window, rows: given.extend([window, rows]))
    setting = SimpleNamespace(window_us=2, wires=None)
    clock = SimpleNamespace(_setting=setting, _calendar=calendar)
    clock.window_of = partial(BucketClock.window_of, clock)
    BucketClock.receive(clock, equal)
    assert [one.tolist() for one in given] == [[3, 3, 3], [row[0].tolist()] * 3]
