"""Counts that the buckets of a world leave after a round, and their sums.

A bucket says of how many of its things each value is.  So a measure of all nodes is a sum of whole
numbers, whatever the number of buckets, and no row of a node leaves its bucket.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine import Columns
from scribe_spark.engine.packing import concatenate
from scribe_spark.measures.histogram import Histogram, add_counts


class Counts:
    """The counts of a bucket, by name."""

    def __init__(self) -> None:
        self._parts: list[Columns] = []

    def add(self, name: str, values: np.ndarray) -> None:
        """Count things by their values: whole numbers."""
        self.add_counts(name, *np.unique(values, return_counts=True))

    def add_counts(self, name: str, values: np.ndarray, counts: np.ndarray) -> None:
        """Add how many things there are of each value."""
        if len(values):
            value, count = values.astype(np.int64), counts.astype(np.int64)
            names = np.full(len(values), name)
            self._parts.append({"name": names, "value": value, "count": count})

    def add_total(self, name: str, count: int | np.integer) -> None:
        """Add things that have no value."""
        self.add_counts(name, np.zeros(min(int(count), 1), np.int64), np.array([count]))

    def columns(self) -> dict[str, np.ndarray]:
        """Return the rows of a table: ``name, value, count``; without columns if there are none."""
        return concatenate(self._parts) if self._parts else {}


class Counted:
    """The counts of all buckets.

    Parameters
    ----------
    columns : Columns
        What the buckets have left, one after the other.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def total(self, name: str) -> int:
        """Return how many things there are."""
        return int(self.histogram(name).counts.sum())

    def by_value(self, name: str) -> dict[int, int]:
        """Return how many things there are of each value, in the order of values."""
        found = self.histogram(name)
        return dict(zip(found.values.astype(int).tolist(), found.counts.tolist(), strict=True))

    def histogram(self, name: str) -> Histogram:
        """Return how many things there are of each value."""
        if not self._columns:
            return Histogram()
        mine = self._columns["name"] == name
        return add_counts(self._columns["value"][mine], self._columns["count"][mine])
