"""Counts that the buckets of a world return after a round, and their sums.

For each measured value, a bucket counts the things (nodes, groups, deliveries) that have it.  So a
measure over all nodes is a sum of integers that does not depend on the number of buckets, and a
bucket returns no row for each node.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.histogram import Histogram, add_counts
from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate


class Counts:
    """The counts of a bucket, by name."""

    def __init__(self) -> None:
        self._parts: list[Columns] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Count the occurrences of each value (integers)."""
        self.add_counts(name, *np.unique(values, return_counts=True))

    def add_counts(self, name: str, values: np.ndarray, counts: np.ndarray) -> None:
        """Add given counts of values."""
        if len(values):
            value, count = values.astype(np.int64), counts.astype(np.int64)
            names = np.full(len(values), name)
            self._parts.append({"name": names, "value": value, "count": count})

    def add_total(self, name: str, count: int | np.integer) -> None:
        """Count things that have no value."""
        self.add_counts(name, np.zeros(min(int(count), 1), np.int64), np.array([count]))

    def columns(self) -> dict[str, np.ndarray]:
        """Return the rows ``name, value, count``; without columns if there are no rows."""
        return concatenate(self._parts) if self._parts else {}


class Counted:
    """The sums of the counts of all buckets, from the rows of :meth:`Counts.columns`."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def total(self, name: str) -> int:
        """Return the number of things, whatever their value."""
        return int(self.histogram(name).counts.sum())

    def by_value(self, name: str) -> dict[int, int]:
        """Return the count of each value, sorted by value."""
        found = self.histogram(name)
        return dict(zip(found.values.astype(int).tolist(), found.counts.tolist(), strict=True))

    def histogram(self, name: str) -> Histogram:
        """Return the histogram of the values."""
        if not self._columns:
            return Histogram()
        named = self._columns["name"] == name
        return add_counts(self._columns["value"][named], self._columns["count"][named])
