"""Tables of a node's peers, by topic, node and peer: connections, mesh and back-off.

The key of a row combines the index of the topic and the positions of node and peer, so that the
rows of a node in a topic are adjacent, and its peers are in the order of their nodeIds.
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

#: How a connection was made, seen from one end: this end dialled the other (the link is outbound),
#: the other end dialled this one, or both (the sum).
DIALLED, WAS_DIALLED = 1, 2

#: The number of rows whose scan takes as long as one binary search.
_ROWS_OF_A_SEARCH = 64

#: The number of links whose intermediate results fit into the processor's cache.
_LINKS_AT_ONCE = 2**15


@dataclass
class Links(SortedTable):
    """Connections, or the links of the mesh."""

    #: int8: :data:`DIALLED`, :data:`WAS_DIALLED`, or their sum.
    way: np.ndarray = field(default_factory=codes)


@dataclass
class BackOff(SortedTable):
    """Peers to which a node must not send GRAFT for some time."""

    #: The first heartbeat in which it may send GRAFT again.
    until: np.ndarray = field(default_factory=whole_numbers)

    def holds(self, keys: np.ndarray, heartbeat: int) -> np.ndarray:
        """Return True for links in back-off."""
        row = self.find(keys)
        found = row >= 0
        found[found] = self.until[row[found]] > heartbeat
        return found


@dataclass
class Runs(SortedTable):
    """The range of rows of each (topic, node) in a table of links."""

    #: The first row, and the row after the last one.
    first: np.ndarray = field(default_factory=whole_numbers)
    last: np.ndarray = field(default_factory=whole_numbers)

    def rows(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each place and the row after its last one; equal if none."""
        at = self.find(place)
        if not len(self):
            return at, at
        first = self.first[at]
        return first, np.where(at >= 0, self.last[at], first)


@dataclass(frozen=True)
class Space:
    """Conversion between topics, nodes, peers and keys of tables.

    A *place* is the key of a topic and a node: ``topic * size + node``.
    """

    size: int  # K, the number of nodes

    def key(self, place: np.ndarray, peer: np.ndarray) -> np.ndarray:
        """Return the keys of (place, peer)."""
        return key_of([place, peer], self.size)

    def split(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split keys into topic, node and peer."""
        place, peer = divided(key, self.size)
        return *divided(place, self.size), peer

    def peers_among(self, key: np.ndarray, marked: np.ndarray) -> np.ndarray:
        """Return True for links whose peer, by position, is marked."""
        found = np.empty(len(key), dtype=bool)
        for start in range(0, len(key), _LINKS_AT_ONCE):
            some = slice(start, start + _LINKS_AT_ONCE)
            found[some] = marked[divided(key[some], self.size)[1]]
        return found

    def rows(self, table: SortedTable, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of each place and the row after its last one; equal if none."""
        if len(place) * _ROWS_OF_A_SEARCH < len(table):
            first = np.searchsorted(table.key, place * self.size)
            return first, np.searchsorted(table.key, (place + 1) * self.size)
        return self.runs(table).rows(place)

    def runs(self, table: SortedTable) -> Runs:
        """Return the range of rows of every place in a table."""
        key, is_first = table.key, np.ones(len(table), dtype=bool)
        for start in range(1, len(key), _LINKS_AT_ONCE):
            place = key[start - 1 : start + _LINKS_AT_ONCE] // self.size
            is_first[start : start + _LINKS_AT_ONCE] = place[1:] != place[:-1]
        first = np.flatnonzero(is_first)
        return Runs(key[first] // self.size, first, np.append(first, len(key))[1:])

    def at(self, table: SortedTable, place: np.ndarray) -> np.ndarray:
        """Return the keys of all rows of some places."""
        return table.key[expand(*self.rows(table, place))[1]]

    def count(self, table: SortedTable, place: np.ndarray) -> np.ndarray:
        """Return the number of rows of each place."""
        first, last = self.rows(table, place)
        return last - first


def turned_way(way: np.ndarray) -> np.ndarray:
    """Return how connections were made, seen from their other ends."""
    return ((way & DIALLED) << 1 | (way & WAS_DIALLED) >> 1).astype(np.int8)
