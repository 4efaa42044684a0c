"""Nearby-node search: an arriving node finds a near contact, starting from any live node.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, append
from scribe_spark.pastry.arrivals.cell_offers import NO_OFFER, scored, scores
from scribe_spark.pastry.arrivals.waves import WaveProgram
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.states import NONE

#: The table of the contacts that were found: the ``contact`` of the arriving node ``at``.
CONTACTS = "contacts"

#: The table of probes that were made: ``pair``, the sorted keys ``arriving node * K + probed
#: node``.
PROBED = "probed"

#: Kinds of messages.  A question asks for the leaf set or for a row, depending on the phase.
_QUESTION, _ANSWER = "question", "answer"

#: The phases of a search: ask the first node for its leaf set; ask the nearest of these for the
#: last row of its table; ask the nearest node so far for the row before, and so on up to row 0; ask
#: for row 0 until no node in it is nearer.
_AROUND, _LAST_ROW, _UP, _ROW_0 = range(4)


@dataclass(frozen=True)
class Discover(WaveProgram):
    """Arriving nodes search for near contacts, from the contacts that the wave gives them.

    A question takes two supersteps.  A probe only measures a delay, so it is counted but not sent
    as a message.  Each arriving node probes a node once.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            mine = self.mine(bucket)
            start = self.wave.contact[mine] if len(mine) else mine
            return _questions(self.wave.arriving[mine], start, _AROUND, mine * 0)
        outbox: dict[str, Columns] = {}
        if _QUESTION in inbox:
            outbox |= self._answer(bucket, tables, inbox[_QUESTION])
        if _ANSWER in inbox:
            outbox |= self._move(tables, inbox[_ANSWER])
        return outbox

    def _answer(self, bucket: int, tables: Tables, came: Columns) -> Outbox:
        """Answer with the leaf set or a row; row -1 stands for an empty table."""
        states = self.states(bucket, tables)
        index, phase = came[AT] - states.first, came["phase"]
        row = np.where(phase == _LAST_ROW, _last_row(states.cells[index]), came["row"])
        of_table = states.cells[index, np.maximum(row, 0)]
        of_table[row < 0] = NONE
        around = np.flatnonzero(phase == _AROUND)
        rest = np.flatnonzero(phase != _AROUND)
        parts = [states.leaves[index[around]], of_table[rest]]
        columns = {AT: came["arriving"], "asked": came[AT], "phase": phase, "row": row}
        some = [
            {**take(columns, which), "entries": entries}
            for which, entries in zip((around, rest), parts, strict=True)
            if len(which)
        ]
        return {_ANSWER: concatenate(some)}

    def _move(self, tables: Tables, came: Columns) -> Outbox:
        """Probe the named nodes, and ask the nearest one the next question."""
        arriving, phase, row = came[AT], came["phase"], came["row"]
        at = self._nearest(tables, arriving, came["asked"], came["entries"])
        ends = (phase == _ROW_0) & (at == came["asked"])
        found = {AT: arriving[ends], "contact": at[ends]}
        if np.any(ends):
            append(tables, CONTACTS, found)
        upward = np.isin(phase, (_LAST_ROW, _UP)) & (row > 0)
        after = np.where(phase == _AROUND, _LAST_ROW, np.where(upward, _UP, _ROW_0))
        above = np.where(upward, row - 1, 0)
        return _questions(arriving[~ends], at[~ends], after[~ends], above[~ends])

    def _nearest(
        self, tables: Tables, arriving: np.ndarray, at: np.ndarray, others: np.ndarray
    ) -> np.ndarray:
        """Return the nearest live node among each search's current node and the named ones."""
        known, is_alive = self.given.facts.ring, self.given.is_alive
        asked = np.concatenate([at[:, None], others], axis=1).astype(np.int64)
        here, column = np.nonzero(asked != NONE)
        self._probe(tables, distinct(arriving[here] * len(known) + asked[here, column]))
        here, column = np.nonzero((asked != NONE) & is_alive(asked))
        score = np.full(asked.shape, NO_OFFER)
        found = asked[here, column]
        score[here, column] = scores(known, self.given.kernel, arriving[here], found)
        return scored(score.min(axis=1))

    def _probe(self, tables: Tables, pairs: np.ndarray) -> None:
        """Count probes of nodes that were not probed before."""
        before = tables[PROBED]["pair"] if PROBED in tables else pairs[:0]
        new = np.setdiff1d(pairs, before, assume_unique=True)
        tables[PROBED] = {"pair": np.sort(np.r_[before, new])}
        node, other = np.divmod(new, len(self.given.facts.ring))
        arrives = self.given.is_alive(other)
        self.given.observer.send(tables, Kind.PROBE, arrives, node, other)


def _questions(
    arriving: np.ndarray, to: np.ndarray, phase: np.ndarray | int, row: np.ndarray
) -> Outbox:
    phases = np.broadcast_to(phase, len(to)).astype(np.int64)
    return {_QUESTION: {AT: to, "arriving": arriving, "phase": phases, "row": row}}


def _last_row(cells: np.ndarray) -> np.ndarray:
    """Return the deepest row of each table that has an entry, -1 for an empty table."""
    row = np.arange(cells.shape[1])
    return np.where(cells.max(axis=2) >= 0, row, -1).max(axis=1)
