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
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scribe_spark.core.arrays import NONE, SortedTable, index_in_run, last_of_runs, whole_numbers
from scribe_spark.engine.packing import Columns, take
from scribe_spark.systems.scribe.memory import AtNodes, Remembering
from scribe_spark.systems.scribe.upcalls import ASK, NOTHING, Calls, Emitted

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
    """The application of `nodes` nodes with buffers of `size` messages (B)."""

    acknowledged = True

    def __init__(self, size: int, nodes: int) -> None:
        self.records, self.served = _BufferRecords(), _Served()
        super().__init__(nodes, self.records, self.served, size)

    def fault_handler(self, calls: Calls, joins: Columns) -> np.ndarray:
        """Return the last number delivered, less if a child waits, or the round of the join."""
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
        """Return a place that precedes all messages that any of several places needs."""
        least = super().common_extra(of, extra, count)
        rounds = np.zeros(count, dtype=bool)
        rounds[of[_is_beginning(extra)]] = True
        return np.where(rounds, least >> _ROUND << _ROUND, least)

    def join_handler(self, calls: Calls, joins: Columns) -> Emitted:
        """Send missing messages to new children; ask the parent for those that are not here."""
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
        """Record and return the places from which children need messages."""
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
        """Number messages at the root, keep and forward them; split retransmissions."""
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
        """Return the publications that members deliver now, in order, since their join."""
        call, publication = self.ready
        young = publication >> 32 >= calls.here["joined"][call]
        return dict(call=call[young], publication=publication[young])

    def _end(self, calls, rows, some=True) -> tuple[np.ndarray, np.ndarray]:
        """Return each group's last number, and the first since which none is missing."""
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
        """Keep messages, give up gaps too old for the buffer, and find deliverable messages."""
        self.rings.write(rows[of], number, name)
        call = np.flatnonzero(self.records.last[rows] >= 0)
        rows = rows[call]
        last = np.maximum(self.records.last[rows], self.rings.top(rows) - self.rings.size)
        upto = self.records.last[rows] = last + self.rings.run(rows, last + 1, 1)
        which, _, name = self.rings.between(rows, last + 1, upto)
        self.ready = call[which], name

    def _start(self, calls, rows, edge, end, first) -> np.ndarray:
        """Return the number after which messages for each child begin; NONE if some are missing."""
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
        """Return retransmissions to children whose missing messages are all here."""
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
