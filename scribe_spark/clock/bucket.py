"""The clock of a bucket, the interface of its kernel, and the program that plays them.

In a window of time, no event can cause another event: a message needs at least the least delay, and
a timer waits at least as long as a window.  So all events of a window are known at its beginning.
They are sorted by place, time and sender; in turn r, the r-th event of each place is played.  A
window is one superstep; see :mod:`scribe_spark.bandwidth.windows`.  Rules: docs/rules.md, K1 to K7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.bandwidth.queues import Calendar, Downlinks
from scribe_spark.bandwidth.setting import SERIAL, transmission_us
from scribe_spark.bandwidth.windows import NEVER, InWindows, Turns
from scribe_spark.clock.kernel import (
    COMMAND,
    DOWN,
    FIELDS,
    KIND,
    NODE,
    ROOM,
    SENDER,
    TIMER,
    ClockEvents,
    Kinds,
    times,
)
from scribe_spark.core.arrays import NONE, distinct, find_sorted, index_in_run, run_starts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.losses import Late, Lost
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import AT, Tables


class Slots:
    """The neighbours of each place (a node in a room): arrays (places, slots), with free slots.

    What a place knows of each neighbour are the `flags`, by name; those of a new neighbour are 0.
    """

    def __init__(self, shape: tuple[int, int], **flags: DTypeLike) -> None:
        self.node = np.full(shape, NONE, dtype=np.int32)
        #: The number of neighbours that have left each slot.
        self.tenancy = np.zeros(shape, dtype=np.int16)
        self._numbers = np.arange(shape[1])[:, None]
        self.flags = {name: np.zeros(shape, dtype=kind) for name, kind in flags.items()}

    def slot(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the slot of each `node` at its `place` (an index); NONE if it is no neighbour."""
        here = self._by_slot(place) == node
        return np.where(here, self._numbers, NONE).max(axis=0)

    def has(self, place: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return True for each `node` that is a neighbour of its `place` (an index)."""
        return (self._by_slot(place) == node).any(axis=0)

    def count(self, place: np.ndarray) -> np.ndarray:
        """Return the number of neighbours of each place."""
        return np.add.reduce(self._by_slot(place) >= 0, axis=0, dtype=np.int64)

    def _by_slot(self, place: np.ndarray) -> np.ndarray:
        """Return the neighbours of k places: (slots, k), since numpy is slow along short rows."""
        return np.ascontiguousarray(self.node.take(place, axis=0).T)

    def without(self, place: np.ndarray, *others: np.ndarray) -> np.ndarray:
        """Return the neighbours of k places, with NONE instead of `others` (nodes): (k, slots)."""
        node = self.node.take(place, axis=0)
        for other in others:
            node[node == other[:, None]] = NONE
        return node

    def add(self, place: np.ndarray, node: np.ndarray) -> None:
        """Add the neighbour `node` to each place (an index), which must have a free slot."""
        free = self._by_slot(place) < 0
        slot = np.where(free, self._numbers, len(self._numbers)).min(axis=0)
        self.node[place, slot] = node
        for flags in self.flags.values():
            flags[place, slot] = 0

    def begin(self, place: np.ndarray, neighbours: np.ndarray, **flags: np.ndarray) -> None:
        """Replace the neighbours of each place by `neighbours` (k, m), with these flags (k, m)."""
        for array in (self.tenancy, *self.flags.values()):
            array[place] = 0
        self.node[place] = NONE
        slots = neighbours.shape[1]
        self.node[place, :slots] = neighbours
        for name, values in flags.items():
            self.flags[name][place, :slots] = values

    def mark(self, flag: str, place: np.ndarray, node: np.ndarray, value: int) -> None:
        """Set a flag to `value` for each `node` that is a neighbour of its `place`."""
        slot = self.slot(place, node)
        here = np.flatnonzero(slot >= 0)
        self.flags[flag][place[here], slot[here]] = value

    def drop(self, place: np.ndarray, node: np.ndarray) -> None:
        """Remove from each place (an index) the node `node`, which must be a neighbour there."""
        slot = self.slot(place, node)
        self.node[place, slot] = NONE
        self.tenancy[place, slot] += 1


#: ``delay(a, b)`` returns the delays between nodes in microseconds, at least 1: int64.
Delay = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Wires:
    """The rates of links, for publications that have sizes."""

    up: np.ndarray  # bits per second, by position; 0: no limit
    down: np.ndarray
    size: np.ndarray  # the bytes of each publication
    uplink: str  # `INTERLEAVED` or `SERIAL`
    shared: bool = True  # True if a node has one uplink and one downlink, False: one per room
    #: ``narrowest(a, b)`` returns the rates of the narrowest links between nodes (0: no limit).
    narrowest: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class KernelSetting:
    """The input of the clocks of all buckets: delays, rates, losses and the window."""

    nodes: int
    delay: Delay
    window_us: int  # a lower bound of all delays and of all waits of timers
    wires: Wires | None = None  # without rates, a message takes its delay only
    records: bool = False  # True if the senders and receivers of all messages are recorded
    #: The copies that the network loses, by the index of the publication; links have the column
    #: ``time_us``, the times at which copies leave.
    lost: Lost | None = None
    late: Late | None = None  # the jitter of copies, by the index of the publication
    validation_us: np.ndarray | None = None  # the times that nodes check a publication


class BucketClock:
    """The clock of a bucket, which plays the events of its places by a kernel.

    `room` and `node` are the places of the bucket, ascending.  `alive` is True for places of live
    nodes, and has one more element: False, for nodes without a place.

    A kernel has the state of these places and their reactions.  It declares `messages` (name ->
    `Control` or `Payload`), `timers` (name -> columns), `commands` (names; they have one column,
    ``value``) and those that are also played at dead places, `wakes`.  For each name, and for
    `DOWN`, it has a method ``on_<name>(events)``; the events are at different places, so a handler
    may read and write the state of all of them at once.  Handlers call :meth:`send` and
    :meth:`wake`.  ``begin(clock, tables)`` reads the state of a bucket from its tables: `STATE`,
    then `LINKED`; ``end(tables)`` writes it, and the first copies (`RECEIPTS`).
    """

    def __init__(
        self, setting: KernelSetting, kernel: Any, room: np.ndarray, node: np.ndarray
    ) -> None:
        self._setting, self.room, self.node = setting, room, node
        self.key = room * np.int64(setting.nodes) + node
        self._is_dense = not len(room) or self.key[-1] - self.key[0] == len(room) - 1
        self.alive = np.zeros(len(room) + 1, dtype=bool)
        self._kinds = kinds = Kinds.of(kernel)
        #: The messages that were sent, and those that met a dead node; by kind.
        self.counts, self.lost = np.zeros((2, len(kinds.names)), dtype=np.int64)
        self.sent: list[np.ndarray] = []  # kind, sender and receiver, if they are recorded
        self._withheld = kinds.payload.copy()
        if setting.lost is not None and setting.lost.withholds_announcements:
            self._withheld |= kinds.announces
        self._number = {name: number for number, name in enumerate(kinds.names)}
        self._handlers = [getattr(kernel, f"on_{name}") for name in kinds.names]
        self._first_command = len(kinds.names) - len(kernel.commands)
        self._wakes = [self._number[name] for name in kernel.wakes]
        # with bandwidth, a copy carries its batch, or its duration on the uplink
        self._width = kinds.width + (setting.wires is not None)
        self._width += self._width % 2  # a row has whole int64
        self._calendar, self._coming, self._leaving = (
            Calendar(self._width, np.int32) for _ in range(3)
        )
        self._nodes = distinct(node)
        links = len(room) + 1
        self._uplinks, self._downlinks = Downlinks(links), Downlinks(links)
        self._batches = 0
        self._plays_copies = False  # the played events are copies
        self._sent: list[np.ndarray] = []
        self._woken: list[np.ndarray] = []
        self.copies: list[np.ndarray] = []
        self.lost_copies: list[np.ndarray] = []

    # --- what kernels call

    def send(
        self,
        kind: str,
        events: ClockEvents,
        peer: np.ndarray,
        *,
        leaves_us: np.ndarray | None = None,
        **columns: np.ndarray | int,
    ) -> None:
        """Let each event's node send messages of a `kind`, at once or at the times `leaves_us`.

        `peer` has a receiver for each event, or several: (k,) or (k, m), with NONE for no receiver.
        """
        row, slot = np.nonzero((peer if peer.ndim == 2 else peer[:, None]) >= 0)
        if not len(row):
            return
        peer = peer[row, slot] if peer.ndim == 2 else peer[row]
        leaves_us = events.time_us if leaves_us is None else leaves_us
        of_rows = {
            name: column[row] if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
        ends = peer, events.room[row], events.node[row]
        self._send(kind, leaves_us[row], *ends, of_rows)

    def wake(
        self, timer: str, events: ClockEvents, at_us: np.ndarray, **columns: np.ndarray | int
    ) -> None:
        """Set a `timer` (a name) at the place of each event, which is due at `at_us` (us)."""
        if len(events):
            node = events.node
            self._woken.append(self._rows(timer, at_us, node, events.room, TIMER, columns))

    def _send(
        self,
        kind: str,
        at_us: np.ndarray,
        node: np.ndarray,
        room: np.ndarray,
        sender: np.ndarray,
        columns: Mapping[str, np.ndarray | int],
    ) -> None:
        number, validation_us = self._number[kind], self._setting.validation_us
        is_copy, lost = bool(self._kinds.payload[number]), self._setting.lost
        if validation_us is not None and self._plays_copies and is_copy:
            at_us = at_us + validation_us[sender]
        rows = self._rows(kind, at_us, node, room, sender, columns)
        if self._withheld[number] and lost is not None:
            ends = {"node": rows[:, SENDER], "peer": rows[:, NODE]}
            rows = rows[~lost.withheld(rows[:, FIELDS], ends)]
        self.counts[number] += len(rows)
        if self._setting.records:
            kinds = np.full(len(rows), number)
            self.sent.append(np.stack([kinds, rows[:, SENDER], rows[:, NODE]], 1))
        if self._setting.wires is not None:  # copies of a place that are sent together are a batch
            rows[:, -1] = self._batches
            self._batches += 1
        self._sent.append(rows)

    def _rows(
        self,
        kind: str,
        at_us: np.ndarray,
        node: np.ndarray,
        room: np.ndarray,
        sender: np.ndarray | int,
        columns: Mapping[str, np.ndarray | int],
    ) -> np.ndarray:
        """Return events of a `kind` (its name) as packed rows of int32, with their `columns`."""
        number = self._number[kind]
        rows = np.zeros((len(node), self._width), dtype=np.int32)
        times(rows)[:] = at_us
        rows[:, NODE], rows[:, SENDER], rows[:, KIND], rows[:, ROOM] = node, sender, number, room
        for name, at in self._kinds.columns[number].items():
            rows[:, at] = columns[name]
        return rows

    # --- what the program calls

    def command(self, commands: Columns) -> None:
        """Enter commands, from rows of the table `COMMANDS`, into the calendar."""
        node = commands["node"]
        if not len(node):
            return
        rows = np.zeros((len(node), self._width), dtype=np.int32)
        times(rows)[:] = commands["time_us"]
        rows[:, NODE], rows[:, ROOM], rows[:, SENDER] = node, commands["room"], COMMAND
        rows[:, KIND], rows[:, FIELDS] = self._first_command + commands["kind"], commands["value"]
        self._calendar.add(self.window_of(rows), rows)

    def window_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the number of the window in which each event (a packed row) is due."""
        return times(rows) // self._setting.window_us

    def first_window(self) -> int | None:
        """Return the first window (its number) in which something is due; None if nothing is."""
        waits = self._calendar, self._coming, self._leaving
        return min((due for one in waits if (due := one.first()) is not None), default=None)

    def receive(self, rows: np.ndarray) -> None:
        """Enter messages to this bucket, packed rows of any sender's bucket, into the calendar."""
        rows = np.ascontiguousarray(rows)  # equal messages may come as one row, for `times`
        window = self.window_of(rows)
        if self._setting.wires is None:
            self._calendar.add(window, rows)
            return
        copy = self._kinds.payload[rows[:, KIND]]
        self._calendar.add(window[~copy], rows[~copy])
        self._coming.add(window[copy], rows[copy])

    def no_rows(self) -> np.ndarray:
        return np.empty((0, self._width), dtype=np.int32)

    def play_window(self, window: int) -> np.ndarray:
        """Play the events of the window with a number; return the messages that leave, as rows.

        The time of a returned message is that of its arrival.
        """
        wires = self._setting.wires
        if wires is not None:
            self._pass_downlinks(window, self._coming.take(window), wires)
        due = self._calendar.take(window)
        if len(due):
            self._play(due)
        rows = np.concatenate([self.no_rows(), *self._sent])
        if self._woken:
            woken = np.concatenate(self._woken)
            self._calendar.add(self.window_of(woken), woken)
        self._sent.clear()
        self._woken.clear()
        if wires is not None:
            rows = self._pass_uplinks(window, rows, wires)
        if self._setting.lost is not None:
            rows = self._without_lost(self._setting.lost, rows)
        times(rows)[:] += self._delays(rows)
        return rows

    def _delays(self, rows: np.ndarray) -> np.ndarray:
        """Return the delays of messages (packed rows) in microseconds; copies also have jitter."""
        delay_us = self._setting.delay(rows[:, SENDER], rows[:, NODE])
        if self._setting.late is not None:
            copy = np.flatnonzero(self._kinds.payload[rows[:, KIND]])
            links = {"node": rows[copy, SENDER], "peer": rows[copy, NODE]}
            delay_us[copy] += self._setting.late(rows[copy, FIELDS], links, delay_us[copy])
        return delay_us

    def _without_lost(self, lost: Lost, rows: np.ndarray) -> np.ndarray:
        """Return the messages (packed rows) that arrive; count the others as lost (rule N2)."""
        copy = np.flatnonzero(self._kinds.payload[rows[:, KIND]])
        links = {"node": rows[copy, SENDER], "peer": rows[copy, NODE], "time_us": times(rows)[copy]}
        copy = copy[lost(rows[copy, FIELDS], links)]
        gone = rows[copy]
        self.lost += np.bincount(gone[:, KIND], minlength=len(self.lost))
        times(gone)[:] += self._delays(gone)
        if self._setting.wires is not None:
            times(gone)[:] += gone[:, -1]
        self.lost_copies.append(gone)
        return np.delete(rows, copy, axis=0)

    def _play(self, rows: np.ndarray) -> None:
        """Play events (packed rows) in turns: in each turn, a place plays at most one event."""
        place = self._places(rows[:, ROOM], rows[:, NODE])
        if not (there := place < len(self.key)).all():
            gone, rows, place = rows[~there], rows[there], place[there]
            for number in distinct(gone[:, KIND]).tolist():
                self._return(number, gone[gone[:, KIND] == number])
            if not len(rows):
                return
        at_us = times(rows)
        order = order_of(place, at_us - at_us.min(), *self._ranks(rows))
        place = place[order]
        part = index_in_run(place) * len(self._kinds.names) + rows[order, KIND]
        in_turn = order_of(part)
        rows, place, part = rows.take(order[in_turn], axis=0), place[in_turn], part[in_turn]
        starts = run_starts(part)
        ends = np.append(starts[1:], len(rows)).tolist()
        for first, end in zip(starts.tolist(), ends, strict=True):
            self._play_some(int(rows[first, KIND]), rows[first:end], place[first:end])

    def _ranks(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the columns that sort a place's events of one moment, before their numbers."""
        sender = rows[:, SENDER] - COMMAND
        if self._setting.wires is None:
            return [sender]
        return [sender, self._kinds.payload[rows[:, KIND]]]

    def _places(self, room: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the index of the place of each node in its room; without one, their number."""
        key, many = room * np.int64(self._setting.nodes) + node, len(self.key)
        place = key - self.key[0] if self._is_dense and many else find_sorted(self.key, key)
        return np.where((place >= 0) & (place < many), place, many)

    def _play_some(self, number: int, rows: np.ndarray, place: np.ndarray) -> None:
        """Let the kernel play events of one kind (its number) at different places."""
        alive = self.alive[place]
        if not alive.all() and number not in self._wakes:
            self._return(number, rows[~alive])
            rows, place = rows[alive], place[alive]
        if not len(rows):
            return
        self._plays_copies = bool(self._kinds.payload[number])
        if self._plays_copies:
            self.copies.append(rows)
        self._handlers[number](ClockEvents(rows, place, self._kinds.columns[number]))

    def _return(self, number: int, rows: np.ndarray) -> None:
        """Tell the senders of messages of one kind that their receivers are dead (rule K4)."""
        rows = rows[rows[:, SENDER] >= 0]
        self.lost[number] += len(rows)
        if self._kinds.payload[number]:
            self.lost_copies.append(rows)
        if self._kinds.names[number] != DOWN and len(rows):
            ends = rows[:, SENDER], rows[:, ROOM], rows[:, NODE]
            self._send(DOWN, times(rows), *ends, {})

    # --- bandwidth

    def _pass_uplinks(self, window: int, rows: np.ndarray, wires: Wires) -> np.ndarray:
        """Return the messages in `rows` without payload, and the copies that are due in a window.

        Copies in `rows` are queued first.  A returned copy has the time at which its uplink starts
        to transmit the copy, and the duration of the transmission (K6).
        """
        copy = self._kinds.payload[rows[:, KIND]]
        copies = rows[copy]
        self._leaving.add(self.window_of(copies), copies)
        copies = self._leaving.take(window)
        if not len(copies):
            return rows[~copy]
        # 1. the copies of a batch were sent together; within a batch, they leave by receiver
        link, at_us = self._links(copies, SENDER, wires), times(copies)
        ranks = copies[:, -1], copies[:, ROOM], copies[:, NODE]
        order = order_of(link, at_us - at_us.min(), *ranks)
        copies, link, at_us = copies.take(order, axis=0), link[order], at_us[order]
        takes_us = transmission_us(wires.size[copies[:, FIELDS]], wires.up[copies[:, SENDER]])
        if wires.uplink == SERIAL:
            starts_us = self._uplinks.take(link, at_us, takes_us) - takes_us
        else:
            first = run_starts(link, at_us, copies[:, -1], copies[:, ROOM])
            count = np.diff(first, append=len(link))
            takes_us = takes_us[first] * count
            starts_us = self._uplinks.take(link[first], at_us[first], takes_us) - takes_us
            starts_us, takes_us = np.repeat(starts_us, count), np.repeat(takes_us, count)
        # 2. a copy carries the start of its transmission, and the duration
        times(copies)[:], copies[:, -1] = starts_us, takes_us
        return np.concatenate([rows[~copy], copies])

    def _links(self, rows: np.ndarray, end: int, wires: Wires) -> np.ndarray:
        """Return the index of the uplink or downlink of each copy, at its sender or receiver."""
        if not wires.shared:
            return self._places(rows[:, ROOM], rows[:, end])
        link = find_sorted(self._nodes, rows[:, end])
        return np.where(link >= 0, link, len(self.key))

    def _pass_downlinks(self, window: int, rows: np.ndarray, wires: Wires) -> None:
        """Enter copies as events at the times at which downlinks have finished them (K7)."""
        if not len(rows):
            return
        link, at_us = self._links(rows, NODE, wires), times(rows)
        order = order_of(link, at_us - at_us.min(), rows[:, FIELDS], rows[:, SENDER])
        rows, at_us = rows.take(order, axis=0), at_us[order]
        takes_us = transmission_us(wires.size[rows[:, FIELDS]], wires.down[rows[:, NODE]])
        takes_us[link[order] == len(self.key)] = 0  # no place, no downlink
        done_us = self._downlinks.take(link[order], at_us, takes_us)
        if wires.narrowest is not None:
            rates = wires.narrowest(rows[:, SENDER], rows[:, NODE])
            routes_us = transmission_us(wires.size[rows[:, FIELDS]], rates)
            rows[:, -1] = np.maximum(rows[:, -1], routes_us)
        times(rows)[:] = np.maximum(at_us + rows[:, -1], done_us)
        rows[:, -1] = times(rows) - at_us  # what the links took
        self._calendar.add(self.window_of(rows), rows)


# --- the program


#: Tables of a bucket before a play: its places (``room, node``, ascending; without it, all nodes in
#: room 0), the commands (``node, room, kind, time_us, value``; the kind is a number of the kernel's
#: `commands`), the state of kernels (``key``, `BucketClock.key` of the living places, and the
#: kernel's columns), and places that begin anew with some neighbours, alive (``key, neighbours``,
#: the latter of two dimensions, NONE: no neighbour; and perhaps flags of neighbours, by name).
PLACES, COMMANDS, STATE, LINKED = "clock places", "clock commands", "clock state", "clock linked"

#: Tables of a bucket after a play: the state; the first copies, which kernels write (``publication,
#: node, at_us, hops, sender``; at sources `sender` is NONE); the copies that arrived
#: (``publication, sender, node, hops, at_us, took_us, lost``: the time on links without the delay,
#: and whether the receiver was dead; those of a receiver are in order); the numbers of messages
#: that were sent and that met a dead node (``kind, count, lost``; `Kinds.names` has the kinds by
#: number); and, if they are recorded, all messages (``kind, sender, node``).
RECEIPTS, COPIES, COUNTS, SENT = "clock receipts", "clock copies", "clock counts", "clock messages"

_NEXT, _MESSAGE = "next window", "message"


@dataclass(frozen=True)
class PlayKernel(InWindows):
    """The program that plays a kernel from commands until no event is due in any bucket."""

    setting: KernelSetting
    make: Callable[[], Any]  # returns the kernel of a bucket, without its state

    def begin(self, tables: Tables, first: int, last: int, everybody: np.ndarray) -> Turns:
        node = np.arange(first, last)
        places = tables[PLACES] if PLACES in tables else {"room": node * 0, "node": node}
        kernel = self.make()
        clock = BucketClock(self.setting, kernel, places["room"], places["node"])
        kernel.begin(clock, tables)
        if COMMANDS in tables:
            clock.command(tables.pop(COMMANDS))
        due, sent = NEVER, dict[str, Columns]()
        while True:
            found = clock.first_window()
            own = min(due, NEVER if found is None else found)
            told = {AT: everybody, "window": np.full(len(everybody), own)}
            inbox = yield {_NEXT: told, **sent}
            window = int(inbox[_NEXT]["window"].min())
            if window == NEVER:
                return partial(_end, self.setting, clock, kernel)
            if _MESSAGE in inbox:
                clock.receive(inbox[_MESSAGE]["event"])
            rows = clock.play_window(window)
            due = int(clock.window_of(rows).min(initial=NEVER))
            sent = {_MESSAGE: {AT: rows[:, NODE], "event": rows}}


def _end(setting: KernelSetting, clock: BucketClock, kernel: Any, tables: Tables) -> None:
    """Write the tables of a bucket that has no more events: `COUNTS`, `COPIES` and `SENT`."""
    kernel.end(tables)
    counts = {"count": clock.counts, "lost": clock.lost}
    tables[COUNTS] = {"kind": np.arange(len(clock.counts)), **counts}
    rows = np.concatenate([clock.no_rows(), *clock.copies, *clock.lost_copies])
    parts = {"publication": FIELDS, "sender": SENDER, "node": NODE, "hops": FIELDS + 1}
    columns = {name: rows[:, at].astype(np.int64) for name, at in parts.items()}
    columns["hops"] += 1
    took_us = rows[:, -1].astype(np.int64) * (setting.wires is not None)
    lost = np.arange(len(rows)) >= sum(map(len, clock.copies))
    times_us = {"at_us": times(rows).copy(), "took_us": took_us}
    tables[COPIES] = {**columns, **times_us, "lost": lost}
    if setting.records:
        sent = np.concatenate([np.empty((0, 3), dtype=np.int64), *clock.sent])
        tables[SENT] = dict(zip(("kind", "sender", "node"), sent.T, strict=True))
