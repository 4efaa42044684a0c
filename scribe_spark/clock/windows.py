"""The program that plays a kernel in windows of time on buckets.

A window is one superstep: each bucket receives the messages of earlier windows, plays the events of
the window, and sends messages.  Every bucket tells all others the first window in which it has
something to do, and earlier windows are skipped.  The state of a bucket stays in memory between
supersteps, so the program needs a player that keeps its buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np

from scribe_spark.bandwidth.windows import NEVER, InWindows, Turns
from scribe_spark.clock.bucket import BucketClock, ClockKernel, KernelSetting
from scribe_spark.clock.kernel import FIELDS, NODE, SENDER, times
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables

#: Tables of a bucket before a play: its places (``room, node``, ascending; without it, all nodes in
#: room 0), the commands (``node, room, kind, time_us, value``; `ClockKernel.commands` has the kinds
#: by number), the state of kernels (``key``, `BucketClock.key` of the living places, and the
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
    """The program that plays a kernel from commands until no event is due in any bucket.

    Attributes
    ----------
    setting : KernelSetting
    make : callable
        Returns the kernel of a bucket, without its state.
    """

    setting: KernelSetting
    make: Callable[[], ClockKernel]

    def begin(self, tables: Tables, first: int, last: int, everybody: np.ndarray) -> Turns:
        clock, kernel = self._begin(tables, first, last)
        if COMMANDS in tables:
            clock.command(tables.pop(COMMANDS))
        return _PlayKernelWindows(self.setting, clock, kernel, everybody)

    def _begin(self, tables: Tables, first: int, last: int) -> tuple[BucketClock, ClockKernel]:
        node = np.arange(first, last)
        places = tables[PLACES] if PLACES in tables else {"room": node * 0, "node": node}
        kernel = self.make()
        clock = BucketClock(self.setting, kernel, places["room"], places["node"])
        kernel.begin(clock, tables)
        return clock, kernel


class _PlayKernelWindows:
    """The state of a bucket in the clock that reacts, and the generator of its supersteps."""

    def __init__(
        self,
        setting: KernelSetting,
        clock: BucketClock,
        kernel: ClockKernel,
        everybody: np.ndarray,
    ) -> None:
        self._setting, self._everybody = setting, everybody
        self.clock, self.kernel = clock, kernel
        self.turns = self._play()

    def end(self, tables: Tables) -> None:
        """Write the tables of a bucket that has no more events: `COUNTS`, `COPIES` and `SENT`."""
        clock = self.clock
        self.kernel.end(tables)
        counts = {"count": clock.counts, "lost": clock.lost}
        tables[COUNTS] = {"kind": np.arange(len(clock.counts)), **counts}
        rows = np.concatenate([clock.no_rows(), *clock.copies, *clock.lost_copies])
        parts = {"publication": FIELDS, "sender": SENDER, "node": NODE, "hops": FIELDS + 1}
        columns = {name: rows[:, at].astype(np.int64) for name, at in parts.items()}
        columns["hops"] += 1
        took_us = rows[:, -1].astype(np.int64) * (self._setting.wires is not None)
        lost = np.arange(len(rows)) >= sum(map(len, clock.copies))
        times_us = {"at_us": times(rows).copy(), "took_us": took_us}
        tables[COPIES] = {**columns, **times_us, "lost": lost}
        if self._setting.records:
            sent = np.concatenate([np.empty((0, 3), dtype=np.int64), *clock.sent])
            tables[SENT] = dict(zip(("kind", "sender", "node"), sent.T, strict=True))

    def _play(self) -> Generator[Outbox, Inbox, None]:
        clock, due = self.clock, NEVER
        sent: dict[str, Columns] = {}
        while True:
            found = clock.first_window()
            own = min(due, NEVER if found is None else found)
            told = {AT: self._everybody, "window": np.full(len(self._everybody), own)}
            inbox = yield {_NEXT: told, **sent}
            window = int(inbox[_NEXT]["window"].min())
            if window == NEVER:
                return
            if _MESSAGE in inbox:
                clock.receive(inbox[_MESSAGE]["event"])
            rows = clock.play_window(window)
            due = int(clock.window_of(rows).min(initial=NEVER))
            sent = {_MESSAGE: {AT: rows[:, NODE], "event": rows}}
