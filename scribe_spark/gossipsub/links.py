"""The tables of a node about its peers: connections, mesh, back-off; by topic, node and peer.

A row's key is one number made of the index of the topic and the positions of node and peer, so that
the rows of a node in a topic stand together, its peers in the order of their nodeIds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import (
    SortedTable,
    codes,
    divided,
    expand,
    whole_numbers,
)
from scribe_spark.core.keys import key_of

#: How a connection came to be, at one of its ends: this end has dialled the other (it is outbound),
#: the other end has dialled this one; or both.
DIALLED, WAS_DIALLED = 1, 2

#: To look through so many rows takes as long as to search for one place.
_ROWS_OF_A_SEARCH = 64

#: The intermediate results for so many links stay in the processor's cache.
_LINKS_AT_ONCE = 2**15


@dataclass
class Links(SortedTable):
    """Connections, or those of them that are in the mesh.

    Attributes
    ----------
    way : ndarray of int8
        :data:`DIALLED`, :data:`WAS_DIALLED`, or their sum.
    """

    way: np.ndarray = field(default_factory=codes)


@dataclass
class BackOff(SortedTable):
    """Peers that a node does not GRAFT for some time.

    Attributes
    ----------
    until : ndarray of int64
        The first heartbeat in which it may again.
    """

    until: np.ndarray = field(default_factory=whole_numbers)

    def holds(self, keys: np.ndarray, heartbeat: int) -> np.ndarray:
        """Return which rows are in back-off: bool."""
        row = self.find(keys)
        found = row >= 0
        found[found] = self.until[row[found]] > heartbeat
        return found


@dataclass
class Runs(SortedTable):
    """The rows of places in a table of links, by place.

    Attributes
    ----------
    first, last : ndarray of int64
        The first row, and the one after the last.
    """

    first: np.ndarray = field(default_factory=whole_numbers)
    last: np.ndarray = field(default_factory=whole_numbers)

    def rows(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each place, and the first one after them; equal ones of none."""
        at = self.find(place)
        if not len(self):
            return at, at
        first = self.first[at]
        return first, np.where(at >= 0, self.last[at], first)


@dataclass(frozen=True)
class Space:
    """Keys of topics, nodes and peers.

    Attributes
    ----------
    size : int
        How many nodes there are, K; a *place* is a topic and a node: ``topic * size + node``.
    """

    size: int

    def key(self, place: np.ndarray, peer: np.ndarray) -> np.ndarray:
        """Return the keys of places and peers."""
        return key_of([place, peer], self.size)

    def split(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return topic, node and peer."""
        place, peer = divided(key, self.size)
        return *divided(place, self.size), peer

    def peers_among(self, key: np.ndarray, marked: np.ndarray) -> np.ndarray:
        """Return whether the peers of links are marked: bool.

        Parameters
        ----------
        marked : ndarray of bool, shape (K,)
        """
        found = np.empty(len(key), dtype=bool)
        for start in range(0, len(key), _LINKS_AT_ONCE):
            some = slice(start, start + _LINKS_AT_ONCE)
            found[some] = marked[divided(key[some], self.size)[1]]
        return found

    def rows(self, table: SortedTable, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each place, and the first one after them; equal ones of none."""
        if len(place) * _ROWS_OF_A_SEARCH < len(table):
            first = np.searchsorted(table.key, place * self.size)
            return first, np.searchsorted(table.key, (place + 1) * self.size)
        return self.runs(table).rows(place)

    def runs(self, table: SortedTable) -> Runs:
        """Return the rows of every place that has some."""
        key, is_first = table.key, np.ones(len(table), dtype=bool)
        for start in range(1, len(key), _LINKS_AT_ONCE):
            place = key[start - 1 : start + _LINKS_AT_ONCE] // self.size
            is_first[start : start + _LINKS_AT_ONCE] = place[1:] != place[:-1]
        first = np.flatnonzero(is_first)
        return Runs(key[first] // self.size, first, np.append(first, len(key))[1:])

    def at(self, table: SortedTable, place: np.ndarray) -> np.ndarray:
        """Return the keys of the rows of some places."""
        return table.key[expand(*self.rows(table, place))[1]]

    def count(self, table: SortedTable, place: np.ndarray) -> np.ndarray:
        """Return how many rows each place has."""
        first, last = self.rows(table, place)
        return last - first


def turned_way(way: np.ndarray) -> np.ndarray:
    """Return how connections came to be at their other ends."""
    return ((way & DIALLED) << 1 | (way & WAS_DIALLED) >> 1).astype(np.int8)
