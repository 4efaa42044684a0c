"""The program that plays windows of time on buckets.

First, the nodes exchange the numbers of their links.  Then a window takes two supersteps: receive
copies and send IDONTWANTs; receive IDONTWANTs and start copies.  Without IDONTWANTs, a window takes
one superstep.  Every bucket tells all others the first window in which it has something to do, and
earlier windows are skipped.  The state of a bucket stays in memory between supersteps, so the
program needs a player that keeps its buckets; on Spark these are tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.bandwidth.bucket import ClockBucket, ClockSetting, compact
from scribe_spark.bandwidth.setting import TimedLinks
from scribe_spark.core.arrays import distinct
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.player import PlaysPrograms, counted, most_supersteps
from scribe_spark.engine.program import AT, Inbox, Outbox, Tables, in_bucket

#: Tables of a bucket: links (`TimedLinks` and columns for a rule); first copies; all copies, if the
#: setting keeps columns of them.
LINKS, ARRIVALS, COPIES = "clock links", "clock arrivals", "clock copies"

#: A table that exists while windows remain.
_GOES_ON = "clock goes on"

_OFFER, _ANSWER, _DELAY, _NEXT, _COPY, _UNWANTED, _GO_ON = (
    *("link offered", "link answered", "least delay", "next window", "copy", "IDONTWANT", "go on"),
)

#: A window later than any other: no window.
NEVER = np.iinfo(np.int64).max


#: The supersteps of a bucket: yields the bucket's messages, receives its inbox, and returns a
#: function that writes the bucket's tables after the last window.
Turns = Generator[Outbox, Inbox, Callable[[Tables], None]]


@dataclass(frozen=True)
class InWindows:
    """A program that plays windows of time, by :func:`play_in_windows`."""

    bounds: np.ndarray  # (B + 1,)
    #: The state of the buckets in this process, and the messages of those that were interrupted.
    playing: dict[int, Turns] = field(default_factory=dict, init=False)
    waiting: dict[int, Outbox] = field(default_factory=dict, init=False)

    def begin(self, tables: Tables, first: int, last: int, everybody: np.ndarray) -> Turns:
        """Play the bucket of the nodes `first` to `last`.

        `everybody` has the position of a node of each bucket, to which the next window is told.
        """
        raise NotImplementedError

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        first, last = self.bounds[bucket : bucket + 2].tolist()
        if first == last:
            return {}
        if bucket not in self.playing:
            everybody = distinct(self.bounds[:-1][np.diff(self.bounds) > 0])
            self.playing[bucket] = self.begin(tables, first, last, everybody)
            return next(self.playing[bucket])
        if not superstep:  # continue with the windows
            del tables[_GOES_ON]
            return self.waiting.pop(bucket)
        try:
            outbox = self.playing[bucket].send(inbox)
        except StopIteration as end:
            del self.playing[bucket]
            end.value(tables)
            return {}
        # before a player takes the program for an endless one; true in all buckets together
        if superstep == most_supersteps(int(self.bounds[-1])) - 1:
            self.waiting[bucket] = outbox
            tables[_GOES_ON] = {"bucket": np.array([bucket])}
            return {}
        return outbox


def play_in_windows(player: PlaysPrograms, program: InWindows) -> None:
    """Play a program until no bucket has a window left; a long one is played in several pieces."""
    player.play(program)
    while player.has(_GOES_ON):
        player.play(program)


@dataclass(frozen=True)
class Windows(InWindows):
    """Play publications along the links in the tables :data:`LINKS` of all buckets."""

    given: ClockSetting

    def begin(self, tables: Tables, first: int, last: int, everybody: np.ndarray) -> Turns:
        columns = tables.pop(LINKS) if LINKS in tables else TimedLinks().to_columns()
        bucket = ClockBucket(self.given, columns, first, last)
        links = bucket.links
        # 1. both ends of a link exchange the link's numbers
        least_us = int(links.delay_us.min()) if len(links) else NEVER
        delays = _to_all(everybody, delay_us=least_us, links=len(links))
        itself = {AT: np.array([first], dtype=np.int64)}
        offer = {AT: links.peer, **bucket.offer()}
        inbox = yield {_OFFER: offer, _DELAY: delays}
        offered = inbox.get(_OFFER) or {name: column[:0] for name, column in offer.items()}
        answer = bucket.answer(offered[AT], offered)
        delay_us, every = inbox[_DELAY]["delay_us"].min(), int(inbox[_DELAY]["links"].sum())
        least = 1 if delay_us == NEVER else int(delay_us)
        inbox = yield {_ANSWER: {AT: offered["tail"], **answer}, _GO_ON: itself}
        bucket.begin(inbox.get(_ANSWER), least + bucket.given.least_time_us(), least)
        # 2. windows
        sent: dict[str, Columns] = {}
        due, announces = NEVER, bucket.given.discipline.idontwant is not None
        # in a window, a publication begins, or a copy starts, arrives, is complete or lets its
        # receiver enqueue others; each publication has one copy at most on each link
        most = 1 + len(bucket.given.publications) * (2 + 4 * every)
        for _ in counted("clock with bandwidth", most, "windows"):
            found = bucket.first_window()
            own = NEVER if found is None else found
            inbox = yield {_NEXT: _to_all(everybody, window=min(due, own)), **sent}
            window = int(inbox[_NEXT]["window"].min())
            if window == NEVER:
                break
            copies = inbox[_COPY]["copy"] if _COPY in inbox else None
            unwanted = bucket.receive(window, copies)
            inbox = {}
            if announces:
                inbox = yield {
                    _UNWANTED: {AT: unwanted.pop("peer"), **unwanted} if unwanted else {},
                    _GO_ON: itself,
                }
            peer, copies = bucket.send(window, inbox.get(_UNWANTED))
            due = int(bucket.due(copies).min(initial=NEVER))
            sent = {_COPY: {AT: peer, "copy": copies}}

        def end(tables: Tables) -> None:
            tables[ARRIVALS] = bucket.arrivals()
            if self.given.kept:
                tables[COPIES] = bucket.copies()

        return end


def _to_all(everybody: np.ndarray, **values: int) -> dict[str, np.ndarray]:
    """Return a message with some values to each bucket."""
    count = len(everybody)
    columns = {name: np.full(count, value, dtype=np.int64) for name, value in values.items()}
    return {AT: everybody, **columns}


def play_windows(player: PlaysPrograms, bounds: np.ndarray, given: ClockSetting) -> None:
    """Send copies over links; the table LINKS becomes ARRIVALS and COPIES in each bucket."""
    play_in_windows(player, Windows(bounds, given))


# --- together

#: The least number of links for which two tasks are faster than one task.
MANY_LINKS = 2**23


def play_in_few_tasks(
    player: PlaysPrograms, bounds: np.ndarray, given: ClockSetting, many: int = MANY_LINKS
) -> None:
    """Play all windows; the first task plays fewer than `many` links alone."""
    in_task = player if isinstance(player, InTask) else None
    if in_task is None or (in_task.exchange.size > 1 and in_task.count(LINKS) >= many):
        play_windows(player, bounds, given)
        return
    links = in_task.bring(LINKS)
    in_task.hand_out(None if links is None else _play_as_one(links, bounds, given))


def _play_as_one(
    links: list[Columns], bounds: np.ndarray, given: ClockSetting
) -> list[dict[str, Columns]]:
    """Return the tables of results of each bucket, from the links of all buckets in one process."""
    parts = [links.pop(0) for _ in range(len(links))]
    if len(parts) > 1:
        parts = [concatenate([{n: compact(c) for n, c in one.items()} for one in parts])]
    tables = Tables.of({LINKS: parts.pop()})
    play_windows(InTask([tables]), bounds[[0, -1]], given)
    found: list[dict[str, Columns]] = [{} for _ in bounds[1:]]
    for name in [name for name in (ARRIVALS, COPIES) if name in tables]:
        columns = tables.pop(name)
        for bucket, mine in enumerate(found):
            if bounds[bucket] < bounds[bucket + 1]:
                own = in_bucket(bounds, bucket, columns["node"])
                mine[name] = columns if own.all() else take(columns, own)
    return found
