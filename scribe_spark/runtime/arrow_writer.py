"""Tables as Parquet on the driver's disk, written by the tasks themselves.

A table that Spark writes goes through the JVM row by row, and its hash is interpreted.  Here each
task writes its rows by pyarrow, under its own name in a temporary folder, and its result names the
file.  Spark takes one result per partition, even if a task runs several times; the driver moves the
files of these results into place, and other files are deleted.
"""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark.core.row_hash import hash_rows
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.sessions import abilities
from scribe_spark.runtime.tricks import enabled

_WRITTEN = "file string, rows bigint, high bigint, low bigint"
_WRITTEN_NAMES = [column.split()[0] for column in _WRITTEN.split(", ")]
_ROWS_AT_ONCE = 2**19
_BESIDE = "_temporary"
_HALF = 0xFFFFFFFF


def can_write(schema: StructType, spark: SparkSession, url: str) -> bool:
    """Return True if tasks can write a table to `url`: it is on their disk, with known types."""
    kinds = {field.dataType.simpleString() for field in schema}
    return kinds <= _KINDS and shares_disk(spark, url)


def shares_disk(spark: SparkSession, url: str) -> bool:
    """Return True if a location is on a disk that the driver may share with all tasks."""
    here = url.startswith("file://") and enabled("arrow_writer")
    return here and abilities(spark).shares_disk


_KINDS = {"bigint", "int", "double", "boolean", "string"}


def write_parquet(table: Batches | pa.Table, folder: Path) -> dict[str, int]:
    """Write a table, in place of an existing one; rows of the driver need no job.

    Return the number of ``rows``, and the sums of both halves of their hashes (`core.row_hash`):
    ``high`` and ``low``.
    """
    schema = table.schema if isinstance(table, pa.Table) else to_arrow_schema(table.schema)
    beside = folder / _BESIDE
    shutil.rmtree(folder, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        write = _writer(schema, beside)
        if isinstance(table, pa.Table):
            listed = [row for batch in write(table.to_batches()) for row in batch.to_pylist()]
        else:
            listed = table.then(write, _WRITTEN).frame.toArrow().to_pylist()
        if not listed:  # an empty table needs a file with its columns
            listed = [{"file": _name(0), "rows": 0, "high": 0, "low": 0}]
            pq.write_table(schema.empty_table(), beside / listed[0]["file"], **_format(schema))
        for one in listed:
            (beside / one["file"]).rename(folder / one["file"])
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    (folder / "_SUCCESS").touch()
    return {name: sum(one[name] for one in listed) for name in ("rows", "high", "low")}


def _writer(
    schema: pa.Schema, folder: Path
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel that writes the rows of a partition, and returns the file's name."""
    options = _format(schema)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()  # None on the driver
        name, sums = _name(task.partitionId() if task else 0), np.zeros(3, dtype=np.int64)
        tables = _gathered(batches, schema)
        for first in tables:
            with _naming(folder / name), pq.ParquetWriter(folder / name, schema, **options) as out:
                for table in itertools.chain([first], tables):
                    out.write_table(table)
                    for batch in table.to_batches():
                        hashed = hash_rows(batch.columns).view(np.int64)
                        sums += [len(hashed), (hashed >> 32 & _HALF).sum(), (hashed & _HALF).sum()]
            columns = [pa.array([value]) for value in (name, *sums.tolist())]
            yield pa.RecordBatch.from_arrays(columns, names=_WRITTEN_NAMES)

    return run


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file's name to an OSError, such as that of a full disk; pyarrow does not."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        rows += len(batch)
        if rows >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _name(partition: int) -> str:
    return f"part-{partition:05d}-{uuid.uuid4()}.snappy.parquet"


def _format(schema: pa.Schema) -> dict[str, Any]:
    packed = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "snappy",
        "store_schema": False,
        # whole numbers are stored as differences, which costs less than a dictionary
        "use_dictionary": [field.name for field in schema if pa.types.is_string(field.type)],
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    }
