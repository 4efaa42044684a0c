"""The hash table: the hosts of one or many rings, and the keys that belong to each.

A *keyset* is an interval of keys.  It follows from the ids of a host and its two neighbours on the
ring, which every bucket of the engine can read.

Costa and Frey, Section 3 (the three properties of the hash table), Definition 1, and Section 4.1
("an abstract component with the ability to map keys onto hosts").
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, find_sorted
from scribe_spark.core.u128 import Numbers, Wide, divide, from_halves, number, where
from scribe_spark.engine.facts import Ring
from scribe_spark.systems.reference_tree.tree import ReferenceTree, topmost_keys

#: The assignments of keys to hosts.  `chord`: a host has the keys after its predecessor's id, up to
#: its own id.  `pastry`: a host has the keys that are numerically closest to its id.
ASSIGNMENTS = CHORD, PASTRY = ("chord", "pastry")


def last_keys(tree: ReferenceTree, assignment: str, own: Numbers, following: Numbers) -> Numbers:
    """Return the last key of each host, from its id and the id of the next host clockwise."""
    if assignment == CHORD:
        return own
    one = number(np.ones(len(own)), own)
    # If two hosts are equally close to a key, the host with the smaller id has it.  This is the
    # following host where the ring wraps around 0 between them.
    gap = (following - own) & tree.greatest
    wraps = following <= own
    half, _ = divide(where(wraps, (gap - one) & tree.greatest, gap), 2)
    single = following == own
    half = where(single, half + one, half)  # (2**bits - 1) / 2 rounded down, and one
    return (own + half) & tree.greatest


def contains(first: Numbers, last: Numbers, key: Numbers) -> np.ndarray:
    """Return whether the keyset from `first` to `last` has the key; it may wrap around 0."""
    after, before = first <= key, key <= last
    return np.where(last < first, after | before, after & before)


@dataclass(frozen=True)
class HashTable:
    """Hosts, sorted by ring and id, and their keysets; the first or last of a ring may wrap."""

    tree: ReferenceTree
    #: int64, shape (n,): the numbers of the hosts.
    node: np.ndarray
    #: int64, shape (R + 1,): the rows of ring i are from ``starts[i]`` up to ``starts[i + 1] - 1``.
    starts: np.ndarray
    #: shape (n,): the first and the last key of each keyset.
    first: Numbers
    last: Numbers
    #: The topmost key of each keyset, and its depth + 1: 0 until the key is needed.
    _topmost: Numbers = field(repr=False)
    _level: np.ndarray = field(repr=False)

    @classmethod
    def of(
        cls,
        tree: ReferenceTree,
        assignment: str,
        ids: Numbers,
        ring: np.ndarray,
        node: np.ndarray,
        rings: int,
    ) -> HashTable:
        """Return the hash table of hosts, which are sorted by ring and id."""
        starts, row = np.searchsorted(ring, np.arange(rings + 1)), np.arange(len(ring))
        # (each ring wraps around)
        following = np.where(row + 1 == starts[ring + 1], starts[ring], row + 1)
        preceding = np.where(row == starts[ring], starts[ring + 1], row) - 1
        last = last_keys(tree, assignment, ids, ids[following])
        first = (last[preceding] + number(np.ones(len(row)), last)) & tree.greatest
        level = np.zeros(len(row), dtype=np.int64)
        return cls(tree, node, starts, first, last, tree.rows(0, len(row)), level)

    @classmethod
    def of_ring(
        cls, tree: ReferenceTree, assignment: str, ring: Ring, host: np.ndarray
    ) -> HashTable:
        """Return the hash table of some nodes of a ring: positions, ascending."""
        ids = from_halves(ring.hi[host], ring.lo[host], tree.bits)
        return cls.of(tree, assignment, ids, np.zeros(len(host), dtype=np.int64), host, 1)

    def __len__(self) -> int:
        return len(self.node)

    def ring_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the ring of the host in each row: int64."""
        return np.searchsorted(self.starts[1:-1], rows, side="right")

    def find(self, node: np.ndarray) -> np.ndarray:
        """Return the row of each host, given by its number; `NONE` without one: int64."""
        numbers, row = self._by_node
        at = find_sorted(numbers, node)
        return np.where(at >= 0, row[at], NONE)

    @functools.cached_property
    def _by_node(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.node, kind="stable")
        return self.node[order], order

    def topmost(self, rows: np.ndarray) -> tuple[Numbers, np.ndarray]:
        """Return the topmost keys of the hosts in some rows, and the depths of these keys."""
        missing = self._level[rows] == 0
        if missing.any():
            new = distinct(rows[missing])
            found = topmost_keys(self.tree, self.first[new], self.last[new])
            self._topmost[new], self._level[new] = found.key, found.depth + 1
        return self._topmost[rows], self._level[rows] - 1

    def owner(self, ring: np.ndarray, key: Numbers) -> np.ndarray:
        """Return the row of each key's owner: int64."""
        begin, final = self.starts[ring], self.starts[ring + 1] - 1
        low, high = begin, final
        if len(self.starts) == 2:
            known, half = (self.last[:-1], key)
            if isinstance(key, Wide):
                known, half = known.hi, key.hi
            low = np.searchsorted(known, half)
            high = np.searchsorted(known, half, side="right") if isinstance(key, Wide) else low
        # bisect: the first host before the final one whose last key is not before the key
        while (searching := low < high).any():
            middle = (low + high) >> 1
            before = (self.last[middle] < key) & searching
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        # around 0, the key may belong to the final host instead of the first one, or the reverse
        end = np.flatnonzero((low == begin) | (low == final))
        row = low[end]
        end = end[~contains(self.first[row], self.last[row], key[end])]
        owner = low.copy()
        owner[end] = np.where(low[end] == final[end], begin[end], final[end])
        return owner
