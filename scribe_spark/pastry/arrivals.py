"""The arrival of a wave of nodes: join messages, announcements, leaf set exchange, introductions.

Arriving nodes search for a near contact, from any live node, and send it a join message, which is
routed to the new nodeId by current tables; all nodes on the route answer.  An arrived node sends
its leaf set and routing table to the nodes in them; nodes with a new leaf send their leaf sets,
until none changes.  Nodes of the same wave are not yet in the tables that answer join messages:
after all have announced themselves, the nodes on the route can name them.

JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)"; the nodes on
the route send rows of their routing tables, the last one, Z, its leaf set; "it transmits a copy of
its resulting state to each of the nodes found in its ... leaf set, and routing table".
Introductions are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct, distinct_indices, without
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, append, in_bucket, once_a_bucket
from scribe_spark.pastry.next_hop import count_hop, hop, route_to_edge, unrouted
from scribe_spark.pastry.offers import (
    NO_OFFER,
    cells_in_rows,
    cells_of,
    holds_leaf,
    lacks_leaves,
    scored,
    scores,
    take_cells,
    take_leaves,
    take_rows,
)
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, Kind, States, live_only, pairs_of
from scribe_spark.pastry.waves import WaveProgram, forget
from scribe_spark.underlay.protocol import Kernel

#: The table of the contacts that were found: the ``contact`` of the arriving node ``at``.
CONTACTS = "contacts"

#: The table of probes that were made: ``pair``, the sorted keys ``arriving node * K + probed
#: node``.
PROBED = "probed"

#: Kinds of messages.  A question asks for the leaf set or for a row, depending on the phase.
_SEARCH, _FOUND = "question", "answer"

#: The phases of a search: ask the first node for its leaf set; ask the nearest of these for the
#: last row of its table; ask the nearest node so far for the row before, and so on up to row 0; ask
#: for row 0 until no node in it is nearer.
_AROUND, _LAST_ROW, _UP, _ROW_0 = range(4)


@dataclass(frozen=True)
class Discover(WaveProgram):
    """Arriving nodes search for near contacts from the wave's; probes are counted, not sent."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            mine = self.mine(bucket)
            start = self.wave.contact[mine] if len(mine) else mine
            return _searches(self.wave.arriving[mine], start, _AROUND, mine * 0)
        outbox: dict[str, Columns] = {}
        if _SEARCH in inbox:
            outbox |= self._answer(bucket, tables, inbox[_SEARCH])
        if _FOUND in inbox:
            outbox |= self._move(tables, inbox[_FOUND])
        return outbox

    def _answer(self, bucket: int, tables: Tables, came: Columns) -> Outbox:
        """Answer questions with the leaf set or a row of the table; row -1 is of an empty table."""
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
        return {_FOUND: concatenate(some)}

    def _move(self, tables: Tables, came: Columns) -> Outbox:
        """Let arriving nodes probe the nodes that answers name, and ask the nearest one again."""
        arriving, phase, row = came[AT], came["phase"], came["row"]
        at = self._nearest(tables, arriving, came["asked"], came["entries"])
        ends = (phase == _ROW_0) & (at == came["asked"])
        found = {AT: arriving[ends], "contact": at[ends]}
        if np.any(ends):
            append(tables, CONTACTS, found)
        upward = np.isin(phase, (_LAST_ROW, _UP)) & (row > 0)
        after = np.where(phase == _AROUND, _LAST_ROW, np.where(upward, _UP, _ROW_0))
        above = np.where(upward, row - 1, 0)
        return _searches(arriving[~ends], at[~ends], after[~ends], above[~ends])

    def _nearest(
        self, tables: Tables, arriving: np.ndarray, at: np.ndarray, others: np.ndarray
    ) -> np.ndarray:
        """Return the live node (a position) that is nearest to the arriving node of each search."""
        known, is_alive = self.environment.facts.ring, self.environment.is_alive
        asked = np.concatenate([at[:, None], others], axis=1).astype(np.int64)
        here, column = np.nonzero(asked != NONE)
        self._probe(tables, distinct(arriving[here] * len(known) + asked[here, column]))
        here, column = np.nonzero((asked != NONE) & is_alive(asked))
        score = np.full(asked.shape, NO_OFFER)
        found = asked[here, column]
        score[here, column] = scores(known, self.environment.kernel, arriving[here], found)
        return scored(score.min(axis=1))

    def _probe(self, tables: Tables, pairs: np.ndarray) -> None:
        """Count probes of nodes that were not probed before."""
        before = tables[PROBED]["pair"] if PROBED in tables else pairs[:0]
        new = np.setdiff1d(pairs, before, assume_unique=True)
        tables[PROBED] = {"pair": np.sort(np.r_[before, new])}
        node, other = np.divmod(new, len(self.environment.facts.ring))
        arrives = self.environment.is_alive(other)
        self.environment.observer.send(tables, Kind.PROBE, arrives, node, other)


def _searches(
    arriving: np.ndarray, to: np.ndarray, phase: np.ndarray | int, row: np.ndarray
) -> Outbox:
    phases = np.broadcast_to(phase, len(to)).astype(np.int64)
    return {_SEARCH: {AT: to, "arriving": arriving, "phase": phases, "row": row}}


def _last_row(cells: np.ndarray) -> np.ndarray:
    """Return the last row with an entry in each routing table, -1 for an empty table."""
    row = np.arange(cells.shape[1])
    return np.where(cells.max(axis=2) >= 0, row, -1).max(axis=1)


# --- join messages


#: The table of answers to join messages: the arriving node ``at``, the answering ``node`` on its
#: route, and the ``first`` and the ``last`` row that the node supplied.
ROUTES = "routes"

