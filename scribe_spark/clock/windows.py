"""The program that plays a kernel in windows of time on buckets.

A window is one superstep: each bucket receives the messages of earlier windows, plays the events of
the window, and sends messages.  Every bucket tells all others the first window in which it has
something to do, and earlier windows are skipped.  The state of a bucket stays in memory between
supersteps, so the program needs a player that keeps its buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.clock.bucket import BucketClock, ClockKernel, KernelSetting
from scribe_spark.clock.kernel import FIELDS, NODE, SENDER, times
from scribe_spark.core.arrays import distinct
from scribe_spark.engine.packing import Columns
from scribe_spark.engine.player import PlaysPrograms, most_supersteps
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

#: A table that exists while windows remain.
_GOES_ON = "clock goes on"

_NEXT, _MESSAGE = "next window", "message"

#: A window later than any other: no window.
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class PlayKernel:
    """Play a kernel from commands until nothing is due.

    Attributes
    ----------
    bounds : ndarray of int64, shape (B + 1,)
    setting : KernelSetting
    make : callable
        Returns the kernel of a bucket, without its state.
    """

    bounds: np.ndarray
    setting: KernelSetting
    make: Callable[[], ClockKernel]
    #: The state of the buckets in this process.
    playing: dict[int, _PlayKernelWindows] = field(default_factory=dict)

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        first, last = self.bounds[bucket : bucket + 2].tolist()
        if first == last:
            return {}
        if bucket not in self.playing:
            everybody = distinct(self.bounds[:-1][np.diff(self.bounds) > 0])
            clock, kernel = self._begin(tables, first, last)
            if COMMANDS in tables:
                clock.command(tables.pop(COMMANDS))
            self.playing[bucket] = _PlayKernelWindows(clock, kernel, everybody)
            return next(self.playing[bucket].turns)
        playing = self.playing[bucket]
        if not superstep:  # continue with the windows
            del tables[_GOES_ON]
            return playing.waiting
        try:
            outbox = playing.turns.send(inbox)
        except StopIteration:
            self._end(playing, tables)
            del self.playing[bucket]
            return {}
        # before a player takes the program for an endless one; true in all buckets together
        if superstep == most_supersteps(int(self.bounds[-1])) - 1:
            playing.waiting = outbox
            tables[_GOES_ON] = {"bucket": np.array([bucket])}
            return {}
        return outbox

    def _begin(self, tables: Tables, first: int, last: int) -> tuple[BucketClock, ClockKernel]:
        node = np.arange(first, last)
        places = tables[PLACES] if PLACES in tables else {"room": node * 0, "node": node}
        kernel = self.make()
        clock = BucketClock(self.setting, kernel, places["room"], places["node"])
        kernel.begin(clock, tables)
        return clock, kernel

    def _end(self, playing: _PlayKernelWindows, tables: Tables) -> None:
        """Write the tables of a bucket that has no more events: `COUNTS`, `COPIES` and `SENT`."""
        clock = playing.clock
        playing.kernel.end(tables)
        counts = {"count": clock.counts, "lost": clock.lost}
        tables[COUNTS] = {"kind": np.arange(len(clock.counts)), **counts}
        rows = np.concatenate([clock.no_rows(), *clock.copies, *clock.lost_copies])
        parts = {"publication": FIELDS, "sender": SENDER, "node": NODE, "hops": FIELDS + 1}
        columns = {name: rows[:, at].astype(np.int64) for name, at in parts.items()}
        columns["hops"] += 1
        took_us = rows[:, -1].astype(np.int64) * (self.setting.wires is not None)
        lost = np.arange(len(rows)) >= sum(map(len, clock.copies))
        times_us = {"at_us": times(rows).copy(), "took_us": took_us}
        tables[COPIES] = {**columns, **times_us, "lost": lost}
        if self.setting.records:
            sent = np.concatenate([np.empty((0, 3), dtype=np.int64), *clock.sent])
            tables[SENT] = dict(zip(("kind", "sender", "node"), sent.T, strict=True))


class _PlayKernelWindows:
    """The state of a bucket, and the generator of its supersteps."""

    def __init__(self, clock: BucketClock, kernel: ClockKernel, everybody: np.ndarray) -> None:
        self.clock, self.kernel, self._everybody = clock, kernel, everybody
        self.turns = self._play()
        self.waiting: Outbox = {}

    def _play(self) -> Generator[Outbox, Inbox, None]:
        """Yield the messages of the bucket in each superstep; receive its inbox."""
        clock, due = self.clock, _NEVER
        sent: dict[str, Columns] = {}
        while True:
            found = clock.first_window()
            own = min(due, _NEVER if found is None else found)
            told = {AT: self._everybody, "window": np.full(len(self._everybody), own)}
            inbox = yield {_NEXT: told, **sent}
            window = int(inbox[_NEXT]["window"].min())
            if window == _NEVER:
                return
            if _MESSAGE in inbox:
                clock.receive(inbox[_MESSAGE]["event"])
            rows = clock.play_window(window)
            due = int(clock.window_of(rows).min(initial=_NEVER))
            sent = {_MESSAGE: {AT: rows[:, NODE], "event": rows}}


def play_kernel(player: PlaysPrograms, program: PlayKernel) -> None:
    """Play commands (:data:`COMMANDS`) until nothing is due."""
    player.play(program)
    while player.has(_GOES_ON):
        player.play(program)
