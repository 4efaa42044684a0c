"""Histograms: the number of things with each value, for metrics and figures."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import sums_at


@dataclass(frozen=True)
class Histogram:
    """The number of things (for example nodes or groups) with each value."""

    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __bool__(self) -> bool:
        return len(self.values) > 0

    @classmethod
    def of(cls, values: np.ndarray) -> Histogram:
        """Return the histogram of an array with the value of each thing."""
        return cls(*np.unique(np.asarray(values, dtype=float), return_counts=True))

    @property
    def total(self) -> int:
        """The number of all things."""
        return int(self.counts.sum())

    @property
    def at_most(self) -> np.ndarray:
        """For each value, the number of things with at most this value: an array."""
        return np.cumsum(self.counts)

    @property
    def at_least(self) -> np.ndarray:
        """For each value, the number of things with at least this value: an array."""
        return np.cumsum(self.counts[::-1])[::-1]

    def count_of(self, x: np.ndarray) -> np.ndarray:
        """Return the number of things with each value of `x`; NaN above the maximum."""
        place = np.minimum(np.searchsorted(self.values, x), len(self.values) - 1)
        counts = np.where(self.values[place] == x, self.counts[place], 0.0)
        return np.where(x <= self.values[-1], counts, np.nan)

    def count_at_most(self, x: np.ndarray) -> np.ndarray:
        """Return the number of things with at most each value of `x`."""
        return np.r_[0.0, self.at_most][np.searchsorted(self.values, x, side="right")]

    def share_at_most(self, x: np.ndarray) -> np.ndarray:
        """Return the percentage of things with at most each value of `x`."""
        return 100 * self.count_at_most(x) / self.total

    def count_at_least(self, x: np.ndarray) -> np.ndarray:
        """Return the number of things with at least each value of `x`; NaN above the maximum."""
        return np.r_[self.at_least, np.nan][np.searchsorted(self.values, x)]

    @property
    def sum(self) -> float:
        """The sum of all values."""
        return float((self.values * self.counts).sum())

    @property
    def max(self) -> float | None:
        """The maximal value; None for an empty histogram."""
        return float(self.values.max()) if self else None

    def mean(self, things: int | None = None) -> float | None:
        """Return the mean of the values of `things` things, 0 for those that are not counted."""
        total = self.total if things is None else things
        return self.sum / total if total else None

    def nearest_rank(self, q: int) -> float | None:
        """Return the ceil(q n / 100)-th smallest of the n values; None for an empty histogram."""
        if not self:
            return None
        return float(self.values[np.searchsorted(self.at_most, -(-q * self.total // 100))])

    def median(self, things: int | None = None) -> float | None:
        """Return the median of `things` values, 0 for those that are not counted; None for none."""
        if things is not None:
            return self.with_zeros(things).median()
        n = self.total
        if not n:
            return None
        middle = np.searchsorted(self.at_most, ((n - 1) // 2, n // 2), side="right")
        return float(self.values[middle].sum() / 2)

    def with_zeros(self, things: int) -> Histogram:
        """Return the histogram of `things` things, those that are not counted with the value 0."""
        if things == self.total:
            return self
        return add_counts(np.r_[0, self.values], np.r_[things - self.total, self.counts])


def add_counts(values: np.ndarray, counts: np.ndarray) -> Histogram:
    """Return the histogram of ``counts[i]`` things of value ``values[i]``, equal values summed."""
    found, which = np.unique(values, return_inverse=True)
    added = sums_at(which, counts, len(found))
    return Histogram(found.astype(float), added)


def histogram_of_rows(rows: pd.DataFrame) -> Histogram:
    """Return the histogram of a table with the columns ``value`` and ``count``."""
    return add_counts(rows["value"].to_numpy(dtype=float), rows["count"].to_numpy(dtype=np.int64))
