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
from scribe_spark.pastry.arrivals.cell_offers import cells_of, take_cells, take_rows
from scribe_spark.pastry.arrivals.exchange import GAINED
from scribe_spark.pastry.arrivals.join_messages import take_answers
from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.waves import WaveProgram
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.states import CELLS, LEAVES, States, pairs_of

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
        index, (_, rows, base) = arrived - states.first, states.cells.shape
        # 1. the entries, and the leaves that are no entries; two nodes share the digits of a row
        cells = states.cells[index].reshape(-1, rows * base)
        holder, cell = np.nonzero(cells >= 0)
        one, leaf = pairs_of(np.arange(len(index)), states.distinct_leaves(index))
        cell_of_leaf = cells_of(states, arrived[one], leaf)
        other = np.flatnonzero(cells[one, cell_of_leaf] != leaf)
        to = np.r_[cells[holder, cell].astype(np.int64), leaf[other]]
        one, row = np.r_[holder, one[other]], np.r_[cell, cell_of_leaf[other]] // base
        # 2. the cell where the arrived node belongs in the receiver's table
        digits = self._digits(states, arrived)
        sender = arrived[one]
        self.count(tables, Kind.ANNOUNCEMENT, sender, to)
        announcement = {AT: to, "arrived": sender, "cell": row * base + digits[one, row]}
        return {_ANNOUNCEMENT: announcement, _ROW: self._rows(states, arrived)}

    def _digits(self, states: States, arrived: np.ndarray) -> np.ndarray:
        """Return each arrived node's own digit in each row: int64, shape (w, rows)."""
        nodes = states.known.take(arrived)
        rows = range(states.cells.shape[1])
        return np.stack([ids.digit_np(nodes.hi, nodes.lo, row, states.b) for row in rows], axis=1)

    def _rows(self, states: States, arrived: np.ndarray) -> Columns:
        """Return the rows of arrived nodes that have two entries or more."""
        cells = states.cells[arrived - states.first]
        node, row = np.nonzero(np.count_nonzero(cells >= 0, axis=2) > 1)
        entries = cells[node, row]
        one, at = once_a_bucket(self.bounds, entries)
        return {AT: at, "row": row[one], "entries": entries[one]}

    def _take(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Offer the announced nodes to the leaf sets and routing tables of the receivers."""
        states = self.states(bucket, tables, LEAVES, CELLS)
        came = inbox[_ANNOUNCEMENT]
        index, arrived = came[AT] - states.first, came["arrived"]
        take_leaves(states, index, arrived)
        gained = came[AT][holds_leaf(states, index, arrived)]
        # leaf sets and routing tables are updated independently
        if (rows := inbox.get(_ROW)) is not None:
            take_rows(states, self.given.kernel, rows["row"], rows["entries"])
        take_cells(states, self.given.kernel, index, arrived, came["cell"])
        tables[GAINED] = {"node": distinct(np.r_[tables[GAINED]["node"], gained])}
