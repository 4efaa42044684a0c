"""The queues at uplinks and downlinks, first come, first served; rules W3 to W5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.core.arrays import NONE, Rows, expand, index_in_run, run_starts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.packing import Columns

#: The number of windows in a span of a calendar; rows of later spans are not sorted yet.
_SPAN = 32


class Calendar:
    """Rows of integers, sorted by the window of time in which each row is due."""

    def __init__(self, width: int, kind: DTypeLike = np.int64) -> None:
        self._none = np.empty((0, width), dtype=kind)
        #: The rows of windows below `_opened`; the rows of later windows are kept by span.
        self._due: dict[int, list[np.ndarray]] = {}
        self._later: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._opened = 0

    def add(self, window: np.ndarray, rows: np.ndarray) -> None:
        """Add rows; `window` has the number of the window in which each row is due."""
        now = window < self._opened
        if not now.all():
            later = np.flatnonzero(~now)
            of_later = window[later]
            for span, index in _by_number(of_later // _SPAN):
                some = later[index]
                self._later.setdefault(span, []).append((window[some], rows.take(some, axis=0)))
            if len(later) == len(window):
                return
            due = np.flatnonzero(now)
            window, rows = window[due], rows.take(due, axis=0)
        self._add_now(window, rows)

    def _add_now(self, window: np.ndarray, rows: np.ndarray) -> None:
        for due, index in _by_number(window):
            some = rows[index] if isinstance(index, slice) else rows.take(index, axis=0)
            self._due.setdefault(due, []).append(some)

    def take(self, window: int) -> np.ndarray:
        """Return and remove the rows that are due in a window; windows must not decrease."""
        self._open(window // _SPAN)
        found = self._due.pop(window, None)
        if found is None:
            return self._none
        return found[0] if len(found) == 1 else np.concatenate(found)

    def first(self) -> int | None:
        """Return the first window in which rows are due; None without rows."""
        if not self._due and self._later:
            self._open(min(self._later))
        return min(self._due, default=None)

    def _open(self, span: int) -> None:
        """Sort the rows of a span (32 windows), and of all earlier spans, into their windows."""
        if (span + 1) * _SPAN <= self._opened:
            return
        self._opened = (span + 1) * _SPAN
        parts = [
            part for one in sorted(self._later) if one <= span for part in self._later.pop(one)
        ]
        if parts:
            self._add_now(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _by_number(number: np.ndarray) -> list[tuple[int, np.ndarray | slice]]:
    """Return each distinct number with the indices of its rows, in order."""
    if not len(number):
        return []
    least = number.min()
    if least == number.max():
        return [(int(least), slice(None))]
    number = number - least
    order = order_of(number)
    number = number[order]
    starts = run_starts(number)
    ends = [*starts[1:].tolist(), len(number)]
    numbers = (number[starts] + least).tolist()
    return [(one, order[a:b]) for one, a, b in zip(numbers, starts.tolist(), ends, strict=True)]


# --- downlinks


class Downlinks:
    """The downlinks of a bucket's nodes, and the time (us) from which each downlink is free."""

    def __init__(self, count: int) -> None:
        self._free = np.zeros(count, dtype=np.int64)

    def take(self, downlink: np.ndarray, at_us: np.ndarray, takes_us: np.ndarray) -> np.ndarray:
        """Return the times (us) at which downlinks (indices, ascending) have finished copies.

        The copies of a downlink are in the order of arrival, after those of earlier calls: their
        first bytes arrive at `at_us`.
        """
        starts = run_starts(downlink)
        if not len(starts):
            return at_us
        count = np.diff(starts, append=len(downlink))
        # copy i is done at the maximum over j <= i of (at_us of j + the times of copies j to i)
        total = np.cumsum(takes_us)
        greatest = at_us - (total - takes_us)
        greatest[starts] = np.maximum(
            greatest[starts], self._free[downlink[starts]] - (total - takes_us)[starts]
        )
        rank, step = index_in_run(downlink), 1
        while step < count.max():  # each step doubles the range of j
            row = np.flatnonzero(rank >= step)
            greatest[row] = np.maximum(greatest[row], greatest[row - step])
            step *= 2
        done = greatest + total
        self._free[downlink[starts]] = done[starts + count - 1]
        return done


