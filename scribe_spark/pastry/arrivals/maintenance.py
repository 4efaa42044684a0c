"""Routing table maintenance: each node asks a random entry of each row for that row.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT
from scribe_spark.pastry.arrivals.cell_offers import cells_in_rows, take_cells
from scribe_spark.pastry.arrivals.wave import WaveProgram
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.states import CELLS, live_only

#: The table of offers to nodes: ``at``, the offered ``entry``, and the ``cell`` where it belongs.
_OFFERS = "offers"

#: Kinds of messages.
_QUESTION, _ANSWER = "question", "answer"


@dataclass(frozen=True)
class AskRows(WaveProgram):
    """Live nodes ask for rows and store the answers, from before the maintenance, for `TakeRows`.

    Between the two programs, cells in which dead nodes were found can be repaired.  The draws have
    the key `purpose`, `number`.
    """

    purpose: str
    number: int

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            return self._ask(bucket, tables)
        if superstep == 1:
            return self._answer(bucket, tables, inbox)
        self._keep(bucket, tables, inbox)
        return {}

    def _ask(self, bucket: int, tables: Tables) -> Outbox:
        """Ask a random entry of each row; one row at a time, to save memory."""
        states = self.states(bucket, tables)
        first, last = np.searchsorted(self.wave.live, self.bounds[bucket : bucket + 2])
        live, sent = self.wave.live[first:last], []
        for row in range(states.cells.shape[1]):
            number = states.known.node[live]
            drawn = row_bits(self.given.seed, self.purpose, self.number, row, number)
            asked = questions(states.cells[live - states.first, row], drawn)
            node, asked = live[asked >= 0], asked[asked >= 0]
            arrives = self.given.is_alive(asked)
            lost = np.flatnonzero(~arrives)
            self.given.observer.meet(tables, node[lost], asked[lost])
            self.count(tables, Kind.MAINTENANCE, node, asked, len(lost))
            node, asked = node[arrives], asked[arrives]
            sent.append({AT: asked, "asker": node, "row": np.full(len(node), row)})
        return {_QUESTION: concatenate(sent)}

    def _answer(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Answer with the requested row."""
        states, came = self.states(bucket, tables), inbox[_QUESTION]
        asked, asker, row = came[AT], came["asker"], came["row"]
        self.count(tables, Kind.MAINTENANCE, asked, asker)
        entries = states.cells[asked - states.first, row]
        return {_ANSWER: {AT: asker, "row": row, "entries": entries}}

    def _keep(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Store the live entries that are new to the node, with their cells."""
        states, came = self.states(bucket, tables), inbox[_ANSWER]
        index, row, entries = came[AT] - states.first, came["row"], came["entries"]
        is_new = (entries != states.cells[index, row]) & (entries != came[AT][:, None])
        one, column = np.nonzero(is_new & (live_only(self.given.is_alive, entries) >= 0))
        node, entry = came[AT][one], entries[one, column].astype(np.int64)
        cell = cells_in_rows(states, node, row[one], column, entry)
        tables[_OFFERS] = {AT: node, "entry": entry, "cell": cell}


@dataclass(frozen=True)
class TakeRows(WaveProgram):
    """Offer the stored entries to the routing tables."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if _OFFERS in tables:
            states, offers = self.states(bucket, tables, CELLS), tables[_OFFERS]
            index = offers[AT] - states.first
            take_cells(states, self.given.kernel, index, offers["entry"], offers["cell"])
            del tables[_OFFERS]
        return {}


def row_bits(seed: int, purpose: str, number: int, row: int, nodes: np.ndarray) -> np.ndarray:
    """Return random bits for the questions of nodes (given by number) about one row: uint64.

    The bits of a node do not depend on the number of nodes or rows.
    """
    return draws.stream_at(seed, f"{purpose} row {row}", number, nodes)


def questions(entries: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the node that each node asks for its row, by random bits; -1 for an empty row."""
    filled = entries >= 0
    count = filled.sum(axis=1)
    wanted = (drawn % np.maximum(count, 1).astype(np.uint64)).astype(np.int64)
    # the column of entry number `wanted`: the first with more than `wanted` entries up to it
    chosen = (filled.cumsum(axis=1) > wanted[:, None]).argmax(axis=1)
    asked = entries[np.arange(len(entries)), chosen].astype(np.int64)
    return np.where(count > 0, asked, -1)
