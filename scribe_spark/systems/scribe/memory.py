"""Memory of applications at tree nodes, as arrays.

A node keeps data since it entered the tree, and data about each child.  The memory is deleted when
the node dies or enters the tree again, and a child's data when the child dies.  One part of a
node's memory is a ring buffer with the last messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    distinct,
    expand,
    find_sorted,
    numbered,
    turns,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.engine.packing import Columns, Lent, overlay
from scribe_spark.systems.scribe.upcalls import Calls, ScribeApplication

_NODE = ("group", "node")


@dataclass
class AtNodes(SortedTable):
    """The memory of tree nodes since round `entered`; applications add columns."""

    entered: np.ndarray = field(default_factory=whole_numbers)
    ring: np.ndarray = field(default_factory=whole_numbers)


class Remembering(ScribeApplication):
    """An application with memory; new rows of its tables have NONE in all columns.

    `at_nodes`, a table by (group, node), and `at_edges`, one by (group, node, child), are empty at
    first. The ring buffer of each node keeps `buffer` messages.
    """

    def __init__(
        self, nodes: int, at_nodes: AtNodes, at_edges: SortedTable, buffer: int = 1
    ) -> None:
        self.nodes, self.at_nodes, self.at_edges = nodes, at_nodes, at_edges
        self.rings = SharedRings(buffer, at_nodes)
        self._tables = {"nodes": at_nodes, "edges": at_edges}
        self._before: Mapping[str, Columns] = {}  # the tables as `restore` got them

    def rows(self, calls: Calls) -> np.ndarray:
        """Return the rows in `at_nodes` of an upcall's nodes; nodes that entered get new ones."""
        pair, entered = self._pair(calls), calls.here["entered"]
        row = self.at_nodes.find(pair)
        stale = row >= 0
        stale[stale] = self.at_nodes.entered[row[stale]] != entered[stale]
        if stale.any():
            self._forget(np.isin(self.at_nodes.key, pair[stale]))
        new = stale | (row < 0)
        if new.any():
            blank = dict.fromkeys(self.at_nodes.columns(), NONE)
            self.at_nodes.insert(pair[new], **blank | {"entered": entered[new]})
            row = self.at_nodes.find(pair)
        return row

    def edges(self, calls: Calls, call: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Return the rows in `at_edges` of children, which get new rows if needed."""
        key = key_of([self._pair(calls)[call], child], self.nodes)
        row = self.at_edges.find(key)
        if (row < 0).any():
            blank = dict.fromkeys(self.at_edges.columns(), NONE)
            self.at_edges.insert(distinct(key[row < 0]), **blank)
            row = self.at_edges.find(key)
        return row

    def children(self, calls: Calls) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return each child: its node's row in `calls.here`, itself, its row in `at_edges`."""
        call, child = (calls.children[name] for name in ("call", "child"))
        return call, child, self.edges(calls, call, child)

    def _pair(self, calls: Calls) -> np.ndarray:
        return key_of([calls.here[name] for name in _NODE], self.nodes)

    def _forget(self, which: np.ndarray) -> None:
        gone = self.at_nodes.key[which]
        self.at_nodes.keep(~which)
        self.at_edges.keep(find_sorted(gone, self.at_edges.key // self.nodes) < 0)

    def nodes_died(self, nodes: np.ndarray) -> None:
        """Delete the memory of dead nodes, and other nodes' memory of them as children."""
        dead = np.zeros(self.nodes, dtype=bool)
        dead[nodes] = True
        self._forget(dead[self.at_nodes.key % self.nodes])
        self.at_edges.keep(~dead[self.at_edges.key % self.nodes])

    def tables(self) -> dict[str, Columns]:
        tables = {}
        for name, table in self._tables.items():
            columns = table.read()
            tables[name] = overlay(self._before[name], columns) if name in self._before else columns
        return {**tables, "rings": {"top": self.rings.tops, "names": self.rings.names}}

    def restore(self, tables: Mapping[str, Columns]) -> None:
        self._before = tables
        for name, table in self._tables.items():
            table.borrow(Lent(tables[name], writes=True))
        self.rings.tops, self.rings.names = Lent(tables["rings"], writes=True).values()


# --- ring buffers for the rows of a table: each holds the names of the last B numbers
#
# A ring whose largest number is `top` has names of numbers in (top - B, top].  The name of a
# number is in slot ``number % B``; the slot contains NONE if the ring lacks the number.
#
# Most rows have the same names for the same numbers, so equal rings are stored once.  The table's
# column ``ring`` has the index of each row's ring.  Before a write, the ring is copied, once for
# all rows that write the same values.  Rings that became equal are merged when there are many.

#: Equal rings are merged when there is more than one ring per 32 rows.
_ROWS_A_RING = 32


class SharedRings:
    """The ring buffers of a table, with B = `size` slots each; `rows` are row indices of the table.

    The column ``ring`` of the table has the index of the ring of each row, NONE for an empty one.
    `tops` has the largest number in each ring.  The last ring, which NONE selects, stays empty.
    """

    def __init__(self, size: int, table: AtNodes) -> None:
        self.size, self.table = size, table
        self.tops, self.names = self._empty(1)

    def _empty(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        return np.full(n, NONE), np.full((n, self.size), NONE)

    def top(self, rows: np.ndarray) -> np.ndarray:
        """Return the largest number in the ring of each row."""
        return self.tops[self.table.ring[rows]]

    def read(self, rows: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Return the name stored with one number in the ring of each row; NONE if there is none."""
        ring = self.table.ring[rows]
        top = self.tops[ring]
        inside = (number > top - self.size) & (number <= top)
        return np.where(inside, self.names[ring, number % self.size], NONE)

    def between(
        self, rows: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what rings store from `first` to `last`: indices of `rows`, numbers, names."""
        which, number = expand(first, last + 1)
        return which, number, self.read(rows[which], number)

    def leading_to(
        self, rows: np.ndarray, number: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the stored messages with consecutive numbers that end at `number`."""
        return self.between(rows, number + 1 - self.run(rows, number, -1), number)

    def run(
        self,
        rows: np.ndarray,
        number: np.ndarray,
        step: int,
        where: np.ndarray | Literal[True] = True,
    ) -> np.ndarray:
        """Count consecutive numbers in rings, from `number` by steps of 1 or -1."""
        count = np.zeros(len(rows), dtype=np.int64)
        some = np.flatnonzero(np.broadcast_to(where, len(rows)))
        while len(some):
            some = some[self.read(rows[some], number[some] + step * count[some]) != NONE]
            count[some] += 1
        return count

    def write(self, rows: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Write messages into the rings of rows: numbers, and the names stored with them.

        Rows may repeat. A number that is too old for the ring is ignored; a second name for a
        number replaces the first.
        """
        before = len(self.tops)
        for part in turns(rows):
            self._write_one(rows[part], number[part], name[part])
        if len(self.tops) > max(before, len(self.table.ring) // _ROWS_A_RING):
            self._merge()

    def _write_one(self, rows: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Write names as :meth:`write` does, into rings of different rows."""
        new = (number > self.top(rows) - self.size) & (self.read(rows, number) != name)
        if not new.any():
            return
        what = np.stack([self.table.ring[rows], number, name], axis=1)[new]
        # 1. find the distinct writes; neighbouring rows mostly write the same
        starts = np.r_[True, (what[1:] != what[:-1]).any(axis=1)]
        which = numbered(*what[starts].T)
        ring, number, name = what[starts][np.unique(which, return_index=True)[1]].T
        # 2. copy the rings; the slots of numbers since the old top are empty
        top = np.maximum(self.tops[ring], number)
        in_slot = top[:, None] - (top[:, None] - np.arange(self.size)) % self.size
        names = np.where(in_slot <= self.tops[ring][:, None], self.names[ring], NONE)
        copy = self._unused(len(ring))
        self.tops[copy], self.names[copy] = top, names
        self.names[copy, number % self.size] = name
        self.table.ring[rows[new]] = copy[which[np.cumsum(starts) - 1]]

    def _unused(self, n: int) -> np.ndarray:
        """Return the indices of `n` unused rings, which the caller may use."""
        used = self._used()
        if n > len(used) - np.count_nonzero(used):
            tops, names = self._empty(max(n, len(used)))
            self.tops, self.names = np.r_[self.tops, tops], np.concatenate([self.names, names])
            used = self._used()
        return np.flatnonzero(~used)[:n]

    def _used(self) -> np.ndarray:
        used = np.zeros(len(self.tops), dtype=bool)
        used[self.table.ring] = used[NONE] = True
        return used

    def _merge(self) -> None:
        """Let rows with equal rings share one ring, and replace unused rings by new ones."""
        used, rows = self._used(), np.flatnonzero(self.table.ring != NONE)
        used[NONE] = False
        contents = np.column_stack([self.tops, self.names])[used]
        # a sort of hashes takes a hundredth of the time of a sort of contents
        factors = np.multiply.accumulate(np.full(self.size + 1, 0x9E3779B97F4A7C15, np.uint64))
        hashes = contents.view(np.uint64) @ factors
        _, first, of = np.unique(hashes, return_index=True, return_inverse=True)
        same = (contents == contents[first[of]]).all(axis=1)
        kept, which = np.unique(np.where(same, first[of], np.arange(len(of))), return_inverse=True)
        self.table.ring[rows] = which[np.cumsum(used) - 1][self.table.ring[rows]]
        tops, names = self._empty(len(kept) + 1)
        self.tops = np.r_[contents[kept, 0], tops]
        self.names = np.concatenate([contents[kept, 1:], names])
