"""Reading of a user's table that only Spark can reach, by the rules of :mod:`.inputs`.

Spark reads the lines of a text, or Arrow batches of a Parquet table; cells become numbers by the
same functions as in a local table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, DoubleType, LongType, StringType, StructField, StructType

from scribe_spark.core.cells import (
    KINDS,
    Header,
    converted,
    header_of,
    read_cells,
    without_comments,
)
from scribe_spark.core.errors import InputError, shown
from scribe_spark.core.inputs import (
    MOST_ROWS,
    Kind,
    check_columns,
    check_types,
    last_cause,
    read_text,
    typed,
)
from scribe_spark.runtime.sessions import SPARK_ERRORS

#: The greatest file that Spark reads as a whole, to find the types that Arrow noted in it.
_SMALL = 2**26

_TYPES: dict[Kind, DataType] = {
    "int": LongType(),
    "optional int": LongType(),
    "float": DoubleType(),
    "str": StringType(),
    "quantity": StringType(),
    "optional quantity": StringType(),
    "name": StringType(),
}

_Cells = Callable[[pa.RecordBatch], pa.Table]


def read_remote(
    spark: SparkSession, path: str, field: str, columns: Mapping[str, Kind]
) -> DataFrame:
    """Return columns of a table that only Spark can reach; NULL where a cell is no such number."""
    with refuse_unreadable(field, path):
        found = _find(spark, path, field, columns, ())
        kinds = {name: columns[name] for name in found.names}
        _refuse_bad_cells(found, kinds, field, path)
        schema = StructType([StructField(name, _TYPES[kind]) for name, kind in kinds.items()])
        return found.rows.mapInArrow(_converting(found.cells, kinds), schema)


def collect_remote(
    spark: SparkSession,
    path: str,
    field: str,
    columns: Mapping[str, Kind],
    optional: Collection[str] = (),
    most: int = MOST_ROWS,
) -> pd.DataFrame:
    """Return a table that only Spark can reach on the driver; refuse more than `most` rows."""
    with refuse_unreadable(field, path):
        found = _find(spark, path, field, columns, optional)
        rows = found.rows.limit(most + 1).toArrow()
    if len(rows) > most:
        raise InputError(field, path, f"has more than {most:,} rows; give fewer")
    if found.header is not None:
        try:
            rows = read_text(_joined(found.header, rows.column(0)), field, path, columns, optional)
        except ValueError as error:
            raise InputError(field, path, f"cannot be read: {last_cause(error)}") from None
    return typed(rows, field, path, columns)


@dataclass(frozen=True)
class _RowsFound:
    """A user's table that Spark has opened: its wanted columns; of a text, lines without header."""

    rows: DataFrame
    names: list[str]
    header: Header | None = None

    @property
    def cells(self) -> _Cells:
        header, names = self.header, self.names
        if header is None:
            return lambda batch: pa.Table.from_batches([batch])
        return lambda batch: read_cells(_joined(header, batch.column(0)), header, names)


def _find(
    spark: SparkSession,
    path: str,
    field: str,
    columns: Mapping[str, Kind],
    optional: Collection[str],
) -> _RowsFound:
    if path.rstrip("/").lower().endswith(_TEXTS):
        lines = spark.read.text(path)
        first = lines.where(~F.col("value").rlike(r"^\s*(#.*)?$")).take(1)
        if not first:
            raise InputError(field, path, "cannot be read: it is empty")
        line = first[0]["value"]
        header = header_of(line.removeprefix("\ufeff").encode(), columns)
        check_columns(header.names, field, path, columns, optional)
        names = [name for name in columns if name in header.names]
        return _RowsFound(lines.where(F.col("value") != line), names, header)
    frame = spark.read.parquet(path)
    check_columns(frame.columns, field, path, columns, optional)
    names = [name for name in columns if name in frame.columns]
    rows = frame.select(*(F.col(f"`{name}`") for name in names))
    check_types({each.name: _arrow_type(each) for each in rows.schema}, columns, field, path)
    check_types(_noted_types(spark, rows), columns, field, path)
    return _RowsFound(rows, names)


_TEXTS = tuple(
    f".{text}{packed}"
    for text in ("csv", "tsv", "txt")
    for packed in ("", ".gz", ".bz2", ".zst", ".lz4", ".deflate")
)


def _joined(header: Header, lines: Iterable[pa.Scalar]) -> bytes:
    rows = [header.line, *(line.as_py() for line in lines)]
    return without_comments("\n".join(rows).encode())


def _arrow_type(field: StructField) -> pa.DataType:
    """Return the Arrow type of a column; bytes, which no column may have, if Arrow has none."""
    try:
        return to_arrow_type(field.dataType)
    except PySparkException:
        return pa.binary()


def _noted_types(spark: SparkSession, rows: DataFrame) -> dict[str, pa.DataType]:
    """Return the types that Arrow noted in a small Parquet file, by column, such as durations."""
    files = spark.read.format("binaryFile").load([*rows.inputFiles()])
    one = files.where(F.col("length") <= _SMALL).orderBy("length", "path").limit(1)
    names = rows.columns

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for content in batch.column(0):
                schema = pq.read_schema(pa.BufferReader(content.as_py()))
                kept = pa.schema([field for field in schema if field.name in names])
                yield pa.record_batch({"schema": [kept.serialize().to_pybytes()]})

    found = one.select("content").mapInArrow(read, "schema binary").collect()
    return {f.name: f.type for row in found for f in pa.ipc.read_schema(pa.py_buffer(row[0]))}


def _converting(
    cells: _Cells, kinds: Mapping[str, Kind]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def convert(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read = cells(batch)
            columns = {name: converted(read.column(name), kind) for name, kind in kinds.items()}
            yield pa.record_batch(columns)

    return convert


def _refuse_bad_cells(found: _RowsFound, kinds: Mapping[str, Kind], field: str, path: str) -> None:
    """Refuse cells that are no numbers in columns with optional cells."""
    names, cells = [name for name, kind in kinds.items() if kind == "optional int"], found.cells

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read = cells(batch)
            for name in names:
                column = read.column(name)
                bad = pc.and_(pc.is_valid(column), converted(column, "optional int").is_null())
                for cell in column.filter(bad).slice(0, 1):
                    yield pa.record_batch({"name": [name], "cell": [str(cell)]})

    if names:
        for row in found.rows.mapInArrow(search, "name string, cell string").take(1):
            told = f"column {shown(row['name'])} must be {KINDS['optional int'][0]}: "
            raise InputError(field, path, f"{told}{row['name']}={shown(row['cell'])}")


@contextmanager
def refuse_unreadable(field: str, path: str) -> Iterator[None]:
    """Return a context manager that turns Spark's error about a table into one line."""
    try:
        yield
    except SPARK_ERRORS as error:
        if "cancelled" in str(error):  # by Ctrl-C: the table may be good
            raise
        raise InputError(field, path, f"cannot be read by Spark: {last_cause(error)}") from None
