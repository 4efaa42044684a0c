"""The state of a world as few rows of bytes: `schemas.PACKED`.

A round reads and writes all of it in one task.  As a row for each node and each membership it would
be converted number by number, twice, on its way between Spark and Python; as bytes it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark import schemas

__all__ = ["pack", "unpack", "unpacked"]

#: About how many bytes a part has: an array of the JVM has less than 2**31.
_PART = 2**25


def pack(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Tables by name as rows of `schemas.PACKED`: each part of one is an Arrow stream."""
    rows = [
        (name, number, _as_stream(part))
        for name, table in tables.items()
        for number, part in enumerate(_parts(table))
    ]
    wanted = to_arrow_schema(schemas.PACKED)
    columns = list(zip(*rows, strict=True)) or [()] * len(wanted)
    arrays = [pa.array(column, one.type) for column, one in zip(columns, wanted, strict=True)]
    return pa.Table.from_arrays(arrays, schema=wanted)


def unpack(packed: pa.Table) -> dict[str, pa.Table]:
    """The tables of :func:`pack`; its rows may come in any order."""
    parts: dict[str, list[tuple[int, pa.Table]]] = {}
    for row in packed.select(schemas.PACKED.names).to_pylist():
        part = pa.ipc.open_stream(row["data"]).read_all()
        parts.setdefault(row["name"], []).append((row["part"], part))
    return {
        name: pa.concat_tables([part for _, part in sorted(found, key=lambda one: one[0])])
        for name, found in parts.items()
    }


def unpacked(
    state: DataFrame,
    name: str,
    schema: StructType,
    called: Mapping[str, str] | None = None,
    rows_of: Callable[[pa.Table], pa.Table] | None = None,
) -> DataFrame:
    """Some columns of one of the packed tables, as rows; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    called : mapping of str to str, optional
        Column of `schema` -> its name in the packed table, where that is another.
    rows_of : callable, optional
        Makes the rows of parts of the table.
    """
    wanted = [(called or {}).get(column, column) for column in schema.names]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                table = unpack(pa.Table.from_batches([batch.slice(row, 1)]))[name]
                table = rows_of(table) if rows_of else table
                yield from table.select(wanted).rename_columns(schema.names).to_batches()

    return state.where(F.col("name") == name).mapInArrow(run, schema)


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts of consecutive rows; one without rows is one part."""
    count = max(1, -(-table.nbytes // _PART))
    length = max(1, -(-len(table) // count))
    for first in range(0, max(1, len(table)), length):
        yield table.slice(first, length)


def _as_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()
