"""The state of NICE: the layers of clusters of all groups of a builder.

A *seat* is a node's place in a layer, a key (group, node); the *head* of its cluster is the key
(group, leader).  A node has at most one seat in a layer.  It has one in layer i + 1 if and only if
it leads a cluster in layer i, and then the head of that seat names the *cluster above*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.engine import Columns
from scribe_spark.rounds.group_overlays import Network

#: The most pairs of nodes whose distances are computed at once.
_PAIRS = 1 << 21
#: A round trip above all others, in microseconds.
_FAR = 1 << 36

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Clusters:
    """Clusters of a layer: ``head[i]`` leads ``member[first[i]:first[i] + size[i]]``; ascending."""

    head: np.ndarray
    first: np.ndarray
    size: np.ndarray
    member: np.ndarray

    @classmethod
    def of(cls, head: np.ndarray, key: np.ndarray) -> Clusters:
        """Group the members `key` (ascending) into clusters by the leader `head` of each."""
        order = np.argsort(head, kind="stable")
        head = head[order]
        first = arrays.run_starts(head)
        return cls(head[first], first, np.diff(first, append=len(head)), key[order])

    @property
    def index(self) -> np.ndarray:
        """The index of the cluster of each member."""
        return np.repeat(np.arange(len(self.head)), self.size)

    def members_of(self, head: np.ndarray) -> Pair:
        """Return the members of the clusters of the leaders `head`: index in `head`, and key."""
        at = arrays.find_sorted(self.head, head)
        there = np.flatnonzero(at >= 0)
        first = self.first[at[there]]
        pair, row = arrays.expand(first, first + self.size[at[there]])
        return there[pair], self.member[row]

    def peers(self, some: np.ndarray) -> Pair:
        """Return pairs (indices) of a member that `some` marks and another one of its cluster."""
        first = self.first[self.index]
        row, other = arrays.expand(first, first + self.size[self.index] * some)
        return row[row != other], other[row != other]


@dataclass
class Layer(arrays.SortedTable):
    """A layer: its seats, by the keys of nodes, and the heads of their clusters."""

    head: np.ndarray = field(default_factory=arrays.whole_numbers)

    def head_of(self, key: np.ndarray) -> np.ndarray:
        """Return the head of each node's cluster; NONE without a seat here."""
        at = self.find(key)
        return np.where(at < 0, arrays.NONE, self.head[at]) if len(self) else at

    def led_by(self, old: np.ndarray, new: np.ndarray) -> Layer:
        """Return the layer with each head in `old` (keys, ascending) replaced by that in `new`."""
        at = arrays.find_sorted(old, self.head)
        return Layer(self.key, np.where(at < 0, self.head, new[at])) if len(old) else self

    @property
    def clusters(self) -> Clusters:
        """The clusters of the layer."""
        return Clusters.of(self.head, self.key)


def layers_of(rows: Columns | None, size: int) -> list[Layer]:
    """Return the layers of the table ``group, layer, leader, node``; `size` is K."""
    if rows is None:
        return []
    key, head = (rows["group"] * size + rows[end] for end in ("node", "leader"))
    order = np.lexsort((key, rows["layer"]))
    ends = np.cumsum(np.bincount(rows["layer"]))[:-1]
    return [Layer(key[some], head[some]) for some in np.split(order, ends)]


def rows_of(layers: Sequence[Layer], size: int) -> Columns:
    """Return layers as the table ``group, layer, leader, node``, sorted by its columns."""
    every = [Layer(), *layers]
    key, head = (np.concatenate([getattr(one, of) for one in every]) for of in ("key", "head"))
    layer = np.repeat(np.arange(len(layers)), [len(one.key) for one in layers])
    order = np.lexsort((key, head, layer, key // size))
    group, node = np.divmod(key[order], size)
    return {"group": group, "layer": layer[order], "leader": head[order] % size, "node": node}


def tops(layers: Sequence[Layer], size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the groups with members, ascending, their top layers and the keys of their leaders."""
    group = arrays.distinct(layers[0].key // size) if layers else arrays.whole_numbers()
    top, head = np.zeros_like(group), np.zeros_like(group)
    for number, layer in enumerate(layers):
        start = arrays.run_starts(layer.key // size)
        at = arrays.find_sorted(group, layer.key[start] // size)
        top[at], head[at] = number, layer.head[start]
    return group, top, head


@dataclass(frozen=True)
class Distances:
    """Round trips between nodes, which are twice NICE's distances, in microseconds."""

    network: Network

    def trips(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return round trips (us) between the nodes of the keys `a` and `b`."""
        size = len(self.network.ring)
        return self.network.round_trips(a % size, b % size)

    def radii(self, sets: Clusters) -> np.ndarray:
        """Return the longest round trip (us) of each member to others of its cluster: int64."""
        first, size = sets.first[sets.index], sets.size[sets.index]
        radius = np.zeros(len(size), dtype=np.int64)
        step = max(1, _PAIRS // int(size.max(initial=1)))
        for start in range(0, len(size), step):
            some = slice(start, start + step)
            row, other = arrays.expand(first[some], (first + size)[some])
            trip = self.trips(sets.member[some][row], sets.member[other])
            radius[some] = np.maximum.reduceat(trip, arrays.run_starts(row))
        return radius

    def nearest(self, pair: np.ndarray, trip: np.ndarray, node: np.ndarray) -> Pair:
        """Return the nearest (then least) node for each value of `pair`, and its round trip."""
        size, start = len(self.network.ring), arrays.run_starts(pair)
        trip, least = np.divmod(np.minimum.reduceat(trip * size + node % size, start), size)
        return node[start] // size * size + least, trip

    def centres(self, sets: Clusters, answers: np.ndarray) -> Pair:
        """Return the centre of each cluster, if possible one that `answers`, and members' radii."""
        radius = self.radii(sets)
        return self.nearest(sets.index, radius + _FAR * ~answers, sets.member)[0], radius
