"""Introductions: the nodes of a wave learn of nodes that arrived earlier in the same wave.

If nodes arrived one after the other, a node would find earlier nodes in the tables that answer its
join message.  Nodes of the same wave are not in these tables yet.  After all nodes of the wave have
announced themselves, the same nodes on the route can name them.

References
----------
JSAC 2002, Section II.B, whose nodes arrive one after the other; introductions are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import distinct, without
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.join_messages import ROUTES, entries_of_rows
from scribe_spark.pastry.arrivals.waves import WaveProgram
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.states import CELLS, States
from scribe_spark.underlay.protocol import Kernel

#: Kinds of messages; with ``learn`` a node of the wave reminds itself of the next step.
_QUESTION, _EARLIER, _LEARN = "question", "earlier", "learn"
_INTRODUCTION, _ROW = "introduction", "row"


@dataclass(frozen=True)
class Introduce(WaveProgram):
    """Nodes of the wave ask the nodes on their routes for earlier ones, and greet these.

    All steps see the overlay after the announcements and the exchange.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            return self._ask(bucket, tables)
        if superstep == 2:
            return self._learn(bucket, tables, inbox)
        if superstep == 3:
            self._take(bucket, tables, inbox)
            return {}
        outbox: dict[str, Columns] = {}
        if _QUESTION in inbox:
            outbox = self._answer(bucket, tables, inbox[_QUESTION])
        if _LEARN in inbox:
            outbox[_LEARN] = inbox[_LEARN]
        return outbox

    def _ask(self, bucket: int, tables: Tables) -> Outbox:
        """Ask each node on the route for the current rows that it supplied before."""
        arrived = self.wave.arriving[self.mine(bucket)]
        if not len(arrived):
            return {}
        routes = tables[ROUTES]
        del tables[ROUTES]
        if len(self.wave.arriving) < 2:  # the wave has a single node
            return {}
        asks = take(routes, np.flatnonzero(routes["first"] <= routes["last"]))
        question = {
            AT: asks["node"], "arrived": asks[AT], "first": asks["first"], "last": asks["last"]
        }  # fmt: skip
        return {_QUESTION: question, _LEARN: {AT: arrived}}

    def _answer(self, bucket: int, tables: Tables, came: Columns) -> dict[str, Columns]:
        """Name the nodes of the wave that arrived before the asking node."""
        states = self.states(bucket, tables)
        one, _, entries = entries_of_rows(states, came[AT], came["first"], came["last"])
        asker = came["arrived"][one]
        row, column = np.nonzero(_is_earlier(self.place, entries, asker))
        answering = distinct(one[row])
        self.count(tables, Kind.INTRODUCTION, came[AT][answering], came["arrived"][answering])
        return {_EARLIER: {AT: asker[row], "entry": entries[row, column].astype(np.int64)}}

    def _learn(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Add the named nodes to the routing table; send the new ones the node and its row."""
        states = self.states(bucket, tables, CELLS)
        arrived, nobody = inbox[_LEARN][AT] - states.first, np.empty(0, dtype=np.int64)
        named = inbox.get(_EARLIER, {AT: nobody, "entry": nobody})
        index, kernel = named[AT] - states.first, self.given.kernel
        found = _learn(states, kernel, arrived, self.place, index, named["entry"])
        sender = states.own[arrived][found["arrived"]]
        self.count(tables, Kind.INTRODUCTION, sender, found["to"])
        new = take(found, np.flatnonzero(found["row"] >= 0))
        entries = states.cells[arrived[new["arrived"]], new["row"]]
        return {
            _INTRODUCTION: {AT: found["to"], "arrived": sender},
            _ROW: {AT: new["to"], "row": new["row"], "entries": entries},
        }

    def _take(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Add the nodes that sent an introduction, and the entries of their rows."""
        states, kernel = self.states(bucket, tables, CELLS), self.given.kernel
        came = inbox[_INTRODUCTION]
        take_cells(states, kernel, came[AT] - states.first, came["arrived"])
        if _ROW not in inbox:
            return
        rows = inbox[_ROW]
        # sender and receiver share exactly the row's digits
        entries = rows["entries"]
        one, column = np.nonzero((entries >= 0) & (entries != rows[AT][:, None]))
        cell = rows["row"][one] * 2**states.b + column
        index = rows[AT][one] - states.first
        take_cells(states, kernel, index, entries[one, column].astype(np.int64), cell)


def _is_earlier(place: np.ndarray, entries: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return True for entries (m, k) that are nodes of the wave and arrived before each row's node.

    The argument `place` is `WaveProgram.place`.
    """
    return (entries >= 0) & (place[entries] < place[node][:, None])


def _learn(
    states: States,
    kernel: Kernel,
    arrived: np.ndarray,
    place: np.ndarray,
    index: np.ndarray,
    position: np.ndarray,
) -> dict[str, np.ndarray]:
    """Offer the nodes `position`, and earlier nodes among the leaves, to arrived nodes (indices).

    Return each pair once: ``arrived``, the index of the arrived node; ``to``, the earlier node;
    ``row``, the row of the arrived node's table in which the earlier node is new, or -1 for a leaf
    that is not new in the table.
    """
    leaves = states.distinct_leaves(arrived)
    holder, column = np.nonzero(_is_earlier(place, leaves, states.own[arrived]))
    leaf = leaves[holder, column].astype(np.int64)
    before = states.cells[arrived]
    take_cells(states, kernel, np.r_[index, arrived[holder]], np.r_[position, leaf])
    after = states.cells[arrived]
    taker, row, column = np.nonzero(after != before)
    new = after[taker, row, column].astype(np.int64)
    size = len(states.known)
    others = without(holder * size + leaf, taker * size + new)
    return {
        "arrived": np.r_[taker, others // size],
        "to": np.r_[new, others % size],
        "row": np.r_[row, np.full(len(others), -1)],
    }
