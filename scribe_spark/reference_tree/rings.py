"""Keysets: which keys the hash table assigns to which host, for many independent rings at once.

A keyset is an interval of keys that ends where its host's keys end; so hosts in the order of their
last keys answer who owns a key.

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

#: A host has the keys after its predecessor's id up to its own id; or the keys numerically closest
#: to its id.
ASSIGNMENTS = CHORD, PASTRY = ("chord", "pastry")


def check_assignment(assignment: str) -> None:
    """Raise InputError for an unknown assignment of keys.

    Raises
    ------
    InputError
    """
    if assignment not in ASSIGNMENTS:
        raise InputError("assignment", assignment, f"is unknown; give one of {listed(ASSIGNMENTS)}")


def last_keys(tree: ReferenceTree, assignment: str, own: Numbers, following: Numbers) -> Numbers:
    """The last key of each host.

    Parameters
    ----------
    tree : ReferenceTree
    assignment : str
        One of :data:`ASSIGNMENTS`.
    own, following : Numbers, shape (n,)
        The ids of the hosts, and of those that follow them clockwise; equal for a single host.
    """
    if assignment == CHORD:
        return own
    one = number(np.ones(len(own)), own)
    # Of two hosts equally close to a key, the one with the smaller id has it: where the ring wraps
    # between them that is the following one.
    gap = (following - own) & tree.greatest
    wraps = following <= own
    half, _ = divide(where(wraps, (gap - one) & tree.greatest, gap), 2)
    single = following == own
    half = where(single, half + one, half)  # (2**bits - 1) / 2 rounded down, and one
    return (own + half) & tree.greatest


def contains(first: Numbers, last: Numbers, key: Numbers) -> np.ndarray:
    """Return whether a key is in the keyset from `first` to `last`, which may wrap."""
    after, before = first <= key, key <= last
    return np.where(last < first, after | before, after & before)


@dataclass(frozen=True)
class Rings:
    """Keysets of hosts, in the order of rings and last keys.

    Attributes
    ----------
    starts : ndarray of int64, shape (R + 1,)
        Where the hosts of each ring begin.
    beyond : ndarray of int64, shape (R,)
        The host that has the keys after the last key of the last host of a ring.
    first, last, topmost : Numbers, shape (n,)
        The keyset and its topmost key.
    depth : ndarray of int64, shape (n,)
        Depth of the topmost key.
    node : ndarray of int64, shape (n,)
        Numbers of the hosts.
    answers : tuple of Numbers, optional
        The first and the last key whose owners are known here; None: all are.
    """

    starts: np.ndarray
    beyond: np.ndarray
    first: Numbers
    last: Numbers
    topmost: Numbers
    depth: np.ndarray
    node: np.ndarray
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
        """All hosts of all rings.

        Parameters
        ----------
        ids : Numbers, shape (n,)
            Ids of the hosts, in any order; those of one ring differ.
        ring : ndarray of int64, shape (n,)
            The ring of each host, from 0.
        node : ndarray of int64, shape (n,)
            Its number.
        rings : int
            How many rings.
        """
        order = lexsort(ids, ring)
        ids, ring, node = ids[order], ring[order], node[order]
        starts = np.searchsorted(ring, np.arange(rings + 1))
        own = last_keys(tree, assignment, ids, ids[_following(starts, ring)])
        order = lexsort(own, ring)  # the last one's last key may have wrapped
        last, node = own[order], node[order]
        first = last[_preceding(starts, ring)] + number(np.ones(len(ring)), last)
        first = first & tree.greatest
        found = topmost_keys(tree, first, last)
        return cls(starts, starts[:-1], first, last, found.key, found.depth, node)

    def __len__(self) -> int:
        return len(self.node)

    def within(self, first: Numbers, last: Numbers) -> Rings:
        """The hosts of one ring that own keys of an interval, which are all that is known then.

        Parameters
        ----------
        first, last : Numbers
            One number each; the interval does not wrap.
        """
        inside = np.flatnonzero((self.last >= first) & (self.last <= last))
        # the owner of the last key also has the keys after all others
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
        """The ring of the host in each row: int64."""
        return np.searchsorted(self.starts[1:-1], rows, side="right")

    def rows_of(self, node: np.ndarray) -> np.ndarray:
        """The first row of each host that is given by its number, which is there: int64.

        Numbers are close together, as places of hosts on the ring are.
        """
        least, row = self._row_by_number
        return row[node - least].astype(np.int64)

    def have(self, node: np.ndarray) -> np.ndarray:
        """Return whether each host, given by its number, is there: bool."""
        least, row = self._row_by_number
        inside = (node >= least) & (node < least + len(row))
        return inside & (row[np.where(inside, node - least, 0)] != NONE)

    @functools.cached_property
    def _row_by_number(self) -> tuple[int, np.ndarray]:
        """The least number of a host, and the first row of each number from there on."""
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
        """The place of each key's owner: the first host of the ring whose last key is not before.

        Returns
        -------
        ndarray of int64
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
    """The place after each, around its ring."""
    place = np.arange(1, len(ring) + 1)
    return np.where(place == starts[ring + 1], starts[ring], place)


def _preceding(starts: np.ndarray, ring: np.ndarray) -> np.ndarray:
    """The place before each, around its ring."""
    place = np.arange(len(ring))
    return np.where(place == starts[ring], starts[ring + 1], place) - 1
