"""The histograms of a run as curves of figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from scribe_spark.measures.histogram import Histogram

#: Columns of the table `distributions`.
COLUMNS = ("figure", "system", "measure", "value", "count")


def read_histogram(
    distributions: pd.DataFrame, figure: str, system: str, measure: str, positive: bool = False
) -> Histogram:
    """Return the rows of one curve; empty without data."""
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
