"""The rows of buckets (:data:`ROWS`): packed messages and tables, as bytes or as mapped files.

References
----------
docs/tables.md, "state".
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.engine.packing import Columns, Packed, count_rows, pack
from scribe_spark.schemas import ROWS

_ARROW = to_arrow_schema(ROWS)

#: Most bytes of one row: Parquet's writer copies rows several times in the JVM's heap, of which
#: each core has half a GiB.
_PART = 2**23


class Row:
    """One table, or messages of one kind, read from :data:`ROWS`; `read` returns the columns."""

    def __init__(self, parts: list[pa.RecordBatch]) -> None:
        self._parts = parts
        named = {name: parts[0].column(name)[0].as_py() for name in _NAMED}
        self.bucket, self.sender = named["bucket"], named["sender"]
        self.table, self.name, self._file = named["table"], named["name"], named["file"]

    @functools.cached_property
    def packed(self) -> Packed:
        """The packed columns; each is decoded when it is read."""
        if self._file is not None:
            file = self._file.splitlines()[0]
            return Packed(np.memmap(file, np.uint8, "r"), file)
        bytes_of = [part.column("data")[0].as_buffer() for part in self._parts]
        return Packed(bytes_of[0] if len(bytes_of) == 1 else b"".join(bytes_of))

    def read(self) -> dict[str, np.ndarray]:
        return dict(self.packed)

    def with_bytes(self) -> Iterator[pa.RecordBatch]:
        """Yield the row (or its parts) with the bytes of its columns, read from its file if any."""
        if self._file is None:
            yield from self.as_it_was()
        else:
            yield from pack_rows(self.bucket, self.sender, self.table, self.name, self.packed)

    def as_it_was(self) -> Iterator[pa.RecordBatch]:
        """Yield the row, or its parts; columns that were read from Parquet are nullable again."""
        for part in self._parts:
            yield pa.RecordBatch.from_arrays(part.columns, schema=_ARROW)


_NAMED = ("bucket", "sender", "table", "name", "file")


def read_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the tables and messages in the batches of a partition; parts are joined."""
    waiting: dict[tuple[Any, ...], dict[int, pa.RecordBatch]] = {}
    for batch in batches:
        for at in range(batch.num_rows):
            row = batch.slice(at, 1)
            part, parts = (row.column(name)[0].as_py() for name in ("part", "parts"))
            if parts == 1:
                yield Row([row])
                continue
            key = tuple(row.column(name)[0].as_py() for name in _NAMED)
            found = waiting.setdefault(key, {})
            found[part] = row
            if len(found) == parts:
                yield Row([found[part] for part in range(parts)])
                del waiting[key]
    if waiting:
        raise ValueError(f"parts of rows are missing: {sorted(waiting)}")


def pack_rows(
    bucket: int,
    sender: int,
    table: bool,
    name: str,
    columns: Columns,
    folder: str | None = None,
    before: Packed | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a table or messages as a row of :data:`ROWS`, or as several parts if large.

    With a `folder`, a table becomes a file there; columns that are as in `before`, the previous
    version of the table, stay in their files.
    """
    (pieces, files), rows = pack(columns, before), count_rows(columns)
    if folder is not None and table:
        called = name.replace("/", " ")  # the prefix of a protocol must not become a folder
        own = str(Path(folder, f"{called}-{bucket}-{uuid.uuid4().hex}"))
        with open(own, "wb") as out:
            for piece in pieces:
                out.write(piece)
        file = "\n".join([own, *files])
        yield _batch(bucket, sender, table, name, rows, file, None, 0, 1)
        return
    data = memoryview(b"".join(pieces))
    parts = max(1, -(-len(data) // _PART))
    for part in range(parts):
        some = data[part * _PART : (part + 1) * _PART]
        yield _batch(bucket, sender, table, name, 0 if part else rows, None, some, part, parts)


def _batch(*values: Any) -> pa.RecordBatch:
    """Return one row of :data:`ROWS`; the bytes are not copied."""
    arrays = [
        _bytes(value) if isinstance(value, memoryview) else pa.array([value], one.type)
        for value, one in zip(values, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _bytes(data: memoryview) -> pa.Array:
    ends = pa.py_buffer(np.array([0, len(data)], dtype="<i4"))
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)])
