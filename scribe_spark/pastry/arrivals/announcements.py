"""Arrived nodes become known: announcements, leaf set exchange, introductions.

An arrived node sends its leaf set and routing table to the nodes in them; nodes with a new leaf
send their leaf sets, until none changes.  Nodes of the same wave are not yet in the tables that
answer join messages: after all have announced themselves, the nodes on the route can name them.

References
----------
JSAC 2002, Section II.B: "it transmits a copy of its resulting state to each of the nodes found in
its ... leaf set, and routing table"; introductions are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct, distinct_indices, without
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, once_a_bucket
from scribe_spark.pastry.arrivals.join_messages import ROUTES, entries_of_rows, take_answers
from scribe_spark.pastry.arrivals.offers import (
    cells_of,
    holds_leaf,
    lacks_leaves,
    take_cells,
    take_leaves,
    take_rows,
)
from scribe_spark.pastry.arrivals.waves import WaveProgram
from scribe_spark.pastry.states import CELLS, LEAVES, Kind, States, live_only, pairs_of
from scribe_spark.underlay.protocol import Kernel

#: The table of nodes that begin the exchange, each once: arrived nodes and nodes with a new leaf.
#: The same name is used for the message by which a node reminds itself to send in the next round of
#: the exchange.
GAINED = "gained"

#: Kinds of messages.  A leaf set is sent once to each bucket that has leaves of it, for all of
#: them.
_LEAF_SET, _LEAF_SETS_BACK = "leaf set", "answer"


@dataclass(frozen=True)
class ExchangeLeafSets(WaveProgram):
    """Nodes with a new leaf exchange leaf sets, in rounds of two supersteps: send, then answer.

    A node that receives a leaf set from a node outside of its own answers; else more than l/2 nodes
    of a wave between two neighbours would not learn of each other.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if superstep % 2:
            return self._receive(bucket, tables, inbox)
        senders = [inbox[GAINED][AT]] if GAINED in inbox else []
        if not superstep and GAINED in tables:
            senders.append(tables[GAINED]["node"])
            del tables[GAINED]
        elif _LEAF_SETS_BACK in inbox:
            senders.append(self._take_answers(bucket, tables, inbox))
        return self._send(bucket, tables, distinct(np.concatenate(senders))) if senders else {}

    def _send(self, bucket: int, tables: Tables, senders: np.ndarray) -> Outbox:
        """Let nodes (`senders`, positions) send their leaf sets to their leaves."""
        states, is_alive = self.states(bucket, tables), self.environment.is_alive
        sets = states.distinct_leaves(senders - states.first)
        there = live_only(is_alive, sets)
        messages, arrive = int((sets >= 0).sum()), int((there >= 0).sum())
        self.environment.observer.count(
            tables, Kind.EXCHANGE, messages, messages - arrive,
            between=lambda: pairs_of(senders, sets),
        )  # fmt: skip
        one, at = once_a_bucket(self.bounds, there)
        return {_LEAF_SET: {AT: at, "sender": senders[one], "leaves": there[one]}}

    def _receive(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Merge received leaf sets into the receivers' own; answer senders that are no leaves."""
        states = self.states(bucket, tables, LEAVES)
        sets, senders = inbox[_LEAF_SET]["leaves"], inbox[_LEAF_SET]["sender"]
        first, last = states.first, states.first + len(states.own)
        at, column = np.nonzero((sets >= first) & (sets < last))
        receiver = sets[at, column].astype(np.int64) - first
        gained = self._take_sets(states, receiver, sets, senders, at)
        refused = ~holds_leaf(states, receiver, senders[at])
        asked, asker = receiver[refused], senders[at][refused]
        self.count(tables, Kind.EXCHANGE, asked + first, asker)
        answers = live_only(self.environment.is_alive, states.leaves[asked])
        return {GAINED: {AT: gained + first}, _LEAF_SETS_BACK: {AT: asker, "leaves": answers}}

    def _take_sets(
        self,
        states: States,
        receiver: np.ndarray,
        sets: np.ndarray,
        senders: np.ndarray,
        at: np.ndarray,
    ) -> np.ndarray:
        """Offer leaf sets and their senders to receivers; return the indices of changed nodes."""
        different = distinct_indices(len(states.own), receiver)
        # most leaf sets are complete already, and need not be compared
        lacking = np.zeros(len(states.own), dtype=bool)
        lacking[different] = lacks_leaves(states, different, self.everybody)
        some = np.flatnonzero(lacking[receiver])
        offered = np.c_[sets, senders.astype(np.int32)]
        return take_leaves(states, receiver[some], offered[at[some]], only_new=True)

    def _take_answers(self, bucket: int, tables: Tables, inbox: Inbox) -> np.ndarray:
        """Merge the leaf sets in answers; return the nodes whose leaf set has changed.

        These nodes also offer their routing table to their leaf set (P33).
        """
        states, answers = self.states(bucket, tables, LEAVES), inbox[_LEAF_SETS_BACK]
        taken = take_leaves(states, answers[AT] - states.first, answers["leaves"], only_new=True)
        entries = states.cells.reshape(len(states.cells), -1)[taken]
        known = live_only(self.environment.is_alive, entries)
        take_leaves(states, taken, known, only_new=True)
        return taken + states.first


# --- announcements


#: Kinds of messages.  A row of the arrived node's routing table is sent once to each bucket that
#: has nodes of the row, for all of them.
_ANNOUNCEMENT, _ROW = "announcement", "row"


@dataclass(frozen=True)
class Announce(WaveProgram):
    """Arrived nodes announce themselves; the table `GAINED` gets the nodes with a new leaf."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            return self._announce(bucket, tables)
        self._take(bucket, tables, inbox)
        return {}

    def _announce(self, bucket: int, tables: Tables) -> Outbox:
        """Announce each arrived node to the nodes in its leaf set and routing table."""
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
        """Return the digits of each arrived node's nodeId, one for each row: int64, (w, rows)."""
        nodes = states.known.take(arrived)
        rows = range(states.cells.shape[1])
        return np.stack([ids.digit_np(nodes.hi, nodes.lo, row, states.b) for row in rows], axis=1)

    def _rows(self, states: States, arrived: np.ndarray) -> Columns:
        """Return the rows with two or more entries in the routing tables of arrived nodes."""
        cells = states.cells[arrived - states.first]
        node, row = np.nonzero(np.count_nonzero(cells >= 0, axis=2) > 1)
        entries = cells[node, row]
        one, at = once_a_bucket(self.bounds, entries)
        return {AT: at, "row": row[one], "entries": entries[one]}

    def _take(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Offer announced nodes to the leaf sets and routing tables of the nodes that are told."""
        states = self.states(bucket, tables, LEAVES, CELLS)
        came = inbox[_ANNOUNCEMENT]
        index, arrived = came[AT] - states.first, came["arrived"]
        take_leaves(states, index, arrived)
        gained = came[AT][holds_leaf(states, index, arrived)]
        # leaf sets and routing tables are updated independently
        if (rows := inbox.get(_ROW)) is not None:
            take_rows(states, self.environment.kernel, rows["row"], rows["entries"])
        take_cells(states, self.environment.kernel, index, arrived, came["cell"])
        tables[GAINED] = {"node": distinct(np.r_[tables[GAINED]["node"], gained])}


# --- introductions


#: Kinds of messages; with ``learn`` a node of the wave reminds itself of the next step.
_QUESTION, _EARLIER, _LEARN = "question", "earlier", "learn"
_INTRODUCTION, _INTRODUCED_ROW = "introduction", "row"


@dataclass(frozen=True)
class Introduce(WaveProgram):
    """Nodes of the wave ask the nodes on their routes for earlier nodes of it, and greet them."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
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
        """Ask each node on a route for the current state of the rows that it sent before."""
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
        """Answer with nodes of this wave that arrived before the asking node."""
        states = self.states(bucket, tables)
        one, _, entries = entries_of_rows(states, came[AT], came["first"], came["last"])
        asker = came["arrived"][one]
        row, column = np.nonzero(_is_earlier(self.place, entries, asker))
        answering = distinct(one[row])
        self.count(tables, Kind.INTRODUCTION, came[AT][answering], came["arrived"][answering])
        return {_EARLIER: {AT: asker[row], "entry": entries[row, column].astype(np.int64)}}

    def _learn(self, bucket: int, tables: Tables, inbox: Inbox) -> Outbox:
        """Add named nodes to tables of arrived nodes (P29), which greet new entries and leaves."""
        states = self.states(bucket, tables, CELLS)
        arrived, nobody = inbox[_LEARN][AT] - states.first, np.empty(0, dtype=np.int64)
        named = inbox.get(_EARLIER, {AT: nobody, "entry": nobody})
        index, kernel = named[AT] - states.first, self.environment.kernel
        found = _take_named(states, kernel, arrived, self.place, index, named["entry"])
        sender = states.own[arrived][found["arrived"]]
        self.count(tables, Kind.INTRODUCTION, sender, found["to"])
        new = take(found, np.flatnonzero(found["row"] >= 0))
        entries = states.cells[arrived[new["arrived"]], new["row"]]
        return {
            _INTRODUCTION: {AT: found["to"], "arrived": sender},
            _INTRODUCED_ROW: {AT: new["to"], "row": new["row"], "entries": entries},
        }

    def _take(self, bucket: int, tables: Tables, inbox: Inbox) -> None:
        """Add the nodes that sent an introduction to tables, and the entries of their rows."""
        states, kernel = self.states(bucket, tables, CELLS), self.environment.kernel
        came = inbox[_INTRODUCTION]
        take_cells(states, kernel, came[AT] - states.first, came["arrived"])
        if _INTRODUCED_ROW not in inbox:
            return
        rows = inbox[_INTRODUCED_ROW]
        # sender and receiver share exactly the row's digits
        entries = rows["entries"]
        one, column = np.nonzero((entries >= 0) & (entries != rows[AT][:, None]))
        cell = rows["row"][one] * 2**states.b + column
        index = rows[AT][one] - states.first
        take_cells(states, kernel, index, entries[one, column].astype(np.int64), cell)


def _is_earlier(place: np.ndarray, entries: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return True for each entry (m, k) that arrived in this wave before the row's node."""
    return (entries >= 0) & (place[entries] < place[node][:, None])


def _take_named(
    states: States,
    kernel: Kernel,
    arrived: np.ndarray,
    place: np.ndarray,
    index: np.ndarray,
    position: np.ndarray,
) -> dict[str, np.ndarray]:
    """Offer the nodes `position`, and earlier nodes among the leaves, to arrived nodes."""
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
