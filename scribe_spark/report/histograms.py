"""The histograms of a run as curves of figures."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

__all__ = ["COLUMNS", "Histogram", "read_histogram"]

#: Columns of the table `distributions`.
COLUMNS = ("figure", "system", "measure", "value", "count")


@dataclass(frozen=True)
class Histogram:
    """How many things have each value.

    Attributes
    ----------
    values : ndarray of float, ascending, distinct
    counts : ndarray of float, one for each value
    """

    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __bool__(self) -> bool:
        return len(self.values) > 0

    @property
    def at_most(self) -> np.ndarray:
        """Things with at most each value."""
        return np.cumsum(self.counts)

    @property
    def at_least(self) -> np.ndarray:
        """Things with at least each value."""
        return np.cumsum(self.counts[::-1])[::-1]

    def count_of(self, x: np.ndarray) -> np.ndarray:
        """Things with each of some values; NaN beyond the greatest value."""
        place = np.minimum(np.searchsorted(self.values, x), len(self.values) - 1)
        counts = np.where(self.values[place] == x, self.counts[place], 0.0)
        return np.where(x <= self.values[-1], counts, np.nan)

    def count_at_most(self, x: np.ndarray) -> np.ndarray:
        """Things with at most each of some values."""
        return np.r_[0.0, self.at_most][np.searchsorted(self.values, x, side="right")]

    def count_at_least(self, x: np.ndarray) -> np.ndarray:
        """Things with at least each of some values; NaN beyond the greatest value."""
        return np.r_[self.at_least, np.nan][np.searchsorted(self.values, x)]

    @property
    def total(self) -> float:
        """All things."""
        return float(self.counts.sum())

    @property
    def median(self) -> float:
        """The least value that at least half of the things do not exceed."""
        half = int(np.searchsorted(self.at_most, self.total / 2))
        return float(self.values[min(half, len(self.values) - 1)])


def read_histogram(
    distributions: pd.DataFrame, figure: str, system: str, measure: str, positive: bool = False
) -> Histogram:
    """The rows of one curve; empty where there are none.

    Parameters
    ----------
    distributions : DataFrame
        :data:`COLUMNS`.
    figure, system, measure : str
        Which rows.
    positive : bool
        Leave out values that a logarithmic axis cannot show.
    """
    if not set(COLUMNS) <= set(distributions.columns):
        return Histogram()
    rows = distributions[
        (distributions["figure"].astype(str) == figure)
        & (distributions["system"] == system)
        & (distributions["measure"] == measure)
    ]
    values = rows["value"].to_numpy(dtype=float, na_value=np.nan)
    counts = rows["count"].to_numpy(dtype=float, na_value=np.nan)
    kept = np.isfinite(values) & (counts > 0)
    if positive:
        kept &= values > 0
    distinct, which = np.unique(values[kept], return_inverse=True)
    return Histogram(distinct, np.bincount(which, counts[kept], minlength=len(distinct)))
