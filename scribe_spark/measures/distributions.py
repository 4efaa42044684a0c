"""The histograms behind the figures: a few thousand rows for a run of any size.

Spark counts them, and the driver makes figures and metrics from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from scribe_spark.measures.histogram import Histogram, histogram_of_rows
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables
from scribe_spark.runtime.batches import Batches, BatchKernel, by_text
from scribe_spark.systems import System

_COUNTED = "system string, measure string, value double, count bigint"

#: The columns of the table `distributions`, in order.
_COLUMNS = ["figure", "system", "measure", "value", "count"]


def values_of(
    run: RunTables, table: str, column: str, among: Callable[[System], bool] | None = None
) -> Batches:
    """Return a column of a run's table as the values of a distribution."""
    rows = run.batches(table, ["system", column])
    if among is not None:
        rows = rows.among("system", [system.name for system in run.systems if among(system)])
    return values_in(rows, column)


def values_in(table: Batches, column: str) -> Batches:
    """Return a column of a table as the values of a distribution: ``system, value``."""

    def values(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        return {"system": batch.column("system"), "value": batch.column(column).cast(pa.float64())}

    return table.each(values, "system string, value double")


def _count(measure: str) -> BatchKernel:
    """Return the kernel that counts each value of a distribution."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            values = batch.column("value").to_numpy(zero_copy_only=False)
            value, count = np.unique(values, return_counts=True)
            names = [pa.repeat(pa.scalar(text), len(value)) for text in (system, measure)]
            columns = [*names, pa.array(value), pa.array(count)]
            yield pa.RecordBatch.from_arrays(columns, names=["system", "measure", "value", "count"])

    return run


def distributions(
    run: RunTables, measures: Iterable[Measure], figure_of: Callable[[str, str, str], str]
) -> pd.DataFrame:
    """Count the values of every distribution of a run, in one Spark job.

    The columns are ``figure, system, measure, value, count``, sorted.  For Figure 6, the value is
    the rank and the count the size.  ``figure_of(figure, measure, system)`` returns the figure that
    shows a system's measure in this run.
    """
    figures: dict[str, str] = {}
    in_spark, counted = [], []
    for measure in measures:
        for distribution in measure.distributions:
            values = distribution.values(run)
            name, figures[distribution.measure] = distribution.measure, distribution.figure
            if isinstance(values, pd.DataFrame):
                counted.append(values.assign(measure=name))
            elif values is not None:
                in_spark.append(Batches.of(values).then(_count(name), _COUNTED))
    if in_spark:  # all of them in one job
        every = Batches.union(in_spark).frame.toArrow().to_pandas()
        keys = ["system", "measure", "value"]
        counted.append(every.groupby(keys, as_index=False, sort=False, dropna=False).sum())
    found = pd.concat([table for table in counted if len(table)] or counted[:1])
    found["figure"] = [
        figure_of(figures[measure], measure, system)
        for measure, system in zip(found["measure"], found["system"], strict=True)
    ]
    return found[_COLUMNS].sort_values(_COLUMNS, ignore_index=True)


def read_histograms(spread: pd.DataFrame) -> dict[tuple[str, str], Histogram]:
    """Return the histogram of each (system, measure) of ``system, measure, value, count``."""
    return {
        (system, measure): histogram_of_rows(rows)
        for (system, measure), rows in spread.groupby(["system", "measure"])
    }


_NUMBERS: dict[str, tuple[str, Callable[[Histogram], float | None]]] = {
    "mean": ("Mean", Histogram.mean),
    "median": ("Median", Histogram.median),
    "p95": ("The 95th percentile (nearest rank) of", lambda histogram: histogram.nearest_rank(95)),
    "max": ("Maximum", lambda histogram: histogram.max),
}


def histogram_metrics(
    measure: str,
    unit: str,
    figure: str,
    what: str,
    systems: Callable[[System], bool],
    numbers: Iterable[str],
    histogram: Callable[[Found, str], Histogram | None] | None = None,
) -> tuple[Metric, ...]:
    """Return the metrics ``MEASURE.mean``, ``.median``, ``.p95`` and ``.max``."""

    def own(found: Found, system: str) -> Histogram | None:
        return found.histograms.get((system, measure))

    def of(number: Callable[[Histogram], float | None]):
        def value(found: Found, system: str) -> float | None:
            values = (histogram or own)(found, system)
            return None if values is None else number(values)

        return value

    return tuple(
        Metric(f"{measure}.{name}", unit, figure, f"{words} {what}.", of(number), systems)
        for name, (words, number) in ((name, _NUMBERS[name]) for name in numbers)
    )
