"""Arrays that grow at their ends, and rows that wait for a window of time."""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import run_starts


class Growing:
    """Arrays by name that grow together at their ends.

    Parameters
    ----------
    *names : str
        Of arrays of int64, which are attributes; only their first :attr:`count` values count.
    """

    def __init__(self, *names: str) -> None:
        self._names, self.count = names, 0
        self._columns = {name: np.empty(64, dtype=np.int64) for name in names}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def add(self, count: int, **values: np.ndarray | int) -> np.ndarray:
        """Add rows; return their indices."""
        first, self.count = self.count, self.count + count
        for name in self._names:
            column = self._columns[name]
            if len(column) < self.count:
                longer = np.empty(max(self.count, 2 * len(column)), dtype=np.int64)
                longer[:first] = column[:first]
                self._columns[name] = column = longer
            column[first : self.count] = values[name]
        return np.arange(first, self.count)


class Calendar:
    """Rows of whole numbers, by the window in which they are due."""

    def __init__(self, width: int) -> None:
        self._due: dict[int, list[np.ndarray]] = {}
        self._none = np.empty((0, width), dtype=np.int64)

    def add(self, window: np.ndarray, rows: np.ndarray) -> None:
        """Add rows, each to its window."""
        if not len(window):
            return
        least = int(window.min())
        if least == int(window.max()):
            self._due.setdefault(least, []).append(rows)
            return
        order = np.argsort(window, kind="stable")
        window, rows = window[order], rows[order]
        starts = run_starts(window)
        ends = [*starts[1:].tolist(), len(window)]
        for due, first, end in zip(window[starts].tolist(), starts.tolist(), ends, strict=True):
            self._due.setdefault(due, []).append(rows[first:end])

    def take(self, window: int) -> np.ndarray:
        """Return the rows that are due in a window, and forget them."""
        found = self._due.pop(window, None)
        if found is None:
            return self._none
        return found[0] if len(found) == 1 else np.concatenate(found)

    def first(self) -> int | None:
        """Return the first window in which rows are due; None where no rows wait."""
        return min(self._due, default=None)
