"""The queues at uplinks: batches of copies, first come, first served; rules W3 and W4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.bandwidth.growing import Calendar, Growing
from scribe_spark.core.arrays import NONE, Rows, expand, index_in_run, run_starts


@dataclass
class QueuedBatches(Rows):
    """Batches of copies."""

    uplink: np.ndarray
    publication: np.ndarray
    at_us: np.ndarray  # the time at which the batch is enqueued
    takes_us: np.ndarray  # the transmission time of a single copy
    hops: np.ndarray  # the hops of the sender's first copy
    copies: np.ndarray  # the number of copies, at least one
    whole: np.ndarray  # bool: True if all copies start together, or none of them can be held back


@dataclass
class Started(Rows):
    """Copies that have started."""

    link: np.ndarray
    publication: np.ndarray
    hops: np.ndarray
    start_us: np.ndarray  # the start of the transmission
    spans_us: np.ndarray  # the duration of the transmission at the uplink


#: ``known(publication, link)`` returns the times at which senders learn that receivers have
#: publications.
Known = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Uplinks:
    """The queues of the uplinks of a bucket."""

    def __init__(self, count: int, most_batches: int, most_copies: int, interleaved: bool) -> None:
        self._interleaved = interleaved
        self._free = np.zeros(count, dtype=np.int64)
        self._head, self._tail = (np.full(count, NONE, dtype=np.int64) for _ in range(2))
        times = dict.fromkeys(("at_us", "takes_us", "next", "first", "end"), np.int64)
        numbers = dict.fromkeys(("publication", "hops"), np.int32)
        self._batches = Growing(most_batches, **times, **numbers, whole=np.bool_)
        self._links = Growing(most_copies, link=np.int32)
        self._waiting = Calendar(1)
        self.held_back = 0

    def first(self) -> int | None:
        """Return the first window in which an uplink starts a copy."""
        return self._waiting.first()

    def enqueue(self, batches: QueuedBatches, link: np.ndarray, window_us: int) -> None:
        """Add batches, sorted by uplink, time and publication; `link` has their copies' links."""
        if not len(batches):
            return
        ends = self._links.count + np.cumsum(batches.copies)
        self._links.add(len(link), link=link)
        number = self._batches.add(
            len(batches),
            at_us=batches.at_us,
            publication=batches.publication,
            takes_us=batches.takes_us,
            hops=batches.hops,
            whole=batches.whole,
            next=NONE,
            first=ends - batches.copies,
            end=ends,
        )
        starts = run_starts(batches.uplink)
        inner = np.ones(len(number), dtype=bool)
        inner[starts] = False
        self._batches["next"][number[np.flatnonzero(inner) - 1]] = number[inner]
        uplink, last = batches.uplink[starts], np.append(starts[1:], len(number)) - 1
        tail = self._tail[uplink]
        queued = tail >= 0
        self._batches["next"][tail[queued]] = number[starts[queued]]
        self._head[uplink[~queued]] = number[starts[~queued]]
        self._tail[uplink] = number[last]
        self._wait(uplink[~queued], window_us)

    def start(self, window: int, window_us: int, known: Known) -> Started:
        """Return the copies that start in a window; rule W4 or W4'."""
        end_us = (window + 1) * window_us
        active, started = self._waiting.take(window)[:, 0], []
        while len(active):
            at_us = self._starts(active)
            now = at_us < end_us
            self._wait(active[~now], window_us)
            active = active[now]
            if len(active):
                started.append(self._turn(active, at_us[now], known))
                active = active[self._head[active] >= 0]
        return Started.join(_NOTHING, *started)

    def _starts(self, uplink: np.ndarray) -> np.ndarray:
        """Return the start times of the first batches of some uplinks."""
        return np.maximum(self._batches["at_us"][self._head[uplink]], self._free[uplink])

    def _wait(self, uplink: np.ndarray, window_us: int) -> None:
        self._waiting.add(self._starts(uplink) // window_us, uplink[:, None])

    def _turn(self, uplink: np.ndarray, at_us: np.ndarray, known: Known) -> Started:
        """Start the next copy, or the next batch, of each uplink."""
        batches, batch = self._batches, self._head[uplink]
        first, end = batches["first"][batch], batches["end"][batch]
        one_each = False
        if not self._interleaved:
            whole = batches["whole"][batch]
            one_each = not whole.any()
            end = np.where(whole, end, first + 1)
        # 1. hold back copies that are known to be superfluous before their start
        of, row = (np.arange(len(first)), first) if one_each else expand(first, end)
        link, publication = self._links["link"][row], batches["publication"][batch]
        sent = known(publication[of], link) >= at_us[of]
        self.held_back += len(sent) - int(np.count_nonzero(sent))
        of, link = of[sent], link[sent]
        # 2. transmit the others
        takes_us, count = batches["takes_us"][batch], np.bincount(of, minlength=len(uplink))
        start_us, spans_us = at_us[of], takes_us[of]
        if self._interleaved:
            spans_us = spans_us * count[of]
        elif not one_each:
            start_us = start_us + index_in_run(of) * spans_us
        self._free[uplink] = at_us + count * takes_us
        # 3. advance the queues
        batches["first"][batch] = end
        done = end == batches["end"][batch]
        self._head[uplink[done]] = batches["next"][batch[done]]
        self._tail[uplink[self._head[uplink] < 0]] = NONE
        return Started(link, publication[of], batches["hops"][batch][of], start_us, spans_us)


_NOTHING = Started(*(np.empty(0, dtype=np.int64) for _ in range(5)))
