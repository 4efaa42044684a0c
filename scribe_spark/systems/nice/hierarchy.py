"""The state of NICE: the layers of clusters of all groups of a builder.

A *seat* is a node's place in a layer, a key (group, node); the *head* of its cluster is the key
(group, leader).  A node has at most one seat in a layer.  It has one in layer i + 1 if and only if
it leads a cluster in layer i, and then the head of that seat names the *cluster above*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    distinct,
    expand,
    find_sorted,
    run_starts,
    whole_numbers,
)
from scribe_spark.engine.packing import Columns
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.underlay.protocol import node_delays

#: The most pairs of nodes whose distances are computed at once.
_PAIRS = 1 << 21


@dataclass(frozen=True)
class Clusters:
    """Clusters, or other sets, and their members.

    Attributes
    ----------
    head : ndarray of int64, shape (c,)
        The heads, ascending.
    first, end : ndarray of int64, shape (c,)
        The range of each cluster in `member`.
    member : ndarray of int64, shape (m,)
        The seats, ascending within a cluster.
    """

    head: np.ndarray
    first: np.ndarray
    end: np.ndarray
    member: np.ndarray

    @classmethod
    def of(cls, head: np.ndarray, key: np.ndarray) -> Clusters:
        """Return the clusters of seats, which are ascending."""
        order = np.argsort(head, kind="stable")
        head = head[order]
        first = run_starts(head)
        end = np.append(first[1:], len(head))[: len(first)]
        return cls(head[first], first, end, key[order])

    def __len__(self) -> int:
        return len(self.head)

    @property
    def size(self) -> np.ndarray:
        """The number of members of each cluster."""
        return self.end - self.first

    @property
    def index(self) -> np.ndarray:
        """The index of the cluster of each member."""
        return np.repeat(np.arange(len(self)), self.size)

    def find(self, head: np.ndarray) -> np.ndarray:
        """Return the indices of clusters by their heads, or NONE."""
        return find_sorted(self.head, head)

    def members_of(self, head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of each head, ascending, and the members of its cluster, if any."""
        at = self.find(head)
        if not len(self):
            return whole_numbers(), whole_numbers()
        first, end = (np.where(at < 0, 0, bound[at]) for bound in (self.first, self.end))
        pair, row = expand(first, end)
        return pair, self.member[row]


@dataclass(frozen=True)
class Layer:
    """The seats of a layer, ascending, and the heads of their clusters."""

    key: np.ndarray = field(default_factory=whole_numbers)
    head: np.ndarray = field(default_factory=whole_numbers)

    def take(self, some: np.ndarray) -> Layer:
        """Return some of the seats."""
        return Layer(self.key[some], self.head[some])

    def with_seats(self, key: np.ndarray, head: np.ndarray) -> Layer:
        """Return the layer with more seats."""
        keys, heads = np.r_[self.key, key], np.r_[self.head, head]
        order = np.argsort(keys, kind="stable")
        return Layer(keys[order], heads[order])

    def head_of(self, key: np.ndarray) -> np.ndarray:
        """Return the heads of seats, or NONE for nodes without a seat."""
        at = find_sorted(self.key, key)
        return np.where(at < 0, NONE, self.head[at]) if len(self.key) else at

    def led_by(self, old: np.ndarray, new: np.ndarray) -> Layer:
        """Return the layer with new heads in the place of old ones, which are ascending."""
        at = find_sorted(old, self.head)
        return Layer(self.key, np.where(at < 0, self.head, new[at])) if len(old) else self

    @property
    def clusters(self) -> Clusters:
        """The clusters of the layer."""
        return Clusters.of(self.head, self.key)


def read_layers(rows: Columns | None, size: int) -> list[Layer]:
    """Return the layers of the table of clusters (``group, layer, leader, node``) of K nodes."""
    if rows is None:
        return []
    key, head = (rows["group"] * size + rows[end] for end in ("node", "leader"))
    order = np.lexsort((key, rows["layer"]))
    ends = np.cumsum(np.bincount(rows["layer"]))[:-1]
    return [Layer(key[some], head[some]) for some in np.split(order, ends)]


def layer_table(layers: list[Layer], size: int) -> dict[str, np.ndarray]:
    """Return the table of clusters, sorted by its columns."""
    key, head = (np.concatenate([getattr(one, of) for one in layers]) for of in ("key", "head"))
    layer = np.repeat(np.arange(len(layers)), [len(one.key) for one in layers])
    order = np.lexsort((key, head, layer, key // size))
    group, node = np.divmod(key[order], size)
    return {"group": group, "layer": layer[order], "leader": head[order] % size, "node": node}


def tops(layers: list[Layer], size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the groups with members, ascending, their top layers, and the heads of these."""
    group = distinct(layers[0].key // size) if layers else whole_numbers()
    top, head = np.zeros_like(group), np.zeros_like(group)
    for number, layer in enumerate(layers):
        start = run_starts(layer.key // size)
        at = find_sorted(group, layer.key[start] // size)
        top[at], head[at] = number, layer.head[start]
    return group, top, head


@dataclass(frozen=True)
class Distances:
    """Round trips between nodes, twice the distances of NICE, in microseconds."""

    network: Network

    def trips(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the round trips between nodes given by seats, row by row: int64."""
        size, router = len(self.network.ring), self.network.ring.router
        ends = router[a % size], router[b % size]
        facts = self.network.kernel, self.network.lan_us
        trip = node_delays(*facts, *ends) + node_delays(*facts, *ends[::-1])
        return np.where(a == b, 0, trip)

    def radii(self, sets: Clusters) -> np.ndarray:
        """Return the longest round trip from each member to the others of its set."""
        first, end = (np.repeat(bound, sets.size) for bound in (sets.first, sets.end))
        radius = np.zeros(len(sets.member), dtype=np.int64)
        for some in _chunks(end - first):
            row, other = expand(first[some], end[some])
            trip = self.trips(sets.member[some][row], sets.member[other])
            radius[some] = np.maximum.reduceat(trip, run_starts(row))
        return radius

    def nearest(
        self, pair: np.ndarray, trip: np.ndarray, candidate: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest candidate of each pair's index, ascending, and its round trip."""
        least = np.minimum.reduceat(self._rank(trip, candidate), run_starts(pair))
        trip, node = np.divmod(least, len(self.network.ring))
        return candidate[run_starts(pair)] // len(self.network.ring) * len(self.network.ring) + node, trip

    def _rank(self, value: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Return numbers in the order of values, and then of nodes."""
        return value * len(self.network.ring) + key % len(self.network.ring)

    def centres(self, sets: Clusters, answers: np.ndarray) -> np.ndarray:
        """Return the centre of each set: the member of least radius, of those that answer if any do.

        `answers` are marks of the members.
        """
        if not len(sets):
            return whole_numbers()
        radius = np.where(answers, self.radii(sets), _SILENT)
        return self.nearest(sets.index, radius, sets.member)[0]


#: A radius above all others.
_SILENT = 1 << 36


def _chunks(lengths: np.ndarray) -> Iterator[slice]:
    """Yield slices of rows whose lengths add up to about `_PAIRS`."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _PAIRS, side="right")))
        yield slice(start, stop)
        start = stop
