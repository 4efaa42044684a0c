"""Several topologies together: mean curves, and means and standard deviations of numbers.

References
----------
JSAC 2002, Section IV.A ("the average of the results obtained with each topology"); the captions of
Figures 7-11.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.histogram import Histogram
from scribe_spark.measures.published import Published
from scribe_spark.report.catalogue import FIGURES, FigureSpec
from scribe_spark.report.series import Series, read_histogram, series_of


def mean_distributions(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return distributions whose curves, cumulative or not, are the means of the topologies'
    curves.
    """
    together = pd.concat(tables, ignore_index=True)
    at = ["figure", "system", "measure", "value"]
    summed = together.groupby(at, as_index=False)["count"].sum()
    return summed.assign(count=summed["count"] / len(tables))


def average_deviation(curves: Sequence[Histogram], cumulative: bool = False) -> float | None:
    """Return the paper's "average standard deviation": over topologies at each x, averaged over x.

    x runs evenly from the least to the greatest value of any topology.  Counts have whole x: every
    whole number counts, even if no topology has it.  A cumulative curve is constant between values,
    so each value counts by its distance to the next.
    """
    x = np.unique(np.concatenate([curve.values for curve in curves]))
    if len(curves) < 2 or len(x) == 0:
        return None
    heights = np.array([_heights(curve, x, cumulative) for curve in curves])
    deviation = heights.std(axis=0, ddof=1)
    if not cumulative:
        return float(deviation.sum() / (x[-1] - x[0] + 1))
    if len(x) == 1:
        return float(deviation[0])
    return float(np.average(deviation[:-1], weights=np.diff(x)))


def _heights(curve: Histogram, x: np.ndarray, cumulative: bool) -> np.ndarray:
    """Return the curve's height at each `x`; `x` contains all of its values."""
    if cumulative:
        return np.append(0.0, curve.at_most)[np.searchsorted(curve.values, x, side="right")]
    heights = np.zeros(len(x))
    heights[index_sorted(x, curve.values)] = curve.counts
    return heights


def average_deviations(
    tables: Sequence[pd.DataFrame], published: Mapping[str, Published]
) -> list[dict[str, Any]]:
    """Return rows for `metrics.json` with the average standard deviation of every curve."""
    together = pd.concat(tables, ignore_index=True)
    rows = []
    for spec in FIGURES:
        for series in series_of(spec, together):
            curves = [
                read_histogram(t, spec.number, series.system, series.measure, positive=spec.log_x)
                for t in tables
            ]
            if any(curves):
                rows.append(_deviation_row(spec, series, curves, published))
    return rows


def _deviation_row(
    spec: FigureSpec,
    series: Series,
    curves: Sequence[Histogram],
    published: Mapping[str, Published],
) -> dict[str, Any]:
    name = series.deviation_name
    return {
        "name": name,
        "value": average_deviation(curves, spec.kind == "cumulative"),
        "unit": spec.thing,
        "figure": spec.number,
        "paper": published.get(name, Published()).paper,
        "check": None,
        "std": None,
        "seeds": {},
        "note": None,
        "fitted": False,
    }


def over_seeds(measured: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return every number over the topologies."""
    known: dict[str, Mapping[str, Any]] = {}
    values: dict[str, dict[int, float | None]] = {}
    for seed, rows in measured.items():
        for row in rows:
            known.setdefault(row["name"], row)
            values.setdefault(row["name"], {})[seed] = row["value"]
    return [
        _over(row, {seed: values[name].get(seed) for seed in measured})
        for name, row in known.items()
    ]


def _over(row: Mapping[str, Any], values: Mapping[int, float | None]) -> dict[str, Any]:
    there = [value for value in values.values() if value is not None]
    mean = statistics.fmean(there) if there else None
    std = statistics.stdev(there) if len(there) > 1 else None
    return {**row, "value": mean, "std": std, "seeds": {str(s): v for s, v in values.items()}}
