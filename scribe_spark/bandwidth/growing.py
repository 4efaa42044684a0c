"""Rows that arrive in parts: collected as results, or waiting for a window of time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.core.arrays import run_starts
from scribe_spark.core.keys import order_of

#: The number of windows in a span of a calendar; rows of later spans are not sorted yet.
_SPAN = 32


class Growing:
    """Named arrays of equal length that grow at their ends; :attr:`count` values are valid.

    The arrays are allocated with their maximal length, so that nothing is copied; the operating
    system provides memory only for the parts that are written.
    """

    def __init__(self, most: int, **kinds: DTypeLike) -> None:
        self.count = 0
        self._columns = {name: np.empty(most, dtype=kind) for name, kind in kinds.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def add(self, count: int, **values: np.ndarray | int) -> np.ndarray:
        """Add rows; return their indices."""
        first, self.count = self.count, self.count + count
        for name, column in self._columns.items():
            column[first : self.count] = values[name]
        return np.arange(first, self.count)


class Collected:
    """Rows that are added in parts and read once; `kinds` are the types of the columns."""

    def __init__(self, **kinds: DTypeLike) -> None:
        self._kinds = kinds
        self._parts: dict[str, list[np.ndarray]] = {
            name: [np.empty(0, dtype=kind)] for name, kind in kinds.items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def add(self, name: str, values: np.ndarray) -> None:
        """Add copies of values to a column."""
        self._parts[name].append(values.astype(self._kinds[name]))

    def take(self, name: str) -> np.ndarray:
        """Return a column, and delete it."""
        return np.concatenate(self._parts.pop(name))


class Calendar:
    """Rows of integers, by the window in which they are due."""

    def __init__(self, width: int, kind: DTypeLike = np.int64) -> None:
        self._none = np.empty((0, width), dtype=kind)
        #: The rows of windows below `_opened`; the rows of later windows are kept by span.
        self._due: dict[int, list[np.ndarray]] = {}
        self._later: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._opened = 0

    def add(self, window: np.ndarray, rows: np.ndarray) -> None:
        """Add rows, each for a window."""
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
        """Sort the rows of a span, and of all earlier spans, into their windows."""
        if (span + 1) * _SPAN <= self._opened:
            return
        self._opened = (span + 1) * _SPAN
        parts = [
            part for one in sorted(self._later) if one <= span for part in self._later.pop(one)
        ]
        if parts:
            self._add_now(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _by_number(number: np.ndarray) -> list[tuple[int, np.ndarray | slice]]:
    """Return each distinct number with its rows, in order."""
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
