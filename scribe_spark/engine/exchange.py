"""Distributed sums for measures: kernels send counts to buckets, and each bucket adds its counts.

If there are few rows, the driver's process plays the kernels and the buckets; otherwise, Spark's
tasks play them.

The buckets of this module are any partition of keys, not intervals of the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.arrays import run_starts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.on_spark import ROWS, pack_rows, play_superstep, read_rows
from scribe_spark.engine.packing import Columns, concatenate, take
from scribe_spark.engine.program import Program
from scribe_spark.runtime.batches import Batches, BatchKernel


def send(buckets: int, name: str, number: np.ndarray, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Yield `ROWS` that send each row of `columns` to bucket ``number % buckets``."""
    to = number % buckets
    for bucket in range(buckets):
        rows = np.flatnonzero(to == bucket)
        if len(rows):
            yield from pack_rows(bucket, 0, False, name, take(columns, rows))


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, dict[str, Columns]]]:
    """Yield each bucket and what it has received: name -> columns, from a partition's batches."""
    come: dict[int, dict[str, list[Columns]]] = {}
    for row in read_rows(batches):
        come.setdefault(row.bucket, {}).setdefault(row.name, []).append(row.read())
    for bucket, by_name in sorted(come.items()):
        yield bucket, {name: concatenate(parts) for name, parts in by_name.items()}


def _met(sent: Batches, buckets: int, kernel: BatchKernel) -> Batches:
    """Return the results of a kernel for the rows sent to each bucket."""
    if not sent.is_small:
        frame = sent.frame.repartitionById(buckets, F.col("bucket"))
        return Batches.made(frame, kernel, ROWS)
    made = pa.Table.from_batches(kernel(sent.to_batches()), to_arrow_schema(ROWS))
    return Batches.known(sent.session, made, len(made), ROWS)


def count_in_buckets(
    sent: Batches,
    buckets: int,
    count: Callable[[dict[str, Columns]], Iterator[tuple[str, Columns]]],
) -> dict[str, dict[str, np.ndarray]]:
    """Return what ``count(columns by name)`` yields for each bucket: name -> columns."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket, come in gather(batches):
            for name, columns in count(come):
                yield from pack_rows(bucket, bucket, True, name, columns)

    counted = _met(sent, buckets, run).to_arrow()
    parts: dict[str, list[Columns]] = {}
    for row in read_rows(counted.to_batches()):
        parts.setdefault(row.name, []).append(row.read())
    return {name: concatenate(several) for name, several in sorted(parts.items())}


def play_lazily(program: Program, first: Batches, supersteps: int) -> Batches:
    """Return the rows (tables, messages) after supersteps of a program; lazy.

    The program starts without tables; `first` are the messages of the first superstep.
    """
    rows = first
    for number in range(supersteps):
        rows = _met(rows, len(program.bounds) - 1, play_superstep(program, number))
    return rows


def distinct_rows(*keys: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Return a row (index) of each distinct combination of keys, the keys, and the counts."""
    order = order_of(*keys)
    ordered = [key[order] for key in keys]
    start = run_starts(*ordered)
    return order[start], [key[start] for key in ordered], np.diff(start, append=len(order))


def add_rows(values: str | tuple[str, ...], columns: Columns, *keys: str) -> dict[str, np.ndarray]:
    """Sum the columns `values` over rows with equal `keys`; return a row for each, sorted."""
    order = order_of(*(columns[key] for key in keys))
    ordered = take(columns, order)
    start = run_starts(*(ordered[key] for key in keys))
    names = (values,) if isinstance(values, str) else values
    sums = {name: np.add.reduceat(ordered[name], start) for name in names}
    return {**take(ordered, start), **sums}
