"""Published numbers, and numbers that follow from theory, by the clock with bandwidth."""

from __future__ import annotations

import numpy as np
import pytest

from scribe_spark.bandwidth import ROOMS, ClockSetting, Discipline, Nodes, TimedPublications
from scribe_spark.engine.packing import Columns

from .played import play_links


def links_of(room: np.ndarray, node: np.ndarray, peer: np.ndarray, delay_us: np.ndarray) -> Columns:
    """Return links of meshes."""
    mesh, order = np.ones(len(node), dtype=bool), np.zeros(len(node), dtype=np.int64)
    ends = {"room": room, "node": node, "to_room": room, "peer": peer}
    return {**ends, "delay_us": delay_us, "mesh": mesh, "order": order}


def equal_nodes(count: int) -> Nodes:
    """Return nodes without limits."""
    return Nodes(np.arange(count), *(np.zeros(count, dtype=np.int64) for _ in range(3)))


def publications(topics: int, size: int) -> TimedPublications:
    """Return a publication of node 0 in each topic."""
    zero = np.zeros(topics, dtype=np.int64)
    return TimedPublications.of(zero, np.arange(topics), zero, zero + size)


def test_pushes_to_random_nodes_reach_as_many_as_published():
    """Every node sends to 8 of 10,000 nodes; receivers by round, the mean of ten seeds."""
    nodes, seeds = 10_000, 10
    rng = np.random.default_rng(8)
    drawn = rng.integers(0, nodes, (seeds * nodes, 16))
    own = np.tile(np.arange(nodes), seeds)
    # the first eight different ones that are not the node itself
    peer = np.array(
        [
            list(dict.fromkeys(row[row != node].tolist()))[:8]
            for row, node in zip(drawn, own, strict=True)
        ]
    )
    room = np.repeat(np.arange(seeds) * ROOMS, nodes * 8)
    links = links_of(room, np.repeat(own, 8), peer.ravel(), np.ones(len(room), dtype=np.int64))
    given = ClockSetting(equal_nodes(nodes), publications(seeds, 0), Discipline(held_back=False))
    first, _ = play_links(given, links, [0, nodes])
    reached = np.cumsum(np.bincount(first["hops"])[:7]) / seeds
    assert reached == pytest.approx([1, 9, 73, 566, 3_644, 9_458, 9_995], rel=0.02)


def mesh_of(nodes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the links of a random mesh of degree 8.5, at most 9, each once."""
    a, b = rng.integers(0, nodes, (2, nodes * 9))
    kept, degree, seen = [], [0] * nodes, set()
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        link = (min(x, y), max(x, y))
        if x != y and link not in seen and degree[x] < 9 and degree[y] < 9:
            seen.add(link)
            kept.append(link)
            degree[x] += 1
            degree[y] += 1
            if len(kept) == round(nodes * 8.5 / 2):
                break
    return tuple(np.array(kept, dtype=np.int64).T)


def spread(nodes: int, size: int, idontwant: int | None) -> tuple[float, float]:
    """Return duplicates a receipt and the seconds until all nodes have a publication.

    Delays are 40 to 130 ms, rates 40 to 200 Mbit/s.
    """
    rng = np.random.default_rng(nodes)
    a, b = mesh_of(nodes, rng)
    delay_us = np.tile(rng.integers(40_000, 130_000, len(a)), 2)
    room = np.zeros(2 * len(a), dtype=np.int64)
    rate = rng.integers(40, 200, nodes) * 10**6
    given = ClockSetting(
        Nodes(np.arange(nodes), rate, rate, np.zeros(nodes, dtype=np.int64)),
        publications(1, size),
        Discipline(idontwant=idontwant),
    )
    links = links_of(room, np.r_[a, b], np.r_[b, a], delay_us)
    first, copies = play_links(given, links, [0, nodes])
    assert len(first["node"]) == nodes
    return len(copies["node"]) / (nodes - 1) - 1, first["at_us"].max() / 1e6


def test_duplicates_and_times_are_near_those_published():
    """150 KB with IDONTWANT: 4.55 to 4.75 duplicates, 0.98 s for 3,000 nodes, 1.105 for 12,000."""
    found = [spread(nodes, 150_000, 0) for nodes in (3_000, 12_000)]
    assert [duplicates for duplicates, _ in found] == pytest.approx([4.65, 4.65], rel=0.15)
    seconds = [taken for _, taken in found]
    assert seconds == pytest.approx([0.98, 1.105], rel=0.2)
    assert seconds[0] < seconds[1]


def saved_by_idontwant(size: int) -> float:
    """Return the share of the copies that IDONTWANT saves."""
    (without, _), (told, _) = (spread(2_000, size, idontwant) for idontwant in (None, 0))
    return 1 - (1 + told) / (1 + without)


def test_idontwant_saves_as_much_as_published():
    """12 to 21 % of the bandwidth; more with 1 MB, because IDONTWANTs never wait (rule W7)."""
    assert 0.12 <= saved_by_idontwant(128_000) <= 0.21
    assert 0.21 < saved_by_idontwant(1_000_000) < 0.4
