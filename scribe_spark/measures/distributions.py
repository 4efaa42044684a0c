"""The histograms behind the figures: a few thousand rows for a run of any size.

Spark counts them, and the driver makes figures and metrics from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.engine.exchange import send
from scribe_spark.engine.packing import Columns
from scribe_spark.measures.measure import (
    Distribution,
    Found,
    Measure,
    Metric,
    RunTables,
    Size,
    Value,
)
from scribe_spark.runtime.batches import Batches, BatchKernel, by_text
from scribe_spark.schemas import ROWS
from scribe_spark.systems.registry import System

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The columns of counted values.
COUNTED = "system string, measure string, value double, count bigint"

#: The value of the column `system` for measures that do not depend on the system.
ALL_SYSTEMS = "all"

#: The columns of the table `distributions`, in order.
_COLUMNS = ["figure", "system", "measure", "value", "count"]


#: ``of(system, batch)`` yields a name, the numbers of buckets of rows (modulo B), and columns.
RowsOf = Callable[[str, pa.RecordBatch], Iterable[tuple[str, np.ndarray, Columns]]]


def spread(table: Batches, buckets: int, of: RowsOf) -> Batches:
    """Return `schemas.ROWS` that send rows of systems to buckets, for `engine.exchange`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            for name, number, columns in of(system, batch):
                yield from send(buckets, name, number, columns)

    return table.then(run, ROWS)


def numbers_in(batch: pa.RecordBatch, *names: str) -> dict[str, np.ndarray]:
    """Return columns of whole numbers as int64 arrays, by name."""
    return {name: batch.column(name).cast(pa.int64()).to_numpy() for name in names}


def column_of(
    table: str, column: str, among: Callable[[System], bool] | None = None
) -> Callable[[RunTables], Batches | None]:
    """Return a function for `Distribution.values`: a column of a table of a run."""

    def values(run: RunTables) -> Batches | None:
        if table not in run:
            return None
        rows = run.batches(table, ["system", column])
        if among is not None:
            rows = rows.among("system", [system.name for system in run.systems if among(system)])
        return values_in(rows, column)

    return values


def values_in(table: Batches, column: str, times: int = 1) -> Batches:
    """Return a column of a table, multiplied by `times`, as values of a distribution."""

    def values(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        value = batch.column(column).cast(pa.float64())
        return {"system": batch.column("system"), "value": pc.multiply(value, float(times))}

    return table.each(values, "system string, value double")


def count_values_of(measure: str) -> BatchKernel:
    """Return the kernel that counts the rows with each value, by system."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for system, batch in by_text(batches, "system"):
            values = batch.column("value").to_numpy(zero_copy_only=False)
            value, count = np.unique(values, return_counts=True)
            named = {"system": [system] * len(value), "measure": [measure] * len(value)}
            yield pa.RecordBatch.from_pydict({**named, "value": value, "count": count})

    return run


def distributions(
    run: RunTables, measures: Iterable[Measure], figure_of: Callable[[str, str, str], str]
) -> pd.DataFrame:
    """Count the values of every distribution of a run, at most in one Spark job.

    For Figure 6, the value is the rank and the count the size.  ``figure_of(figure, measure,
    system)`` returns the figure that shows a system's measure in this run.
    """
    figures: dict[str, str] = {}
    in_spark, tables = [], []
    for measure in measures:
        for distribution in measure.distributions:
            values = distribution.values(run)
            name, figures[distribution.measure] = distribution.measure, distribution.figure
            if isinstance(values, pd.DataFrame):
                tables.append(values.assign(measure=name))
            elif values is not None:
                in_spark.append(Batches.of(values).then(count_values_of(name), COUNTED))
    if in_spark:  # all of them in one job
        every = Batches.union(in_spark).to_arrow().to_pandas()
        keys = ["system", "measure", "value"]
        tables.append(every.groupby(keys, as_index=False, sort=False, dropna=False).sum())
    found = pd.concat([table for table in tables if len(table)] or tables[:1])
    found["figure"] = [
        figure_of(figures[measure], measure, system)
        for measure, system in zip(found["measure"], found["system"], strict=True)
    ]
    return found[_COLUMNS].sort_values(_COLUMNS, ignore_index=True)


def read_histograms(spread: pd.DataFrame) -> dict[tuple[str, str], Histogram]:
    """Return histograms by (system, measure), from a table ``system, measure, value, count``."""
    return {
        (system, measure): histogram_of_rows(rows)
        for (system, measure), rows in spread.groupby(["system", "measure"])
    }


# --- metrics of histograms


class Statistic(NamedTuple):
    """A number computed from a histogram; ``{what}`` in `definition` stands for the values."""

    unit: str
    definition: str
    of: Callable[[Histogram, Size], float | None]


def statistics(unit: str, *names: str) -> dict[str, Statistic]:
    """Return statistics of histograms by name, such as ``mean``, ``median``, ``p95`` or ``max``."""
    return {name: _STATISTICS[name]._replace(unit=unit) for name in names}


_STATISTICS = {
    "mean": Statistic("", "Mean {what}.", lambda values, _: values.mean()),
    "median": Statistic("", "Median {what}.", lambda values, _: values.median()),
    "p95": Statistic(
        *("", "The 95th percentile (nearest rank) of {what}."),
        lambda values, _: values.nearest_rank(95),
    ),
    "max": Statistic("", "Maximum {what}.", lambda values, _: values.max),
}

#: The function that returns a histogram, by system.
Histograms = Callable[[Found, str], Histogram | None]


def histogram_of(measure: str) -> Histograms:
    """Return a function of collected results and a system: the histogram of a measure."""
    return lambda found, system: found.histograms.get((system, measure))


def number_of(histogram: Histograms, number: Callable[[Histogram, Size], float | None]) -> Value:
    """Return the function of a metric that is computed from a histogram, if there is one."""

    def value(found: Found, system: str = ALL_SYSTEMS) -> float | None:
        values = histogram(found, system)
        return None if values is None else number(values, found.size)

    return value


class MeasuredDistribution(NamedTuple):
    """A distribution, and the metrics ``MEASURE.NUMBER`` of its histogram."""

    distribution: Distribution
    metrics: tuple[Metric, ...]


def measured_distribution(
    measure: str,
    figure: str,
    what: str,
    systems: Callable[[System], bool],
    numbers: Mapping[str, Statistic],
    values: Callable[[RunTables], DataFrame | Batches | pd.DataFrame | None],
    histogram: Histograms | None = None,
) -> MeasuredDistribution:
    """Return a distribution of `values` with its metrics, or with those of another `histogram`.

    ``values(run)`` and the other arguments are those of `Distribution` and `Metric`; `numbers` has
    the statistics by name, and `what` stands in their definitions.
    """
    read = histogram or histogram_of(measure)
    metrics = (
        Metric(
            *(f"{measure}.{name}", number.unit, figure, number.definition.format(what=what)),
            *(number_of(read, number.of), systems),
        )
        for name, number in numbers.items()
    )
    return MeasuredDistribution(Distribution(measure, figure, values), tuple(metrics))


def measure_of(name: str, *parts: MeasuredDistribution | Iterable[Metric], **more: Any) -> Measure:
    """Return a measure of distributions and further metrics, with `more` fields."""
    of = [part.metrics if isinstance(part, MeasuredDistribution) else part for part in parts]
    found = tuple(part.distribution for part in parts if isinstance(part, MeasuredDistribution))
    return Measure(name, tuple(chain.from_iterable(of)), found, **more)
