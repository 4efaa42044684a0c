"""Memory of applications at tree nodes, as arrays.

A node keeps data since it entered the tree, and data about each child.  The memory is deleted when
the node dies or enters the tree again, and a child's data when the child dies.  One part of a
node's memory is a ring buffer with the last messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import NONE, SortedTable, distinct, find_sorted, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine.packing import Columns, Lent, overlay
from scribe_spark.scribe.ring_buffers import SharedRings
from scribe_spark.scribe.upcalls import Application, Calls

_NODE = ("group", "node")


@dataclass
class AtNodes(SortedTable):
    """The memory of tree nodes, by (group, node); applications add columns.

    Attributes
    ----------
    entered : ndarray of int64
        The round in which the node entered the tree.
    ring : ndarray of int64
        The index of the node's ring buffer, see `rings`.
    """

    entered: np.ndarray = field(default_factory=whole_numbers)
    ring: np.ndarray = field(default_factory=whole_numbers)


class Remembering(Application):
    """An application with memory; new rows have NONE in all columns.

    `at_nodes` and `at_edges`, a table by (group, node, child), are empty.  The ring buffer of each
    node keeps `buffer` messages.
    """

    def __init__(
        self, nodes: int, at_nodes: AtNodes, at_edges: SortedTable, buffer: int = 1
    ) -> None:
        self.nodes, self.at_nodes, self.at_edges = nodes, at_nodes, at_edges
        self.rings = SharedRings(buffer, at_nodes)
        self._tables = {"nodes": at_nodes, "edges": at_edges}
        self._before: Mapping[str, Columns] = {}  # the tables as `restore` got them

    def rows(self, calls: Calls) -> np.ndarray:
        """Return the rows of calls in `at_nodes`; nodes that entered the tree anew get new rows."""
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
        """Return the rows in `at_edges` for children of calls."""
        key = key_of([self._pair(calls)[call], child], self.nodes)
        row = self.at_edges.find(key)
        if (row < 0).any():
            blank = dict.fromkeys(self.at_edges.columns(), NONE)
            self.at_edges.insert(distinct(key[row < 0]), **blank)
            row = self.at_edges.find(key)
        return row

    def children(self, calls: Calls) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return call and child of each row of the children tables, and its row in `at_edges`."""
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