#: Kinds of messages.  A join message has the visited nodes in ``path``, and in ``row`` the first
#: row that no visited node has supplied.
_JOIN, _ANSWER, _ROWS, _LEAF_SET = "join", "answer", "rows", "leaf set"

#: Tables with the data that arriving nodes received: entries of rows, and leaf sets.
_ENTRIES, _LEAF_SETS = "entries", "leaf sets of last nodes"

#: The table that stores each kind of answer until all have arrived.
_KEPT = {_ANSWER: ROUTES, _ROWS: _ENTRIES, _LEAF_SET: _LEAF_SETS}


@dataclass(frozen=True)
class JoinMessages(WaveProgram):
    """Nodes send a join message to their contact; nodes on its route to the new nodeId answer."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            return self._ask(bucket, tables)
        outbox: Outbox = {}
        if _JOIN in inbox:
            outbox = self._route(bucket, tables, inbox[_JOIN])
        for kind, name in _KEPT.items():
            if kind in inbox:
                append(tables, name, inbox[kind])
        return outbox

    def _ask(self, bucket: int, tables: Tables) -> Outbox:
        """Send the join messages of the wave's nodes to their contacts."""
        mine = self.mine(bucket)
        if not len(mine):
            return {}
        forget(self, bucket, tables)
        arriving = self.wave.arriving[mine]
        if CONTACTS in tables:
            found = tables[CONTACTS]
            contact = found["contact"][np.argsort(found[AT])]
            del tables[CONTACTS], tables[PROBED]
        else:
            contact = self.wave.contact[mine]
        self.count(tables, Kind.JOIN, arriving, contact)
        row = np.zeros_like(arriving)
        return {_JOIN: unrouted({AT: contact, "arriving": arriving, "row": row})}

    def _route(self, bucket: int, tables: Tables, came: Columns) -> Outbox:
        """Route join messages to the edge of the bucket; the last nodes send their leaf sets."""
        states, sent = self.states(bucket, tables), dict[str, list[Columns]]()

        def visit(messages: Columns) -> tuple[np.ndarray, Columns]:
            return self._visit(states, tables, messages, sent)

        ended, onward = route_to_edge(came, visit, partial(in_bucket, self.bounds, bucket))
        outbox: dict[str, Columns] = {kind: concatenate(parts) for kind, parts in sent.items()}
        if onward:
            outbox[_JOIN] = onward
        if ended:
            at, arriving = ended[AT], ended["arriving"]
            around = live_only(
                self.environment.is_alive, np.c_[states.leaves[at - states.first], at]
            )
            self.count(tables, Kind.LEAF_SET, at, arriving)
            outbox[_LEAF_SET] = {AT: arriving, "leaves": around}
        return outbox

    def _visit(
        self, states: States, tables: Tables, came: Columns, sent: dict[str, list[Columns]]
    ) -> tuple[np.ndarray, Columns]:
        """Answer join messages at the nodes that they visit; append the answers to `sent`."""
        ring, is_alive, observer = (
            states.known,
            self.environment.is_alive,
            self.environment.observer,
        )
        at, arriving = came[AT], came["arriving"]
        keys = Keys.of_nodes(ring, arriving)
        # 1. supply the rows that no earlier node on the route has supplied
        shared = ids.shared_digits_np(ring.hi[at], ring.lo[at], keys.hi, keys.lo, states.b)
        first = came["row"]
        supplies = first <= shared
        self.count(tables, Kind.ROWS, at[supplies], arriving[supplies])
        one, row, entries = entries_of_rows(states, at, first, shared)
        entries = live_only(is_alive, entries)
        place, column = np.nonzero(entries >= 0)
        to, entry = arriving[one[place]], entries[place, column].astype(np.int64)
        cell = cells_in_rows(states, to, row[place], column, entry)
        answer = {AT: arriving, "node": at, "first": first, "last": shared}
        sent.setdefault(_ANSWER, []).append(answer)
        sent.setdefault(_ROWS, []).append({AT: to, "entry": entry, "cell": cell})
        # 2. the next hop
        onward, met = hop(states, is_alive, at, keys)
        observer.meet(tables, at[met.message], met.dead)
        count_hop(partial(observer.count, tables, Kind.JOIN), at, onward, met)
        return onward, {**came, "row": np.maximum(first, shared + 1)}


def take_answers(program: WaveProgram, bucket: int, tables: Tables) -> States:
    """Fill the tables of arriving nodes from the answers received; return the bucket's states."""
    if _LEAF_SETS not in tables:  # no node arrives in this bucket
        return program.states(bucket, tables)
    states = program.states(bucket, tables, LEAVES, CELLS)
    sets, answers = tables[_LEAF_SETS], tables[ROUTES]
    take_leaves(states, sets[AT] - states.first, sets["leaves"])
    to, leaf = pairs_of(sets[AT], sets["leaves"])
    to, offered = np.r_[to, answers[AT]], np.r_[leaf, answers["node"]]
    cell = cells_of(states, to, offered)
    if _ENTRIES in tables:
        entries = tables[_ENTRIES]
        to, offered = np.r_[to, entries[AT]], np.r_[offered, entries["entry"]]
        cell = np.r_[cell, entries["cell"]]
        del tables[_ENTRIES]
    take_cells(states, program.environment.kernel, to - states.first, offered, cell)
    del tables[_LEAF_SETS]
    if not program.environment.rules.introduce:
        del tables[ROUTES]
    return states


def entries_of_rows(
    states: States, at: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows `first` to `last` of the tables of nodes: index in `at`, row, and entries."""
    place = np.arange(states.cells.shape[1])
    one, row = np.nonzero((place >= first[:, None]) & (place <= last[:, None]))
    return one, row, states.cells[at[one] - states.first, row]


# --- arrived nodes become known: leaf set exchange


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
