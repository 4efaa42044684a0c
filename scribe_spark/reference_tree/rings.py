"""Keysets: the keys that the hash table assigns to each host, for many independent rings.

A keyset is an interval of keys.  The hosts are sorted by the last keys of their keysets; a binary
search in these last keys finds the owner of a key.

References
----------
Costa and Frey, Section 3 (the three properties of the hash table) and Definition 1.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.core.u128 import Numbers, Wide, divide, lexsort, number, where
from scribe_spark.errors import InputError, listed
from scribe_spark.reference_tree.topmost import topmost_keys
from scribe_spark.reference_tree.tree import ReferenceTree

#: The assignments of keys to hosts.  `chord`: a host has the keys after its predecessor's id, up to
#: its own id.  `pastry`: a host has the keys that are numerically closest to its id.
ASSIGNMENTS = CHORD, PASTRY = ("chord", "pastry")


def check_assignment(assignment: str) -> None:
    """Raise InputError for an unknown assignment of keys."""
    if assignment not in ASSIGNMENTS:
        raise InputError("assignment", assignment, f"is unknown; give one of {listed(ASSIGNMENTS)}")


def last_keys(tree: ReferenceTree, assignment: str, own: Numbers, following: Numbers) -> Numbers:
    """Return the last key of each host, from its id and the id of the next host clockwise.

    Both ids are equal for a single host.
    """
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
    """Return whether the keyset from `first` to `last`, which may wrap around 0, has the key."""
    after, before = first <= key, key <= last
    return np.where(last < first, after | before, after & before)


@dataclass(frozen=True)
class Rings:
    """The keysets of hosts, sorted by ring and last key."""

    #: int64, shape (R + 1,): the rows of ring i are from ``starts[i]`` up to ``starts[i + 1] - 1``.
    starts: np.ndarray
    #: int64, shape (R,): the row of the host that owns the keys after the last row's last key.
    beyond: np.ndarray
    #: shape (n,): the first and the last key of each keyset, and its topmost key.
    first: Numbers
    last: Numbers
    topmost: Numbers
    #: int64, shape (n,): the depth of the topmost key.
    depth: np.ndarray
    #: int64, shape (n,): the numbers of the hosts.
    node: np.ndarray
    #: The first and the last key of the interval in which all owners are known; None for all keys.
    answers: tuple[Numbers, Numbers] | None = None

    @classmethod
    def of(
        cls,
        tree: ReferenceTree,
        assignment: str,
        ids: Numbers,
        ring: np.ndarray,
        node: np.ndarray,
        rings: int,
    ) -> Rings:
        """Return the keysets of all hosts on all rings; the hosts may be in any order."""
        order = lexsort(ids, ring)
        ids, ring, node = ids[order], ring[order], node[order]
        starts = np.searchsorted(ring, np.arange(rings + 1))
        own = last_keys(tree, assignment, ids, ids[_following(starts, ring)])
        order = lexsort(own, ring)  # the last key of the last host may have wrapped around 0
        last, node = own[order], node[order]
        first = last[_preceding(starts, ring)] + number(np.ones(len(ring)), last)
        first = first & tree.greatest
        found = topmost_keys(tree, first, last)
        return cls(starts, starts[:-1], first, last, found.key, found.depth, node)

    def __len__(self) -> int:
        return len(self.node)

    def within(self, first: Numbers, last: Numbers) -> Rings:
        """Return only the hosts of one ring that own keys of an interval that does not wrap.

        The result answers for the keys of the interval only.
        """
        inside = np.flatnonzero((self.last >= first) & (self.last <= last))
        # the owner of the last key also owns the keys after all other hosts' last keys
        end = number(np.zeros(1, dtype=np.uint64), self.last) + last
        rows = np.append(inside, self.owner(np.zeros(1, int), end))
        beyond = len(rows) - 1
        return Rings(
            np.array([0, beyond]),
            np.array([beyond]),
            self.first[rows],
            self.last[rows],
            self.topmost[rows],
            self.depth[rows],
            self.node[rows],
            (first, last),
        )

    def ring_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the ring of the host in each row: int64."""
        return np.searchsorted(self.starts[1:-1], rows, side="right")

    def rows_of(self, node: np.ndarray) -> np.ndarray:
        """Return the first row of each host, given by its number, which must have one: int64.

        The numbers must be dense, like positions on the ring: there is an array over their range.
        """
        least, row = self._row_by_number
        return row[node - least].astype(np.int64)

    def have(self, node: np.ndarray) -> np.ndarray:
        """Return whether each host, given by its number, has a row: bool."""
        least, row = self._row_by_number
        inside = (node >= least) & (node < least + len(row))
        return inside & (row[np.where(inside, node - least, 0)] != NONE)

    @functools.cached_property
    def _row_by_number(self) -> tuple[int, np.ndarray]:
        """Return the least host number, and an array with the first row of each number."""
        least = int(self.node.min())
        row = np.full(int(self.node.max()) - least + 1, NONE, dtype=np.int32)
        row[self.node[::-1] - least] = np.arange(len(self.node) - 1, -1, -1)
        return least, row

    def is_known(self, key: Numbers) -> np.ndarray:
        """Return whether the owner of each key is known here."""
        if self.answers is None:
            return np.ones(len(key), dtype=bool)
        return (self.answers[0] <= key) & (key <= self.answers[1])

    def owner(self, ring: np.ndarray, key: Numbers) -> np.ndarray:
        """Return the row of each key's owner: int64.

        The owner is the first host of the ring whose last key is not less than the key.
        """
        low, high = self.starts[ring], self.starts[ring + 1]
        end = high
        if len(self.starts) == 2 and isinstance(key, Wide):
            known = self.last.hi[: self.starts[1]]
            low = np.searchsorted(known, key.hi, side="left")
            high = np.searchsorted(known, key.hi, side="right")
        elif len(self.starts) == 2:
            low = high = np.searchsorted(self.last[: self.starts[1]], key)
        last = len(self.node) - 1
        while (low < high).any():
            middle = (low + high) >> 1
            before = (self.last[np.minimum(middle, last)] < key) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return np.where(low == end, self.beyond[ring], low)


def _following(starts: np.ndarray, ring: np.ndarray) -> np.ndarray:
    """Return the index of the next row on the same ring, which wraps around."""
    row = np.arange(1, len(ring) + 1)
    return np.where(row == starts[ring + 1], starts[ring], row)


def _preceding(starts: np.ndarray, ring: np.ndarray) -> np.ndarray:
    """Return the index of the row before on the same ring, which wraps around."""
    row = np.arange(len(ring))
    return np.where(row == starts[ring], starts[ring + 1], row) - 1
