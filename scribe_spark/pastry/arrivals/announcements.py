"""Announcements: an arrived node sends its leaf set and routing table to the nodes in them.

References
----------
JSAC 2002, Section II.B: "it transmits a copy of its resulting state to each of the nodes found in
its ... leaf set, and routing table".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.program import AT, once_a_bucket
from scribe_spark.pastry.arrivals.cell_offers import take_cells, take_rows
from scribe_spark.pastry.arrivals.exchange import GAINED
from scribe_spark.pastry.arrivals.join_messages import take_answers
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.wave import WaveProgram
from scribe_spark.pastry.states import CELLS, LEAVES, States

#: Kinds of messages.  A row of the arrived node's routing table is sent once to each bucket that
#: has nodes of the row, for all of them.
_ANNOUNCEMENT, _ROW = "announcement", "row"


@dataclass(frozen=True)
class Announce(WaveProgram):
    """Arrived nodes announce themselves; nodes with a new leaf are put into the table `GAINED`."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            return self._announce(bucket, tables)
        self._take(bucket, tables, inbox)
        return {}

    def _announce(self, bucket: int, tables: Tables) -> Outbox:
        """Announce each arrived node to the nodes in its leaf set and routing table.

        The message to a node in row r of the routing table includes row r.
        """
        states = take_answers(self, bucket, tables)
        arrived = self.wave.arriving[self.mine(bucket)]
        tables[GAINED] = {"node": arrived}
        index = arrived - states.first
        width = states.cells.shape[1] * states.cells.shape[2]
        everybody = np.c_[states.leaves[index], states.cells[index].reshape(-1, width)]
        row, column = np.nonzero(everybody >= 0)
        size = len(states.known)
        pairs = distinct(row * size + everybody[row, column])
        sender, to = arrived[pairs // size], pairs % size
        self.given.observer.count(tables, Kind.ANNOUNCEMENT, len(to), between=lambda: (sender, to))
        return {_ANNOUNCEMENT: {AT: to, "arrived": sender}, _ROW: self._rows(states, arrived)}

    def _rows(self, states: States, arrived: np.ndarray) -> Columns:
        """Return the nonempty rows of arrived nodes, with the owner in its own digit's column."""
        cells = states.cells[arrived - states.first]
        node, row = np.nonzero((cells >= 0).any(axis=2))
        entries, sender = cells[node, row], arrived[node]
        one, at = once_a_bucket(self.bounds, entries)
        nodes = states.known.take(sender)
        # the column of the node's own digit is empty; put the node there
        digit = ids.digit_at_np(nodes.hi, nodes.lo, row, states.b)
        entries[np.arange(len(entries)), digit] = sender
        return {AT: at, "sender": sender[one], "row": row[one], "entries": entries[one]}

    def _take(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Offer the announced nodes to the leaf sets and routing tables of the receivers."""
        states = self.states(bucket, tables, LEAVES, CELLS)
        came = inbox[_ANNOUNCEMENT]
        index, arrived = came[AT] - states.first, came["arrived"]
        take_leaves(states, index, arrived)
        gained = came[AT][holds_leaf(states, index, arrived)]
        # leaf sets and routing tables are updated independently
        self._fill_cells(states, index, arrived, inbox.get(_ROW))
        tables[GAINED] = {"node": distinct(np.r_[tables[GAINED]["node"], gained])}

    def _fill_cells(
        self, states: States, index: np.ndarray, arrived: np.ndarray, rows: Columns | None
    ) -> None:
        """Offer the announced nodes, and the entries of their rows, to routing tables."""
        if rows is not None:
            take_rows(states, self.given.kernel, rows["sender"], rows["row"], rows["entries"])
        take_cells(states, self.given.kernel, index, arrived)
