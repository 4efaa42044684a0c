"""Tables that tasks make themselves: Arrow batches, with several kernels in the same task.

A kernel is a function from the batches of a partition to new batches.  Between two kernels in
Spark, rows would go through the JVM. Kernels that read few rows of saved tables run in the driver's
process, without a job.  Tables become Parquet on the driver's disk: each task writes its rows under
its own name in a temporary folder, and its result names the file.  Spark takes one result per
partition, even if a task runs several times; the driver moves the files of these results into
place.
"""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark.core.draws import hash_rows
from scribe_spark.runtime.blocks import errors_of_tasks, union_tables
from scribe_spark.runtime.sessions import (
    abilities,
    local_frame,
    parallelism,
    timed_query,
    timed_tasks,
    usable,
)
from scribe_spark.runtime.tricks import enabled

#: A function from the batches of a partition to the batches of the result.
BatchKernel = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


_ROWS_AT_ONCE = 2**19

#: From so many rows of saved tables on, a job is faster than the driver's process.
_MANY_ROWS = 2**22

#: From so many rows on, tables are written faster by a task for each core than by the driver.
_SOME_ROWS = 2**18

#: A selection of rows: column -> the values of which they have one.
Among = Mapping[str, Sequence[Any]]
EVERY: Among = MappingProxyType({})


