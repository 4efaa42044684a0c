"""Join messages: routed to the new nodeId by current tables; all nodes on the route answer.

References
----------
JSAC 2002, Section II.B: the nodes on the route send rows of their routing tables, the last one, Z,
its leaf set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import AT, append
from scribe_spark.engine.ring import Keys
from scribe_spark.pastry.arrivals.cell_offers import cells_in_rows, cells_of, take_cells
from scribe_spark.pastry.arrivals.leaf_offers import take_leaves
from scribe_spark.pastry.arrivals.nearby_search import CONTACTS, PROBED
from scribe_spark.pastry.arrivals.waves import WaveProgram, forget
from scribe_spark.pastry.kinds import Kind
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.route import count_hop, route_to_edge, unrouted
from scribe_spark.pastry.states import CELLS, LEAVES, States, live_only, pairs_of

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
    """Nodes send a join message to their contact, which routes it to the new nodeId.

    Leaf sets and routing tables do not change; :func:`take_answers` uses the answers later.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
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
        """Route join messages to the edge of the bucket; the last nodes send leaf sets."""
        states, sent = self.states(bucket, tables), dict[str, list[Columns]]()
        first, last = self.bounds[bucket : bucket + 2]

        def visit(messages: Columns) -> tuple[np.ndarray, Columns]:
            return self._visit(states, tables, messages, sent)

        ended, onward = route_to_edge(came, visit, lambda at: (at >= first) & (at < last))
        outbox: dict[str, Columns] = {kind: concatenate(parts) for kind, parts in sent.items()}
        if onward:
            outbox[_JOIN] = onward
        if ended:
            at, arriving = ended[AT], ended["arriving"]
            around = live_only(self.given.is_alive, np.c_[states.leaves[at - states.first], at])
            self.count(tables, Kind.LEAF_SET, at, arriving)
            outbox[_LEAF_SET] = {AT: arriving, "leaves": around}
        return outbox

    def _visit(
        self, states: States, tables: Tables, came: Columns, sent: dict[str, list[Columns]]
    ) -> tuple[np.ndarray, Columns]:
        """Answer join messages at the nodes that they visit; add the answers to `sent`."""
        ring, is_alive, observer = states.known, self.given.is_alive, self.given.observer
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
    """Let arriving nodes use the answers that they received; return the bucket's states."""
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
    take_cells(states, program.given.kernel, to - states.first, offered, cell)
    del tables[_LEAF_SETS]
    if not program.given.rules.introduce:
        del tables[ROUTES]
    return states


def entries_of_rows(
    states: States, at: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows `first` to `last` of nodes' tables: index in `at`, row, and entries."""
    place = np.arange(states.cells.shape[1])
    one, row = np.nonzero((place >= first[:, None]) & (place <= last[:, None]))
    return one, row, states.cells[at[one] - states.first, row]
