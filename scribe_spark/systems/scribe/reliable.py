"""Reliable, ordered delivery, written as an application on Scribe's three upcalls (III.B.2).

The root numbers messages; the numbers of an epoch begin above ``epoch << 32``.  Each node keeps the
messages with the last B numbers that it knows.  A repair JOIN carries the last number delivered to
its sender, and the new parent answers with the missing messages, in a retransmission.  So does the
parent of a node that lost a copy, and asks for it after a heartbeat.  A
retransmission contains all messages after its number ``start``.  It also says that messages up to
its ``floor`` are lost, and that all messages published since round ``since`` come after `start`.

JOINs carry *places* in the sequence of messages.  A place is a number, or the beginning of a round,
``round << 32``, which precedes all numbers of an epoch that began in that round.  A node without
any number uses the round of its join.

Memory: a node keeps data since it entered the tree, and data about each child.  The memory is
deleted when the node dies or enters the tree again, and a child's data when the child dies.  One
part of a node's memory is a ring buffer with the last messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    SortedTable,
    distinct,
    expand,
    find_sorted,
    index_in_run,
    last_of_runs,
    turns,
    whole_numbers,
)
from scribe_spark.core.keys import key_of
from scribe_spark.engine.packing import Columns, Lent, overlay, take
from scribe_spark.systems.scribe.upcalls import ASK, NOTHING, Application, Calls, Emitted

# --- memory of applications at tree nodes


_NODE = ("group", "node")


@dataclass
class AtNodes(SortedTable):
    """The memory of tree nodes, by (group, node); applications add columns.

    Attributes
    ----------
    entered : ndarray of int64
        The round in which the node entered the tree.
    ring : ndarray of int64
        The index of the node's ring buffer, see `rings`.
    """

    entered: np.ndarray = field(default_factory=whole_numbers)
    ring: np.ndarray = field(default_factory=whole_numbers)


class Remembering(Application):
    """An application with memory; new rows of its tables have NONE in all columns.

    `at_nodes`, a table by (group, node), and `at_edges`, one by (group, node, child), are empty at
    first. The ring buffer of each node keeps `buffer` messages.
    """

    def __init__(
        self, nodes: int, at_nodes: AtNodes, at_edges: SortedTable, buffer: int = 1
    ) -> None:
        self.nodes, self.at_nodes, self.at_edges = nodes, at_nodes, at_edges
        self.rings = SharedRings(buffer, at_nodes)
        self._tables = {"nodes": at_nodes, "edges": at_edges}
        self._before: Mapping[str, Columns] = {}  # the tables as `restore` got them

    def rows(self, calls: Calls) -> np.ndarray:
        """Return the rows in `at_nodes` of the nodes of an upcall.

        Nodes that entered the tree anew get new rows.
        """
        pair, entered = self._pair(calls), calls.here["entered"]
        row = self.at_nodes.find(pair)
        stale = row >= 0
        stale[stale] = self.at_nodes.entered[row[stale]] != entered[stale]
        if stale.any():
            self._forget(np.isin(self.at_nodes.key, pair[stale]))
        new = stale | (row < 0)
        if new.any():
            blank = dict.fromkeys(self.at_nodes.columns(), NONE)
            self.at_nodes.insert(pair[new], **blank | {"entered": entered[new]})
            row = self.at_nodes.find(pair)
        return row

    def edges(self, calls: Calls, call: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Return the rows in `at_edges` of children of nodes, which get new rows if needed.

        `call` is the row of the node in `calls.here`, `child` the child's position.
        """
        key = key_of([self._pair(calls)[call], child], self.nodes)
        row = self.at_edges.find(key)
        if (row < 0).any():
            blank = dict.fromkeys(self.at_edges.columns(), NONE)
            self.at_edges.insert(distinct(key[row < 0]), **blank)
            row = self.at_edges.find(key)
        return row

    def children(self, calls: Calls) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a row for each child of the nodes of an upcall.

        The arrays are the row of the node in `calls.here`, the child, and its row in `at_edges`.
        """
        call, child = (calls.children[name] for name in ("call", "child"))
        return call, child, self.edges(calls, call, child)

    def _pair(self, calls: Calls) -> np.ndarray:
        return key_of([calls.here[name] for name in _NODE], self.nodes)

    def _forget(self, which: np.ndarray) -> None:
        gone = self.at_nodes.key[which]
        self.at_nodes.keep(~which)
        self.at_edges.keep(find_sorted(gone, self.at_edges.key // self.nodes) < 0)

    def nodes_died(self, nodes: np.ndarray) -> None:
        """Delete the memory of dead nodes, and other nodes' memory of them as children."""
        dead = np.zeros(self.nodes, dtype=bool)
        dead[nodes] = True
        self._forget(dead[self.at_nodes.key % self.nodes])
        self.at_edges.keep(~dead[self.at_edges.key % self.nodes])

    def tables(self) -> dict[str, Columns]:
        tables = {}
        for name, table in self._tables.items():
            columns = table.read()
            tables[name] = overlay(self._before[name], columns) if name in self._before else columns
        return {**tables, "rings": {"top": self.rings.tops, "names": self.rings.names}}

    def restore(self, tables: Mapping[str, Columns]) -> None:
        self._before = tables
        for name, table in self._tables.items():
            table.borrow(Lent(tables[name], writes=True))
        self.rings.tops, self.rings.names = Lent(tables["rings"], writes=True).values()