@dataclass(frozen=True)
class DriverRows:
    """Rows that the driver's process knows, and the number of rows that kernels make of them."""

    spark: SparkSession
    rows: pa.Table | range
    count: int

    def shares(self, tasks: int) -> list[pa.Table | range]:
        """Return the rows in as many parts as there are tasks."""
        rows = self.rows
        if not isinstance(rows, range):
            places = (np.arange(n, len(rows), tasks) for n in range(tasks))
            return [rows] if tasks == 1 else [rows.take(some) for some in places]
        ends = [len(rows) * task // tasks for task in range(tasks + 1)]
        return [rows[start:end] for start, end in itertools.pairwise(ends)]

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame of Spark; numbers are divided among all cores."""
        if not isinstance(self.rows, range):
            return local_frame(self.spark, self.rows)
        tasks = max(1, min(len(self.rows), parallelism(self.spark)))
        return self.spark.range(0, len(self.rows), 1, tasks)


def _made(
    shares: Iterable[pa.Table | range], kernels: Iterable[BatchKernel | None]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that kernels make of rows; a range stands for numbers in a column ``id``."""
    for rows, kernel in zip(shares, kernels, strict=True):
        if isinstance(rows, range):
            rows = pa.table({"id": np.arange(rows.start, rows.stop)})
        yield from rows.to_batches() if kernel is None else kernel(rows.to_batches())


@dataclass(frozen=True)
class Batches:
    """A table that kernels make, computed when it is read.

    `parts` are pairs of rows and the kernel that makes the table's rows from them; with None, these
    rows are the table's.
    """

    parts: tuple[tuple[DataFrame | DriverRows, BatchKernel | None], ...]
    schema: StructType

    @classmethod
    def of(
        cls, table: Table, columns: Sequence[str] | None = None, among: Among = EVERY
    ) -> Batches:
        """Return some columns of a table as `Batches`, of the rows with values in `among`."""
        if isinstance(table, Batches):
            return table._of_rows(among)
        frame = table if columns is None else table.select(*columns)
        return cls(((frame, None),), frame.schema)._of_rows(among)

    @classmethod
    def made(cls, rows: DataFrame, kernel: BatchKernel, schema: StructType | str) -> Batches:
        """Return the table that a kernel makes from the rows of a DataFrame, with a schema."""
        return cls(((rows, kernel),), _schema(schema))

    @classmethod
    def saved(
        cls, spark: SparkSession, folder: Path, columns: Sequence[str], among: Among = EVERY
    ) -> Batches:
        """Return columns and rows of a folder of Parquet files that all tasks can read."""
        files = sorted(str(file) for file in folder.glob("*.parquet"))
        groups = [(f, *group) for f in files for group in _row_groups(f, among)]
        schema = from_arrow_schema(pq.read_schema(files[0]))
        names = list(columns)
        wanted = StructType([schema[name] for name in names])

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    file, group, _ = groups[number]
                    with pq.ParquetFile(file) as source:
                        for rows in source.iter_batches(_ROWS_AT_ONCE, [group], names):
                            yield rows.select(names)

        known = DriverRows(spark, range(len(groups)), sum(rows for _, _, rows in groups))
        return cls(((known, read),), wanted)._of_rows(among)

    @classmethod
    def known(
        cls, spark: SparkSession, rows: pa.Table, count: int, schema: StructType | str
    ) -> Batches:
        """Return rows that the driver knows, of which kernels make about `count` rows."""
        return cls(((DriverRows(spark, rows, count), None),), _schema(schema))

    @classmethod
    def numbered(cls, spark: SparkSession, count: int) -> Batches:
        """Return a table of the numbers 0 to `count` - 1 in a column ``id``."""
        return cls(((DriverRows(spark, range(count), count), None),), _schema("id bigint"))

    @staticmethod
    def union(tables: Iterable[Batches]) -> Batches:
        """Return one table with the rows of several tables, which have the same columns."""
        several = list(tables)
        return Batches(tuple(part for table in several for part in table.parts), several[0].schema)

    def then(self, kernel: BatchKernel, schema: StructType | str) -> Batches:
        """Return the table that a kernel makes from this table's rows."""
        return Batches(
            tuple((rows, _after(first, kernel)) for rows, first in self.parts), _schema(schema)
        )

    def each(
        self, make: Callable[[pa.RecordBatch], dict[str, pa.Array]], schema: StructType | str
    ) -> Batches:
        """Return a table made of this one: ``make(batch)`` returns the columns of each batch."""
        wanted = to_arrow_schema(_schema(schema))

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = make(batch)
                arrays = [_array(columns[field.name], field.type) for field in wanted]
                yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

        return self.then(run, schema)

    def among(self, column: str, values: Iterable[Any]) -> Batches:
        """Return the rows that have one of several `values` in a column."""
        wanted = pa.array(list(values), to_arrow_schema(self.schema).field(column).type)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.filter(pc.is_in(batch.column(column), wanted))

        return self.then(run, self.schema)

    def _of_rows(self, among: Among) -> Batches:
        table = self
        for column, values in among.items():
            table = table.among(column, values)
        return table

    def select(self, columns: Sequence[str]) -> Batches:
        """Return the same rows with some of the columns."""
        wanted = list(columns)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch.select(wanted)

        return self.then(run, StructType([self.schema[name] for name in wanted]))

    @property
    def session(self) -> SparkSession:
        """The Spark session to which the table belongs."""
        rows, _ = self.parts[0]
        return rows.spark if isinstance(rows, DriverRows) else rows.sparkSession

    @property
    def frame(self) -> DataFrame:
        """The table as a DataFrame of Spark."""
        return union_tables(
            [
                _frame(rows) if kernel is None else _frame(rows).mapInArrow(kernel, self.schema)
                for rows, kernel in self.parts
            ]
        )

    @property
    def is_small(self) -> bool:
        """True if the driver's process makes the table without a job."""
        return self.is_known and self._count < _MANY_ROWS

    @property
    def is_known(self) -> bool:
        """True if the driver knows all rows that kernels read."""
        return all(isinstance(rows, DriverRows) for rows, _ in self.parts)

    @property
    def _count(self) -> int:
        return sum(rows.count for rows, _ in self.parts if isinstance(rows, DriverRows))

    @property
    def is_for_plain_tasks(self) -> bool:
        """True if the table has so many rows that tasks of this machine make it without a query."""
        if not self.is_known or self._count < _SOME_ROWS:
            return False
        return usable("plain_tasks", self.session) and abilities(self.session).shares_disk

    def made_here(self) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow batches of a small table, which this process makes."""
        (rows,) = self._rows_of_tasks(1)
        return _made(rows, self._kernels)

    def made_by_plain_tasks(self) -> pa.Table:
        """Return the few rows that a task for each core makes of the rows that the driver knows."""
        spark, schema = self.session, to_arrow_schema(self.schema)
        tasks, kernels = parallelism(spark), self._kernels

        def run(rows: tuple[pa.Table | range, ...]) -> bytes:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as out:
                for batch in _made(rows, kernels):
                    out.write_batch(batch.cast(schema))
            return bytes(sink.getvalue())

        with errors_of_tasks(), timed_tasks(spark):
            rows = spark.sparkContext.parallelize(self._rows_of_tasks(tasks), tasks)
            made = rows.map(run).collect()
        read = (pa.ipc.open_stream(data).read_all() for data in made)
        return pa.concat_tables([schema.empty_table(), *read])

    def _rows_of_tasks(self, tasks: int) -> list[tuple[pa.Table | range, ...]]:
        shared = [rows.shares(tasks) for rows, _ in self.parts if isinstance(rows, DriverRows)]
        return list(zip(*shared, strict=True))

    @property
    def _kernels(self) -> tuple[BatchKernel | None, ...]:
        return tuple(kernel for _, kernel in self.parts)

    def to_batches(self) -> Iterable[pa.RecordBatch]:
        """Return the batches of a small table, which tasks make if that is faster."""
        if self.is_for_plain_tasks:
            return self.made_by_plain_tasks().to_batches()
        return self.made_here()

    def to_arrow(self) -> pa.Table:
        """Return the table as an Arrow table on the driver; this process makes a small one."""
        schema = to_arrow_schema(self.schema)
        if self.is_small or self.is_for_plain_tasks:
            return pa.Table.from_batches((one.cast(schema) for one in self.to_batches()), schema)
        frame = self.frame
        with errors_of_tasks(), timed_query(frame):
            return frame.toArrow().cast(schema)


#: A table in either form.
Table = DataFrame | Batches


def rows_of(table: DataFrame | pa.Table, columns: Sequence[str], among: Among = EVERY) -> pa.Table:
    """Return columns of a small table (of a DataFrame, the rows in `among`) on the driver."""
    if isinstance(table, pa.Table):
        return table.select(list(columns))
    for column, values in among.items():
        table = table.where(F.col(column).isin(list(values)))
    return table.select(*columns).toArrow()


def _frame(rows: DataFrame | DriverRows) -> DataFrame:
    return rows.frame if isinstance(rows, DriverRows) else rows


def _row_groups(file: str, among: Among) -> Iterator[tuple[int, int]]:
    """Yield the number and the rows of each row group of a file that may have values in `among`."""
    metadata = pq.read_metadata(file)
    places = {name: metadata.schema.names.index(name) for name in among}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if all(_may_have(group.column(places[name]), among[name]) for name in among):
            yield number, group.num_rows


def _may_have(column: pq.ColumnChunkMetaData, values: Iterable[Any]) -> bool:
    known = column.statistics
    if known is None or not known.has_min_max:
        return True
    return any(known.min <= value <= known.max for value in values)


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    return column.cast(kind) if isinstance(column, pa.Array) else pa.array(column, kind)


def _schema(schema: StructType | str) -> StructType:
    return cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema


def _after(first: BatchKernel | None, kernel: BatchKernel) -> BatchKernel:
    if first is None:
        return kernel
    return lambda batches: kernel(first(batches))


def by_text(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield each different text in a column with its rows, for each batch."""
    for batch in batches:
        encoded = batch.column(column).dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        for number, text in enumerate(texts):
            if len(texts) == 1:
                yield text, batch
            else:
                chosen = encoded.indices.to_numpy(zero_copy_only=False) == number
                yield text, batch.filter(pa.array(chosen))


# --- tables as Parquet, written by tasks


_WRITTEN = "file string, rows bigint, high bigint, low bigint"
_WRITTEN_NAMES = [column.split()[0] for column in _WRITTEN.split(", ")]
_ROWS_WRITTEN_AT_ONCE, _BYTES_WRITTEN_AT_ONCE = 2**19, 2**26
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


_KINDS = {"bigint", "int", "double", "boolean", "string", "binary"}


def write_parquet(tables: Mapping[Path, Batches | pa.Table]) -> dict[Path, dict[str, int]]:
    """Write tables into folders (folder -> table) as Parquet, in one job; old ones are replaced.

    Rows of the driver and small tables need no job.  Return for each table the number of ``rows``,
    and the sums of both halves of their hashes (`core.draws.hash_rows`): ``high`` and ``low``.
    """
    listed: dict[Path, list[dict[str, Any]]] = {folder: [] for folder in tables}
    for folder in tables:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / _BESIDE).mkdir(parents=True)
    try:
        for one in _write(tables):
            listed[Path(one["file"]).parents[1]].append(one)
        for folder, table in tables.items():
            _publish(folder, listed[folder], _arrow_schema(table))
    finally:
        for folder in tables:
            shutil.rmtree(folder / _BESIDE, ignore_errors=True)
    counts = ("rows", "high", "low")
    return {f: {name: sum(one[name] for one in of) for name in counts} for f, of in listed.items()}


