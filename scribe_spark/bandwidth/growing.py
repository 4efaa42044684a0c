"""Rows that come in parts: those that stay, and those that wait for a window of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import DTypeLike

from scribe_spark.core.arrays import run_starts

#: So many windows are one span of a calendar: rows wait for their span until its first window.
_SPAN = 32


class Growing:
    """Arrays by name that grow together at their ends.

    Memory that nothing is written to is not taken from the machine, so the arrays are made as large
    as they can become, and nothing is copied.

    Parameters
    ----------
    most : int
        How many rows there can be.
    **kinds : dtype
        The arrays, of which only the first :attr:`count` values count.
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
    """Rows that are added in parts, and read once.

    Parameters
    ----------
    **kinds : dtype
        The columns.
    """

    def __init__(self, **kinds: DTypeLike) -> None:
        self._kinds = kinds
        self._parts: dict[str, list[np.ndarray]] = {
            name: [np.empty(0, dtype=kind)] for name, kind in kinds.items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._kinds

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add copies of rows; there may be other columns."""
        for name, kind in self._kinds.items():
            self._parts[name].append(columns[name].astype(kind))

    def take(self, name: str) -> np.ndarray:
        """Return a column, and forget its rows."""
        return np.concatenate(self._parts.pop(name))


class Calendar:
    """Rows of whole numbers, by the window in which they are due.

    Parameters
    ----------
    width : int
        The columns of a row.
    """

    def __init__(self, width: int) -> None:
        self._none = np.empty((0, width), dtype=np.int64)
        #: The rows of the windows below `_opened`, and of spans those of the windows from there on.
        self._due: dict[int, list[np.ndarray]] = {}
        self._later: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self._opened = 0

    def add(self, window: np.ndarray, rows: np.ndarray) -> None:
        """Add rows, each to its window."""
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
        """Return the rows that are due in a window, and forget them; windows never go back."""
        self._open(window // _SPAN)
        found = self._due.pop(window, None)
        if found is None:
            return self._none
        return found[0] if len(found) == 1 else np.concatenate(found)

    def first(self) -> int | None:
        """Return the first window in which rows are due; None where no rows wait."""
        if not self._due and self._later:
            self._open(min(self._later))
        return min(self._due, default=None)

    def _open(self, span: int) -> None:
        """Sort the rows of a span, and those of all spans before, into their windows."""
        if (span + 1) * _SPAN <= self._opened:
            return
        self._opened = (span + 1) * _SPAN
        parts = [
            part for one in sorted(self._later) if one <= span for part in self._later.pop(one)
        ]
        if parts:
            self._add_now(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _by_number(number: np.ndarray) -> list[tuple[int, np.ndarray | slice]]:
    """Return each number, and which rows have the number, in their order."""
    if not len(number):
        return []
    if (number == number[0]).all():
        return [(int(number[0]), slice(None))]
    order = np.argsort(number, kind="stable")
    starts = run_starts(number[order])
    rows = np.split(order, starts[1:])
    return list(zip(number[order[starts]].tolist(), rows, strict=True))
