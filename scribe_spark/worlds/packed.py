"""The state of a world as few rows of bytes: `schemas.PACKED`.

A round reads and writes all of it in one task.  As a row for each node and each membership it would
be converted number by number, twice, on its way between Spark and Python; as bytes it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark import schemas
from scribe_spark.engine import packing

__all__ = ["bytes_of", "columns_of", "pack", "unpack", "unpacked"]

#: About how many bytes a part has: an array of the JVM has less than 2**31.
_PART = 2**25

#: How many rows of a table of a bucket are in one of `bytes_of`.
_ROWS = 2**18


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


def unpack(packed: pa.Table) -> Mapping[str, pa.Table]:
    """The tables of :func:`pack`, each read when it is asked for; rows may come in any order."""
    return _Packed(packed)


class _Packed(Mapping[str, pa.Table]):
    """Tables that are read, without being kept, when they are asked for."""

    def __init__(self, packed: pa.Table) -> None:
        self._data, self._rows = packed.column("data"), dict[str, list[int]]()
        name, part = (packed.column(one).to_pylist() for one in ("name", "part"))
        for row in sorted(range(len(part)), key=part.__getitem__):
            self._rows.setdefault(name[row], []).append(row)

    def __getitem__(self, name: str) -> pa.Table:
        streams = (pa.ipc.open_stream(self._data[row].as_buffer()) for row in self._rows[name])
        return pa.concat_tables([stream.read_all() for stream in streams])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def bytes_of(columns: packing.Columns) -> pa.Table:
    """Return a table of a bucket as one that can be packed: ``bytes``, a row for many of its."""
    parts = (
        {name: column[first : first + _ROWS] for name, column in columns.items()}
        for first in range(0, max(1, packing.count_rows(columns)), _ROWS)
    )
    return pa.table({"bytes": [b"".join(packing.pack(part)[0]) for part in parts]})


def columns_of(table: pa.Table) -> dict[str, np.ndarray]:
    """Return the columns that :func:`bytes_of` made a table of; they can be written to."""
    parts = (packing.unpack(part.as_buffer()) for part in table.column("bytes"))
    columns = packing.concatenate(parts)
    return {name: one if one.flags.writeable else one.copy() for name, one in columns.items()}


def unpacked(
    state: DataFrame,
    name: str,
    schema: StructType,
    rows_of: Callable[[pa.Table], pa.Table] | None = None,
) -> DataFrame:
    """Some columns of one of the packed tables, as rows; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    rows_of : callable, optional
        Makes the rows of parts of the table.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                table = unpack(pa.Table.from_batches([batch.slice(row, 1)]))[name]
                table = rows_of(table) if rows_of else table
                yield from table.select(schema.names).to_batches()

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
