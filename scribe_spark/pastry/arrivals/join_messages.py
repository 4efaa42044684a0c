"""Arriving nodes search for a near contact, and send it a join message.

The search starts from any live node.  The join message is routed to the new nodeId by current
tables; all nodes on the route answer.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)"; the nodes on
the route send rows of their routing tables, the last one, Z, its leaf set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, append, in_bucket
from scribe_spark.pastry.arrivals.offers import (
    NO_OFFER,
    cells_in_rows,
    cells_of,
    scored,
    scores,
    take_cells,
    take_leaves,
)
from scribe_spark.pastry.arrivals.waves import WaveProgram, forget
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.route import count_hop, route_to_edge, unrouted
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, Kind, States, live_only, pairs_of

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