# --- ring buffers for the rows of a table: each holds the names of the last B numbers
#
# A ring whose largest number is `top` has names of numbers in (top - B, top].  The name of a
# number is in slot ``number % B``; the slot contains NONE if the ring lacks the number.
#
# Most rows have the same names for the same numbers, so equal rings are stored once.  The table's
# column ``ring`` has the index of each row's ring.  Before a write, the ring is copied, once for
# all rows that write the same values.  Rings that became equal are merged when there are many.

#: Equal rings are merged when there is more than one ring per 32 rows.
_ROWS_A_RING = 32


class HasRings(Protocol):
    """A table with the index of the ring of each row; NONE is the empty ring."""

    ring: np.ndarray


class SharedRings:
    """The ring buffers of a table, with B = `size` slots each; `rows` are row indices of the table.

    The column ``ring`` of the table has the index of the ring of each row, NONE for an empty one.
    `tops` has the largest number in each ring.  The last ring, which NONE selects, stays empty.
    """

    def __init__(self, size: int, table: HasRings) -> None:
        self.size, self.table = size, table
        self.tops, self.names = self._empty(1)
        self._free = whole_numbers()  # some of the unused rings

    def _empty(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        return np.full(n, NONE), np.full((n, self.size), NONE)

    def top(self, rows: np.ndarray) -> np.ndarray:
        """Return the largest number in the ring of each row."""
        return self.tops[self.table.ring[rows]]

    def read(self, rows: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Return the name stored with one number in the ring of each row; NONE if there is none."""
        ring = self.table.ring[rows]
        top = self.tops[ring]
        inside = (number > top - self.size) & (number <= top)
        return np.where(inside, self.names[ring, number % self.size], NONE)

    def between(
        self, rows: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what rings store from `first` to `last`: indices of `rows`, numbers, names."""
        which, number = expand(first, last + 1)
        return which, number, self.read(rows[which], number)

    def leading_to(
        self, rows: np.ndarray, number: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the stored messages with consecutive numbers that end at `number`.

        The result has the form of that of :meth:`between`.
        """
        return self.between(rows, number + 1 - self.run(rows, number, -1), number)

    def run(
        self,
        rows: np.ndarray,
        number: np.ndarray,
        step: int,
        where: np.ndarray | Literal[True] = True,
    ) -> np.ndarray:
        """Count the consecutive numbers in each row's ring, from `number` up or down.

        `step` is 1 (up) or -1 (down). The count of rows outside of `where` is 0.
        """
        count = np.zeros(len(rows), dtype=np.int64)
        some = np.flatnonzero(np.broadcast_to(where, len(rows)))
        while len(some):
            some = some[self.read(rows[some], number[some] + step * count[some]) != NONE]
            count[some] += 1
        return count

    def write(self, rows: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Write messages into the rings of rows: numbers, and the names stored with them.

        Rows may repeat. A number that is too old for the ring is ignored; a second name for a
        number replaces the first.
        """
        before = len(self.tops)
        for part in turns(rows):
            self._write_one(rows[part], number[part], name[part])
        if len(self.tops) > max(before, len(self.table.ring) // _ROWS_A_RING):
            self._merge()

    def _write_one(self, rows: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Write names as :meth:`write` does, into rings of different rows."""
        new = (number > self.top(rows) - self.size) & (self.read(rows, number) != name)
        if not new.any():
            return
        what = np.stack([self.table.ring[rows], number, name], axis=1)[new]
        # 1. find the distinct writes; neighbouring rows mostly write the same
        starts = np.r_[True, (what[1:] != what[:-1]).any(axis=1)]
        distinct, which = _distinct(what[starts])
        ring, number, name = distinct.T
        # 2. copy the rings; the slots of numbers since the old top are empty
        top = np.maximum(self.tops[ring], number)
        in_slot = top[:, None] - (top[:, None] - np.arange(self.size)) % self.size
        names = np.where(in_slot <= self.tops[ring][:, None], self.names[ring], NONE)
        copy = self._unused(len(ring))
        self.tops[copy], self.names[copy] = top, names
        self.names[copy, number % self.size] = name
        self.table.ring[rows[new]] = copy[which[np.cumsum(starts) - 1]]

    def _unused(self, n: int) -> np.ndarray:
        """Return the indices of `n` unused rings, which the caller may use."""
        if n > len(self._free):
            self._free = np.flatnonzero(~self._used())
        if n > len(self._free):
            before = len(self.tops)
            tops, names = self._empty(max(n, before))
            self.tops, self.names = np.r_[self.tops, tops], np.concatenate([self.names, names])
            self._free = np.r_[self._free, np.arange(before - 1, len(self.tops) - 1)]
        taken, self._free = self._free[:n], self._free[n:]
        return taken

    def _used(self) -> np.ndarray:
        used = np.zeros(len(self.tops), dtype=bool)
        used[self.table.ring] = used[NONE] = True
        return used

    def _first_equal(self) -> np.ndarray:
        """Return for each used ring the index of the first equal ring; the rest is arbitrary."""
        used = np.flatnonzero(self._used())
        contents = np.concatenate([self.tops[used, None], self.names[used]], axis=1)
        # compare hashes first, then the contents
        factors = np.multiply.accumulate(np.full(self.size + 1, 0x9E3779B97F4A7C15, np.uint64))
        hashes = contents.view(np.uint64) @ factors
        _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        first = first[which]
        same = (contents == contents[first]).all(axis=1)
        ring = np.empty(len(self.tops), dtype=np.int64)
        ring[used] = np.where(same, used[first], used)
        return ring

    def _merge(self) -> None:
        """Let rows with equal rings share one ring, and replace unused rings by new ones.

        There are as many new rings as rings in use.
        """
        rows = np.flatnonzero(self.table.ring != NONE)
        ring = self._first_equal()[self.table.ring[rows]]
        is_kept = np.zeros(len(self.tops), dtype=bool)
        is_kept[ring] = True
        self.table.ring[rows] = (np.cumsum(is_kept) - 1)[ring]
        tops, names = self._empty(int(np.count_nonzero(is_kept)) + 1)
        self.tops = np.r_[self.tops[is_kept], tops]
        self.names = np.concatenate([self.names[is_kept], names])
        self._free = whole_numbers()


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of a matrix, and for each row the index of its distinct row."""
    order = np.lexsort(rows.T)
    in_order = rows[order]
    starts = np.r_[True, (in_order[1:] != in_order[:-1]).any(axis=1)]
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(starts) - 1
    return in_order[starts], which


# --- reliable delivery


_ROUND = 32  # bits


@dataclass
class _BufferRecords(AtNodes):
    """The messages that nodes have received: columns of their memory, by (group, node).

    A node has had all messages up to number `last` (NONE before the first message), and all
    messages published since round `since`. Messages up to `floor` are lost.
    """

    last: np.ndarray = field(default_factory=whole_numbers)
    floor: np.ndarray = field(default_factory=whole_numbers)
    since: np.ndarray = field(default_factory=whole_numbers)


@dataclass
class _Served(SortedTable):
    """The messages that parents have sent: up to `at`; children need all since `since`.

    `at` is a place, `since` a round.
    """

    at: np.ndarray = field(default_factory=whole_numbers)
    since: np.ndarray = field(default_factory=whole_numbers)


def _is_beginning(place: np.ndarray) -> np.ndarray:
    """Return True for places that are beginnings of rounds (or epochs), not numbers."""
    return place % (1 << _ROUND) == 0


class Reliable(Remembering):
    """The application of `nodes` nodes with buffers of `size` messages (B).

    Sources keep a publication until a root has acknowledged it.
    """

    acknowledged = True

    def __init__(self, size: int, nodes: int) -> None:
        self.records, self.served = _BufferRecords(), _Served()
        super().__init__(nodes, self.records, self.served, size)

    def fault_handler(self, calls: Calls, joins: Columns) -> np.ndarray:
        """Return the place that a repair JOIN carries: the last number delivered.

        The place is smaller if a child waits for older messages. A node without any message sends
        the round of its join, if that was before this round.
        """
        rows, joined = self.rows(calls), calls.here["joined"]
        end, first = self._end(calls, rows)
        call, _, edge = self.children(calls)
        waits = (joined >= 0) & (joined < calls.round)
        own = np.where(waits, joined << _ROUND, NOTHING)
        own = np.where(self.records.last[rows] >= 0, self.records.last[rows], own)
        needs = self._start(calls, rows[call], edge, end[call], first[call]) < 0
        needs &= self.served.at[edge] >= 0
        of = np.r_[np.arange(len(rows)), call[needs]]
        return self.common_extra(of, np.r_[own, self.served.at[edge[needs]]], len(rows))

    def last_numbers(self, calls: Calls) -> np.ndarray:
        """Return the number up to which nodes have had all messages; at a root, the last number."""
        return self._end(calls, self.rows(calls))[0]

    def common_extra(self, of: np.ndarray, extra: np.ndarray, count: int) -> np.ndarray:
        """Return a place that precedes all messages that any of several places needs.

        The order between a number and a round is unknown; then the result is the beginning of the
        epoch.
        """
        least = super().common_extra(of, extra, count)
        rounds = np.zeros(count, dtype=bool)
        rounds[of[_is_beginning(extra)]] = True
        return np.where(rounds, least >> _ROUND << _ROUND, least)

    def join_handler(self, calls: Calls, joins: Columns) -> Emitted:
        """Send missing messages to new children; ask the parent for those that are not here.

        No question is sent if the node's own JOIN already asks for the messages.
        """
        rows, now = self.rows(calls), calls.round << _ROUND
        end, first = self._end(calls, rows)
        joins = take(joins, last_of_runs(joins["call"], joins["source"]))
        call, child, extra = (joins[name] for name in ("call", "source", "extra"))
        edge = self.edges(calls, call, child)
        at = np.where(extra == NOTHING, now, extra)
        asks = joins["cause"] == ASK
        at = self._note_needs(calls, rows[call], edge, end[call], first[call], at, asks)
        emitted = self._serve(calls, rows, call, child, edge, end, first)
        asks = self._start(calls, rows[call], edge, end[call], first[call]) < 0
        asked = calls.here["asked"][call]
        asks &= ~((asked <= at) & (_is_beginning(asked) | ~_is_beginning(at))) & (at != now)
        return replace(emitted, asks=dict(call=call[asks], extra=at[asks]))

    def _note_needs(self, calls, rows, edge, end, first, at, asks) -> np.ndarray:
        """Record and return the places from which children need messages.

        A question extends what a child waits for or has received, since messages after a round are
        not comparable with messages after a number.  A child that has received everything so far is
        simply sent the rest, if it is here.
        """
        before, since = self.served.at[edge], np.where(_is_beginning(at), at >> _ROUND, calls.round)
        adds = asks & (before >= 0)
        since[adds] = np.minimum(since, self.served.since[edge])[adds]
        had = (before <= end) & (self._start(calls, rows, edge, end, first) >= 0)
        self.served.at[edge], self.served.since[edge] = at, since
        gets = self._start(calls, rows, edge, end, first) >= 0
        adds &= ~(_is_beginning(at) & had & gets)
        both = np.r_[np.arange(len(at)), np.flatnonzero(adds)]
        self.served.at[edge] = at = self.common_extra(both, np.r_[at, before[adds]], len(at))
        return at

    def forward_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Emitted:
        """Number messages at the root, keep and forward them; split retransmissions.

        From a retransmission, each child gets what it lacks.
        """
        number, start, floor, since = messages.values()
        of, numbers, names = contents.values()
        rows, fresh = self.rows(calls), start == NOTHING
        # 1. the root gives the next number
        new = fresh & calls.here["root"]
        number = np.where(new, self._end(calls, rows, new)[0] + 1, number)
        numbers = np.where(new[of], number[of], numbers)
        # 2. keep messages: new nodes begin here; messages before a retransmission are given up
        last = self.records.last[rows]
        begin = np.where(fresh, np.where(last < 0, number - 1, NONE), start)
        self.records.last[rows] = np.maximum(last, begin)
        had = np.where(last < 0, NOTHING, self.records.since[rows])
        self.records.since[rows] = np.minimum(had, np.where(fresh, calls.round, since))
        np.maximum.at(self.records.floor, rows, floor)
        self._take(rows, of, numbers, names)
        root = np.flatnonzero(new)
        which, _, name = self.rings.leading_to(rows[root], number[root])
        state = dict(call=root[np.r_[: len(root), which]], value=np.r_[number[root], name])
        # 3. forward a fresh message, also to children that wait for older ones
        call, child, edge = self.children(calls)
        goes, at, made = fresh[call], self.served.at[edge], np.where(new, np.cumsum(new) - 1, -1)
        in_order = (at < 0) | (at == number[call] - 1) | ((last < 0)[call] & _is_beginning(at))
        in_order &= goes
        self.served.at[edge[in_order]] = number[call[in_order]]
        self.served.since[edge[goes & (at < 0)]] = calls.round
        passed = Emitted(
            dict(call=call[goes], child=child[goes], message=made[call[goes]]),
            dict(number=number[new], start=start[new], floor=floor[new], since=since[new]),
            dict(message=np.arange(len(root)), number=number[new], publication=names[new[of]]),
            values=state,
        )
        if fresh.all():
            return passed
        # 4. send each child the part of a retransmission that it lacks
        end, first = self._end(calls, rows, ~fresh)
        late = call[~goes], child[~goes], edge[~goes]
        return passed.and_also(self._serve(calls, rows, *late, end, first))

    def message_handler(self, calls: Calls, messages: Columns, contents: Columns) -> Columns:
        """Return the publications that members deliver now: the next in order.

        None is from before the member's join.
        """
        call, publication = self.ready
        young = publication >> 32 >= calls.here["joined"][call]
        return dict(call=call[young], publication=publication[young])

    def _end(self, calls, rows, some=True) -> tuple[np.ndarray, np.ndarray]:
        """Return the last number of each group, and the first number since which none is missing.

        At the root, the last number comes from the group's state.
        """
        root, end = calls.here["root"] & some, self.records.last[rows]
        end[root] = calls.here["epoch"][root] << 32
        call, value = (one[root[calls.values["call"]]] for one in calls.values.values())
        turn = index_in_run(call)
        end[call[turn == 0]] = value[turn == 0]
        number = end[call] + 1 + turn - np.bincount(call, minlength=len(rows))[call]
        kept = turn > 0
        self.rings.write(rows[call[kept]], number[kept], value[kept])
        first = end + 1 - self.rings.run(rows, end, -1, some)
        np.maximum.at(self.records.floor, rows[root], first[root] - 1)
        return end, first

    def _take(self, rows: np.ndarray, of: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Keep messages, give up gaps too old for the buffer, and find deliverable messages.

        Message i, a `number` and a `name`, came to the node in row ``rows[of[i]]``.
        """
        self.rings.write(rows[of], number, name)
        call = np.flatnonzero(self.records.last[rows] >= 0)
        rows = rows[call]
        last = np.maximum(self.records.last[rows], self.rings.top(rows) - self.rings.size)
        upto = self.records.last[rows] = last + self.rings.run(rows, last + 1, 1)
        which, _, name = self.rings.between(rows, last + 1, upto)
        self.ready = call[which], name

    def _start(self, calls, rows, edge, end, first) -> np.ndarray:
        """Return the number after which messages for each child begin; NONE if some are missing.

        Row i is about the child in row ``edge[i]`` of `served` and its parent in ``rows[i]`` of
        `records`, whose messages from ``first[i]`` to ``end[i]`` are here without a gap.
        """
        at, since, floor = self.served.at[edge], self.served.since[edge], self.records.floor[rows]
        since = np.where(at < 0, calls.round, since)
        start = np.maximum(at, floor)
        here = start + 1 >= first
        # children whose place is a round and not a number of this epoch
        rounds = (at < 0) | (_is_beginning(at) & (at > end))
        had = (self.records.last[rows] >= 0) & (self.records.since[rows] <= since)
        here[rounds] = (had | (first <= floor + 1))[rounds]
        start[rounds] = end[rounds]
        old = np.flatnonzero(rounds & (since < calls.round) & here & (end >= 0))
        which, number, name = self.rings.between(rows[old], first[old], end[old])
        young = name >> _ROUND >= since[old[which]]
        np.minimum.at(start, old[which[young]], number[young] - 1)
        return np.where(here & (end >= 0), start, NONE)

    def _serve(self, calls, rows, call, child, edge, end, first) -> Emitted:
        """Return retransmissions to children whose missing messages are all here.

        `child` and `edge` (a row of `served`) have a row for each child of the node of ``call``;
        `end` and `first` are those of :meth:`_end` by call.
        """
        start = self._start(calls, rows[call], edge, end[call], first[call])
        at, end, row = self.served.at[edge], end[call], rows[call]
        answered = (start >= 0) & (
            (start < end) | ((start == end) & ((at != end) | _is_beginning(end)))
        )
        start, end, row, edge = start[answered], end[answered], row[answered], edge[answered]
        since = np.where(self.served.at[edge] < 0, calls.round, self.served.since[edge])
        self.served.at[edge], self.served.since[edge] = end, since
        message, number, name = self.rings.between(row, start + 1, end)
        return Emitted(
            dict(call=call[answered], child=child[answered], message=np.arange(len(start))),
            dict(number=start, start=start, floor=self.records.floor[row], since=since),
            dict(message=message, number=number, publication=name),
        )
