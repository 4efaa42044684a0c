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

from collections.abc import Callable
from functools import partial

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct, distinct_indices, whole_numbers, without
from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, append, once_a_bucket
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
from scribe_spark.pastry.states import (
    CELLS,
    LEAVES,
    NONE,
    BucketNodes,
    Kind,
    States,
    live_only,
    pairs_of,
)
from scribe_spark.pastry.waves import WaveProgram, forget

#: The table of contacts that were found: the ``contact`` of the arriving node ``at``.
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


class Discover(WaveProgram):
    """Arriving nodes search for near contacts from the wave's; probes are counted, not sent."""

    def begin(self, nodes: BucketNodes) -> None:
        mine = nodes.own(self.wave.arriving)
        if len(mine):
            _search(nodes, self.wave.arriving[mine], self.wave.contact[mine], _AROUND, mine * 0)

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer questions with the leaf set or a row of the table; row -1 is of an empty table."""
        states = nodes.states()
        index, phase = came[AT] - states.first, came["phase"]
        row = np.where(phase == _LAST_ROW, _last_row(states.cells[index]), came["row"])
        of_table = states.cells[index, np.maximum(row, 0)]
        of_table[row < 0] = NONE
        columns = {AT: came["arriving"], "asked": came[AT], "phase": phase, "row": row}
        around = phase == _AROUND
        parts = (around, states.leaves[index[around]]), (~around, of_table[~around])
        for which, entries in parts:
            some = take(columns, which)
            nodes.tell(_FOUND, some.pop(AT), **some, entries=entries)

    def _move(self, nodes: BucketNodes, came: Columns) -> None:
        """Let arriving nodes probe the nodes that answers name, and ask the nearest one again."""
        arriving, phase, row = came[AT], came["phase"], came["row"]
        at = self._nearest(nodes, arriving, came["asked"], came["entries"])
        ends = (phase == _ROW_0) & (at == came["asked"])
        if ends.any():
            append(nodes.tables, CONTACTS, {AT: arriving[ends], "contact": at[ends]})
        upward = np.isin(phase, (_LAST_ROW, _UP)) & (row > 0)
        after = np.where(phase == _AROUND, _LAST_ROW, np.where(upward, _UP, _ROW_0))
        above = np.where(upward, row - 1, 0)
        _search(nodes, arriving[~ends], at[~ends], after[~ends], above[~ends])

    handlers = ((_SEARCH, _answer), (_FOUND, _move))

    def _nearest(
        self, nodes: BucketNodes, arriving: np.ndarray, at: np.ndarray, others: np.ndarray
    ) -> np.ndarray:
        """Return the live node (a position) that is nearest to the arriving node of each search."""
        asked = np.concatenate([at[:, None], others], axis=1).astype(np.int64)
        here, column = np.nonzero(asked != NONE)
        _probe(nodes, distinct(arriving[here] * len(nodes.ring) + asked[here, column]))
        here, column = np.nonzero((asked != NONE) & nodes.is_alive(asked))
        score = np.full(asked.shape, NO_OFFER)
        found = asked[here, column]
        score[here, column] = scores(nodes.ring, nodes.kernel, arriving[here], found)
        return scored(score.min(axis=1))


def _probe(nodes: BucketNodes, pairs: np.ndarray) -> None:
    """Count probes of nodes that were not probed before."""
    before = nodes.tables[PROBED]["pair"] if PROBED in nodes.tables else pairs[:0]
    new = np.setdiff1d(pairs, before, assume_unique=True)
    nodes.tables[PROBED] = {"pair": np.sort(np.r_[before, new])}
    nodes.send(Kind.PROBE, *np.divmod(new, len(nodes.ring)))


def _search(
    nodes: BucketNodes,
    arriving: np.ndarray,
    to: np.ndarray,
    phase: np.ndarray | int,
    row: np.ndarray,
) -> None:
    phases = np.broadcast_to(phase, len(to)).astype(np.int64)
    nodes.tell(_SEARCH, to, arriving=arriving, phase=phases, row=row)


def _last_row(cells: np.ndarray) -> np.ndarray:
    """Return the last row with an entry in each routing table, -1 for an empty table."""
    row = np.arange(cells.shape[1])
    return np.where(cells.max(axis=2) >= 0, row, -1).max(axis=1)


# --- join messages


#: Tables with what arriving nodes have received, until all have.  ROUTES: the arriving node ``at``,
#: the answering ``node`` on its route, the ``first`` and the ``last`` row that the node supplied;
#: then entries of rows, and leaf sets.
ROUTES, _ENTRIES, _LEAF_SETS = "routes", "entries", "leaf sets of last nodes"

#: Kinds of messages.  A join message has the visited nodes in ``path``, and in ``row`` the first
#: row that no visited node has supplied.
_JOIN, _ANSWER, _ROWS, _LEAF_SET = "join", "answer", "rows", "leaf set"


def _kept(table: str) -> Callable[[WaveProgram, BucketNodes, Columns], None]:
    """Return the handler that appends messages to a table."""
    return lambda program, nodes, came: append(nodes.tables, table, came)


class JoinMessages(WaveProgram):
    """Nodes send a join message to their contact; nodes on its route to the new nodeId answer."""

    def begin(self, nodes: BucketNodes) -> None:
        """Send the join messages of the wave's nodes to their contacts."""
        mine, tables = nodes.own(self.wave.arriving), nodes.tables
        if not len(mine):
            return
        arriving, contact = self.wave.arriving[mine], self.wave.contact[mine]
        forget(nodes, arriving)
        if CONTACTS in tables:
            found = tables.pop(CONTACTS)
            contact = found["contact"][np.argsort(found[AT])]
            del tables[PROBED]
        nodes.count(Kind.JOIN, arriving, contact)
        row = np.zeros_like(arriving)
        nodes.tell(_JOIN, contact, **unrouted({"arriving": arriving, "row": row}))

    def _route(self, nodes: BucketNodes, came: Columns) -> None:
        """Route join messages to the edge of the bucket; the last nodes send their leaf sets."""
        states = nodes.states()
        visit = partial(self._visit, nodes, states)
        ended, onward = route_to_edge(came, visit, nodes.is_own)
        if onward:
            nodes.tell(_JOIN, onward.pop(AT), **onward)
        if ended:
            at, arriving = ended[AT], ended["arriving"]
            around = np.c_[states.leaves[at - states.first], at]
            nodes.count(Kind.LEAF_SET, at, arriving)
            nodes.tell(_LEAF_SET, arriving, leaves=live_only(nodes.is_alive, around))

    handlers = (
        (_JOIN, _route),
        *((_ANSWER, _kept(ROUTES)), (_ROWS, _kept(_ENTRIES)), (_LEAF_SET, _kept(_LEAF_SETS))),
    )

    def _visit(
        self, nodes: BucketNodes, states: States, came: Columns
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Answer join messages at the nodes that they visit; return the next hops."""
        ring, at, arriving = states.known, came[AT], came["arriving"]
        keys = Keys.of_nodes(ring, arriving)
        # 1. supply the rows that no earlier node on the route has supplied
        shared = ids.shared_digits_np(ring.hi[at], ring.lo[at], keys.hi, keys.lo, states.b)
        first = came["row"]
        supplies = first <= shared
        nodes.count(Kind.ROWS, at[supplies], arriving[supplies])
        one, row, entries = entries_of_rows(states, at, first, shared)
        entries = live_only(nodes.is_alive, entries)
        place, column = np.nonzero(entries >= 0)
        to, entry = arriving[one[place]], entries[place, column].astype(np.int64)
        cell = cells_in_rows(states, to, row[place], column, entry)
        nodes.tell(_ANSWER, arriving, node=at, first=first, last=shared)
        nodes.tell(_ROWS, to, entry=entry, cell=cell)
        # 2. the next hop
        onward, met = hop(states, nodes.is_alive, at, keys)
        nodes.meet(at[met.message], met.dead)
        count = partial(self.environment.observer.count, nodes.tables, Kind.JOIN)
        count_hop(count, at, onward, met)
        return onward, {**came, "row": np.maximum(first, shared + 1)}


def take_answers(program: WaveProgram, nodes: BucketNodes) -> States:
    """Fill the tables of arriving nodes from the answers received; return the bucket's states."""
    tables = nodes.tables
    if _LEAF_SETS not in tables:  # no node arrives in this bucket
        return nodes.states()
    states, sets, answers = nodes.states(LEAVES, CELLS), tables.pop(_LEAF_SETS), tables[ROUTES]
    take_leaves(states, sets[AT] - states.first, sets["leaves"])
    to, leaf = pairs_of(sets[AT], sets["leaves"])
    to, offered = np.r_[to, answers[AT]], np.r_[leaf, answers["node"]]
    cell = cells_of(states, to, offered)
    if _ENTRIES in tables:
        entries = tables.pop(_ENTRIES)
        to, offered = np.r_[to, entries[AT]], np.r_[offered, entries["entry"]]
        cell = np.r_[cell, entries["cell"]]
    take_cells(states, nodes.kernel, to - states.first, offered, cell)
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


# --- leaf set exchange


#: The table of nodes that begin the exchange, each once: arrived nodes and nodes with a new leaf.
#: The same name is used for the message by which a node reminds itself to send in the next round of
#: the exchange.
GAINED = "gained"

#: Answers of leaf sets.  A leaf set is sent once to each bucket that has leaves of it.
_LEAF_SETS_BACK = "answer"


class ExchangeLeafSets(WaveProgram):
    """Nodes with a new leaf exchange leaf sets, in rounds of two supersteps: send, then answer.

    A node that receives a leaf set from a node outside of its own answers; else more than l/2 nodes
    of a wave between two neighbours would not learn of each other.
    """

    def begin(self, nodes: BucketNodes) -> None:
        if GAINED in nodes.tables:
            self._send(nodes, distinct(nodes.tables.pop(GAINED)["node"]))

    def _go_on(self, nodes: BucketNodes, came: Columns) -> None:
        """Let nodes with a new leaf send: those that reminded themselves, and by new answers."""
        taken = [came[AT]]
        if _LEAF_SETS_BACK in nodes.came:
            taken.append(self._take_answers(nodes, nodes.came[_LEAF_SETS_BACK]))
        self._send(nodes, distinct(np.concatenate(taken)))

    def _send(self, nodes: BucketNodes, senders: np.ndarray) -> None:
        """Let nodes (`senders`, positions) send their leaf sets to their leaves."""
        sets = nodes.states().distinct_leaves(senders - nodes.first)
        there = live_only(nodes.is_alive, sets)
        nodes.count_sets(Kind.EXCHANGE, senders, sets, int(((sets >= 0) & (there < 0)).sum()))
        one, at = once_a_bucket(self.bounds, there)
        nodes.tell(_LEAF_SET, at, sender=senders[one], leaves=there[one])

    def _receive(self, nodes: BucketNodes, came: Columns) -> None:
        """Merge received leaf sets into the receivers' own; answer senders that are no leaves."""
        states, sets, senders = nodes.states(LEAVES), came["leaves"], came["sender"]
        at, column = np.nonzero(nodes.is_own(sets))
        receiver = sets[at, column].astype(np.int64) - nodes.first
        # most leaf sets are complete already, and need not be compared
        different = distinct_indices(len(states.own), receiver)
        lacking = np.zeros(len(states.own), dtype=bool)
        lacking[different] = lacks_leaves(states, different, self.everybody)
        some = np.flatnonzero(lacking[receiver])
        offered = np.c_[sets, senders.astype(np.int32)][at[some]]
        gained = take_leaves(states, receiver[some], offered, only_new=True)
        refused = ~holds_leaf(states, receiver, senders[at])
        asked, asker = receiver[refused], senders[at][refused]
        nodes.count(Kind.EXCHANGE, asked + nodes.first, asker)
        answers = live_only(nodes.is_alive, states.leaves[asked])
        nodes.tell(GAINED, gained + nodes.first)
        nodes.tell(_LEAF_SETS_BACK, asker, leaves=answers)

    def _take_answers(self, nodes: BucketNodes, came: Columns) -> np.ndarray:
        """Merge the leaf sets in answers; return the nodes whose leaf set has changed.

        These nodes also offer their routing table to their leaf set (P33).
        """
        states = nodes.states(LEAVES)
        taken = take_leaves(states, came[AT] - nodes.first, came["leaves"], only_new=True)
        entries = states.cells.reshape(len(states.cells), -1)[taken]
        take_leaves(states, taken, live_only(nodes.is_alive, entries), only_new=True)
        return taken + nodes.first

    def _back(self, nodes: BucketNodes, came: Columns) -> None:
        if GAINED not in nodes.came:
            self._send(nodes, self._take_answers(nodes, came))

    handlers = ((GAINED, _go_on), (_LEAF_SETS_BACK, _back), (_LEAF_SET, _receive))


# --- announcements


#: Kinds of messages.  A row of the arrived node's routing table is sent once to each bucket that
#: has nodes of the row, for all of them.
_ANNOUNCEMENT, _ROW = "announcement", "row"


class Announce(WaveProgram):
    """Arrived nodes announce themselves; the table `GAINED` gets the nodes with a new leaf."""

    def begin(self, nodes: BucketNodes) -> None:
        """Announce each arrived node to the nodes in its leaf set and routing table."""
        states = take_answers(self, nodes)
        arrived = self.arriving(nodes)
        nodes.tables[GAINED] = {"node": arrived}
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
        own, sender = nodes.ring.take(arrived), arrived[one]
        digits = [ids.digit_np(own.hi, own.lo, depth, states.b) for depth in range(rows)]
        cell = row * base + np.stack(digits, axis=1)[one, row]
        nodes.count(Kind.ANNOUNCEMENT, sender, to)
        nodes.tell(_ANNOUNCEMENT, to, arrived=sender, cell=cell)
        # 3. rows with two or more entries
        tables = states.cells[index]
        node, row = np.nonzero(np.count_nonzero(tables >= 0, axis=2) > 1)
        entries = tables[node, row]
        one, at = once_a_bucket(self.bounds, entries)
        nodes.tell(_ROW, at, row=row[one], entries=entries[one])

    def _take(self, nodes: BucketNodes, came: Columns) -> None:
        """Offer announced nodes to the leaf sets and routing tables of the nodes that are told."""
        states = nodes.states(LEAVES, CELLS)
        index, arrived = came[AT] - states.first, came["arrived"]
        take_leaves(states, index, arrived)
        gained = came[AT][holds_leaf(states, index, arrived)]
        # leaf sets and routing tables are updated independently
        if (rows := nodes.came.get(_ROW)) is not None:
            take_rows(states, nodes.kernel, rows["row"], rows["entries"])
        take_cells(states, nodes.kernel, index, arrived, came["cell"])
        before = nodes.tables[GAINED]["node"]
        nodes.tables[GAINED] = {"node": distinct(np.r_[before, gained])}

    handlers = ((_ANNOUNCEMENT, _take),)


# --- introductions


#: Kinds of messages; with ``learn`` a node of the wave reminds itself of the next step.
_QUESTION, _EARLIER, _LEARN = "question", "earlier", "learn"
_INTRODUCTION, _INTRODUCED_ROW = "introduction", "row"


class Introduce(WaveProgram):
    """Nodes of the wave ask the nodes on their routes for earlier nodes of it, and greet them."""

    def begin(self, nodes: BucketNodes) -> None:
        """Ask each node on a route for the current state of the rows that it sent before."""
        arrived = self.arriving(nodes)
        if not len(arrived):
            return
        routes = nodes.tables.pop(ROUTES)
        if len(self.wave.arriving) < 2:  # the wave has a single node
            return
        asks = take(routes, np.flatnonzero(routes["first"] <= routes["last"]))
        rows = {name: asks[name] for name in ("first", "last")}
        nodes.tell(_QUESTION, asks["node"], arrived=asks[AT], **rows)
        nodes.tell(_LEARN, arrived)

    def _answer(self, nodes: BucketNodes, came: Columns) -> None:
        """Answer with nodes of this wave that arrived before the asking node."""
        states = nodes.states()
        one, _, entries = entries_of_rows(states, came[AT], came["first"], came["last"])
        asker = came["arrived"][one]
        row, column = np.nonzero(_is_earlier(self.place, entries, asker))
        answering = distinct(one[row])
        nodes.count(Kind.INTRODUCTION, came[AT][answering], came["arrived"][answering])
        nodes.tell(_EARLIER, asker[row], entry=entries[row, column].astype(np.int64))

    def _learn(self, nodes: BucketNodes, came: Columns) -> None:
        """Add named nodes to tables of arrived nodes (P29), which greet new entries and leaves."""
        if nodes.superstep == 1:  # answers arrive in the next superstep
            nodes.tell(_LEARN, came[AT])
            return
        states, size = nodes.states(CELLS), len(nodes.ring)
        arrived, none = came[AT] - states.first, whole_numbers()
        named = nodes.came.get(_EARLIER, {AT: none, "entry": none})
        # 1. offer the named nodes, and earlier nodes among the leaves
        leaves = states.distinct_leaves(arrived)
        holder, column = np.nonzero(_is_earlier(self.place, leaves, states.own[arrived]))
        leaf = leaves[holder, column].astype(np.int64)
        before, index = states.cells[arrived], named[AT] - states.first
        offered = np.r_[index, arrived[holder]], np.r_[named["entry"], leaf]
        take_cells(states, nodes.kernel, *offered)
        # 2. greet the new entries, which get the row, and the other leaves
        taker, row, column = np.nonzero(states.cells[arrived] != before)
        new = states.cells[arrived[taker], row, column].astype(np.int64)
        others, rest = np.divmod(without(holder * size + leaf, taker * size + new), size)
        to, sender = np.r_[new, rest], states.own[arrived[np.r_[taker, others]]]
        nodes.count(Kind.INTRODUCTION, sender, to)
        nodes.tell(_INTRODUCTION, to, arrived=sender)
        nodes.tell(_INTRODUCED_ROW, new, row=row, entries=states.cells[arrived[taker], row])

    def _take(self, nodes: BucketNodes, came: Columns) -> None:
        """Add the nodes that sent an introduction to tables."""
        take_cells(nodes.states(CELLS), nodes.kernel, came[AT] - nodes.first, came["arrived"])

    def _take_rows(self, nodes: BucketNodes, came: Columns) -> None:
        """Add the entries in rows; sender and receiver share exactly the row's digits."""
        states, entries = nodes.states(CELLS), came["entries"]
        one, column = np.nonzero((entries >= 0) & (entries != came[AT][:, None]))
        cell = came["row"][one] * 2**states.b + column
        entry = entries[one, column].astype(np.int64)
        take_cells(states, nodes.kernel, came[AT][one] - states.first, entry, cell)

    handlers = (
        *((_QUESTION, _answer), (_LEARN, _learn)),
        *((_INTRODUCTION, _take), (_INTRODUCED_ROW, _take_rows)),
    )


def _is_earlier(place: np.ndarray, entries: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return True for each entry (m, k) that arrived in this wave before the row's node."""
    return (entries >= 0) & (place[entries] < place[node][:, None])