def _write(tables: Mapping[Path, Batches | pa.Table]) -> Iterator[dict[str, Any]]:
    """Write the files of all tables beside their places; yield a row :data:`_WRITTEN` for each."""
    in_tasks, plain = list[Batches](), list[Batches]()
    for folder, table in tables.items():
        write = _writer(_arrow_schema(table), folder / _BESIDE)
        if isinstance(table, Batches) and table.is_for_plain_tasks:
            plain.append(table.then(write, _WRITTEN))
        elif isinstance(table, Batches) and not table.is_small:
            in_tasks.append(table.then(write, _WRITTEN))
        else:
            here = table.made_here() if isinstance(table, Batches) else table.to_batches()
            for batch in write(here):
                yield from batch.to_pylist()
    if plain:
        yield from Batches.union(plain).made_by_plain_tasks().to_pylist()
    if in_tasks:
        yield from Batches.union(in_tasks).to_arrow().to_pylist()


def _publish(folder: Path, listed: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Move the files in `listed` (key ``file``) to a table's folder; mark the table complete."""
    if not listed:  # an empty table needs a file with its columns
        pq.write_table(schema.empty_table(), folder / _name(0), **_format(schema))
    for one in listed:
        Path(one["file"]).rename(folder / Path(one["file"]).name)
    (folder / "_SUCCESS").touch()


def _arrow_schema(table: Batches | pa.Table) -> pa.Schema:
    return table.schema if isinstance(table, pa.Table) else to_arrow_schema(table.schema)


def _writer(
    schema: pa.Schema, folder: Path
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the kernel that writes the rows of a partition to a file, and returns its path."""
    options = _format(schema)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()  # None on the driver
        path = folder / _name(task.partitionId() if task else 0)
        sums = np.zeros(3, dtype=np.int64)
        tables = _gathered(batches, schema)
        for first in tables:
            with _naming(path), pq.ParquetWriter(path, schema, **options) as out:
                for table in itertools.chain([first], tables):
                    out.write_table(table)
                    for batch in table.to_batches():
                        hashed = hash_rows(batch.columns).view(np.int64)
                        sums += [len(hashed), (hashed >> 32 & _HALF).sum(), (hashed & _HALF).sum()]
            columns = [pa.array([value]) for value in (str(path), *sums.tolist())]
            yield pa.RecordBatch.from_arrays(columns, names=_WRITTEN_NAMES)

    return run


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Return a context manager that adds the file's name to an OSError; pyarrow leaves it out."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= _ROWS_WRITTEN_AT_ONCE or size >= _BYTES_WRITTEN_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
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
        # rows with packed columns are long, and a reader has a page in memory
        "write_batch_size": 1 if any(map(pa.types.is_binary, schema.types)) else None,
    }