# --- queues


@dataclass
class Started(Rows):
    """The copies that uplinks have started in a window, with their links and times."""

    link: np.ndarray
    publication: np.ndarray
    hops: np.ndarray
    start_us: np.ndarray  # the start of the transmission
    spans_us: np.ndarray  # the duration of the transmission at the uplink


#: ``known(publication, link)`` returns the times at which senders learn that receivers have
#: publications.
Known = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Uplinks:
    """The queues of the uplinks of a bucket; their elements are batches of copies."""

    def __init__(self, count: int, most_batches: int, most_copies: int, interleaved: bool) -> None:
        self._interleaved = interleaved
        self._free = np.zeros(count, dtype=np.int64)
        self._head, self._tail = (np.full(count, NONE, dtype=np.int64) for _ in range(2))
        times = dict.fromkeys(("at_us", "takes_us", "next", "first", "end"), np.int64)
        numbers = dict.fromkeys(("publication", "hops"), np.int32)
        kinds: dict[str, Any] = {**times, **numbers, "whole": np.bool_}
        # memory is taken when it is written
        self._batches = {name: np.empty(most_batches, dtype=kind) for name, kind in kinds.items()}
        self._links = np.empty(most_copies, dtype=np.int32)
        self._batch_count = self._link_count = 0
        self._waiting = Calendar(1)
        self.held_back = 0

    def first(self) -> int | None:
        """Return the number of the first window in which an uplink starts a copy, or None."""
        return self._waiting.first()

    def enqueue(self, batches: Columns, link: np.ndarray, window_us: int) -> None:
        """Add batches, sorted by uplink, time and publication.

        `batches` has ``uplink, publication, at_us`` (when the batch is enqueued), ``takes_us`` (of
        a single copy), ``hops`` (of the sender's first copy), ``copies`` (at least one), and
        ``whole`` (True if all copies start together, or none can be held back); `link` has the
        links of their copies in order.
        """
        if not len(batches["uplink"]):
            return
        ends = self._link_count + np.cumsum(batches["copies"])
        self._links[self._link_count : self._link_count + len(link)] = link
        first = ends - batches["copies"]
        number = self._batch_count + np.arange(len(first))
        values = {**batches, "next": NONE, "first": first, "end": ends}
        for name, column in self._batches.items():
            column[number[0] : number[-1] + 1] = values[name]
        self._link_count, self._batch_count = self._link_count + len(link), number[-1] + 1
        starts = run_starts(batches["uplink"])
        inner = np.ones(len(number), dtype=bool)
        inner[starts] = False
        self._batches["next"][number[np.flatnonzero(inner) - 1]] = number[inner]
        uplink, last = batches["uplink"][starts], np.append(starts[1:], len(number)) - 1
        tail = self._tail[uplink]
        queued = tail >= 0
        self._batches["next"][tail[queued]] = number[starts[queued]]
        self._head[uplink[~queued]] = number[starts[~queued]]
        self._tail[uplink] = number[last]
        self._wait(uplink[~queued], window_us)

    def start(self, window: int, window_us: int, known: Known) -> Started:
        """Return the copies that start in a window (rule W4 or W4')."""
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
        """Return the time (us) at which the first batch of each uplink can start."""
        return np.maximum(self._batches["at_us"][self._head[uplink]], self._free[uplink])

    def _wait(self, uplink: np.ndarray, window_us: int) -> None:
        self._waiting.add(self._starts(uplink) // window_us, uplink[:, None])

    def _turn(self, uplink: np.ndarray, at_us: np.ndarray, known: Known) -> Started:
        """Start the next copy, or the next batch, of each of some uplinks at the times `at_us`."""
        batches, batch = self._batches, self._head[uplink]
        first, end = batches["first"][batch], batches["end"][batch]
        one_each = False
        if not self._interleaved:
            whole = batches["whole"][batch]
            one_each = not whole.any()
            end = np.where(whole, end, first + 1)
        # 1. hold back copies that are known to be superfluous before their start
        of, row = (np.arange(len(first)), first) if one_each else expand(first, end)
        link, publication = self._links[row], batches["publication"][batch]
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
