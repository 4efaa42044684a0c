"""Rows that arrive in parts: collected as results, or waiting for a window of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.core.arrays import run_starts

#: The number of windows in a span of a calendar; rows of later spans are not sorted yet.
_SPAN = 32


class Growing:
    """Named arrays of equal length that grow at their ends.

    The arrays are allocated with their maximal length, so that nothing is copied; the operating
    system provides memory only for the parts that are written.

    Parameters
    ----------
    most : int
        The maximal number of rows.
    **kinds : dtype
        The types of the arrays; only the first :attr:`count` values are valid.
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
    """Rows that are added in parts and read once.

    Parameters
    ----------
    **kinds : dtype
        The types of the columns.
    """

    def __init__(self, **kinds: DTypeLike) -> None:
        self._kinds = kinds
        self._parts: dict[str, list[np.ndarray]] = {
            name: [np.empty(0, dtype=kind)] for name, kind in kinds.items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add copies of rows; other columns are ignored."""
        for name, kind in self._kinds.items():
            self._parts[name].append(columns[name].astype(kind))

    def take(self, name: str) -> np.ndarray:
        """Return a column, and delete it."""
        return np.concatenate(self._parts.pop(name))


class Calendar:
    """Rows of integers, by the window in which they are due.

    Parameters
    ----------
    width : int
        The number of columns.
    """

    def __init__(self, width: int) -> None:
        self._none = np.empty((0, width), dtype=np.int64)
        #: The rows of windows below `_opened`; the rows of later windows are kept by span.
        self._due: dict[int, list[np.ndarray]] = {}
        self._later: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._opened = 0

    def add(self, window: np.ndarray, rows: np.ndarray) -> None:
        """Add rows, each for a window."""
        now = window < self._opened
        if not now.all():
            later, of_later = (window, rows) if not now.any() else (window[~now], rows[~now])
            for span, index in _by_number(later // _SPAN):
                self._later.setdefault(span, []).append((later[index], of_later[index]))
            window, rows = window[now], rows[now]
        self._add_now(window, rows)

    def _add_now(self, window: np.ndarray, rows: np.ndarray) -> None:
        for due, index in _by_number(window):
            self._due.setdefault(due, []).append(rows[index])

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
    if (number == number[0]).all():
        return [(int(number[0]), slice(None))]
    order = np.argsort(number, kind="stable")
    starts = run_starts(number[order])
    rows = np.split(order, starts[1:])
    return list(zip(number[order[starts]].tolist(), rows, strict=True))
