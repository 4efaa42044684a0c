"""Packing of named arrays into bytes, and rows of packed arrays: tables of buckets and messages.

Without packing, Spark would convert each message number by number on its way to Python and back.  A
packed message takes about ten bytes: a column uses the smallest integer type that holds its values,
and a column whose values are all equal takes one row.

References
----------
docs/tables.md, "state".
"""

from __future__ import annotations

import functools
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.arrays import joined
from scribe_spark.core.errors import InputError
from scribe_spark.schemas import ROWS

#: Arrays by name, all with the same number of rows.
Columns = Mapping[str, np.ndarray]

_ALIGNMENT = 64
_HEADER = 8  # bytes of the integer with the length of the description
_SIZES = (np.int8, np.int16, np.int32)

#: The kinds of numpy's types that are packed.
_KINDS = "iufbU"

#: A column with fewer bytes is always written again; a larger unchanged one stays in its file.
_WORTH_KEEPING = 2**16
_AT_ONCE = 2**16  # rows that are compared in one step


class Packed(Columns):
    """Columns in the bytes of :func:`pack`; :func:`pack` can refer to those in a `file`."""

    def __init__(self, data: Any, file: str | None = None) -> None:
        self._data, self._file = np.frombuffer(data, np.uint8), file
        length = int.from_bytes(self._data[:_HEADER].tobytes(), "little")
        described = json.loads(self._data[_HEADER : _HEADER + length].tobytes())
        begin = -(-(_HEADER + length) // _ALIGNMENT) * _ALIGNMENT
        self._described: dict[str, dict[str, Any]] = {}
        for one in described:
            if one.setdefault("file", None) is None:  # the bytes follow the description
                one["at"] += begin
            self._described[one["name"]] = one

    def __iter__(self) -> Iterator[str]:
        return iter(self._described)

    def __len__(self) -> int:
        return len(self._described)

    def __contains__(self, name: object) -> bool:
        return name in self._described

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a column; it is read-only unless decoding had to copy it."""
        stored = self._stored(name)
        return stored.astype(np.int64, copy=False) if self._described[name]["wide"] else stored

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return next(iter(self._described.values()))["shape"][0] if self._described else 0

    def _stored(self, name: str) -> np.ndarray:
        one, data = self._described[name], self._data
        if one["file"] is not None:
            data = np.frombuffer(np.memmap(one["file"], np.uint8, "r"), np.uint8)
        shape = tuple(one["shape"])
        stored = data[one["at"] : one["at"] + _size(one)].view(np.dtype(one["type"]))
        stored = stored.reshape(one["stored"], *shape[1:])
        return np.broadcast_to(stored, shape) if one["stored"] != shape[0] else stored

    def keeping(self, name: str, columns: Columns) -> dict[str, Any] | None:
        """Describe a column that is as in this file, for :func:`pack`; None if it has changed."""
        if self._file is None or name not in self._described:
            return None
        one = self._described[name]
        if _size(one) < _WORTH_KEEPING or not self._is_same(name, columns):
            return None
        return one | {"file": one["file"] or self._file}

    def _is_same(self, name: str, columns: Columns) -> bool:
        if isinstance(columns, Overlaid) and columns.base is self and name not in columns.changed:
            return True
        one, column = self._described[name], columns[name]
        kind = np.dtype(np.int64 if one["wide"] else one["type"])
        if column.dtype != kind or list(column.shape) != one["shape"]:
            return False
        stored = self._stored(name)
        return all(
            np.array_equal(stored[first : first + _AT_ONCE], column[first : first + _AT_ONCE])
            for first in range(0, len(column), _AT_ONCE)
        )


def _size(described: Mapping[str, Any]) -> int:
    rows = described["stored"] * math.prod(described["shape"][1:])
    return rows * np.dtype(described["type"]).itemsize


class Overlaid(Columns):
    """The columns of a :class:`Packed` with some columns replaced; the others stay packed."""

    def __init__(self, base: Packed, changed: Columns) -> None:
        self.base, self.changed = base, changed

    def __iter__(self) -> Iterator[str]:
        return iter(self.base)

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.changed[name] if name in self.changed else self.base[name]


class Lent(Columns):
    """Columns that are lent to a kernel: writable (copied where needed) or read-only."""

    def __init__(self, columns: Columns, writes: bool) -> None:
        self._columns, self._writes = columns, writes

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._columns[name]
        if self._writes != array.flags.writeable:
            array = array.copy() if self._writes else array.view()
            array.flags.writeable = self._writes
        return array


def overlay(base: Columns, changed: Columns) -> Columns:
    """Return the columns of `base`, but those in `changed` replaced or added."""
    if isinstance(base, Packed):
        return Overlaid(base, changed)
    if isinstance(base, Overlaid):
        return Overlaid(base.base, {**base.changed, **changed})
    return {**base, **changed}


def pack(columns: Columns, before: Packed | None = None) -> tuple[list[memoryview], list[str]]:
    """Return columns as bytes to write, in pieces, and the files that hold the other columns.

    Integer columns of type int64 are stored in a smaller type and unpacked as int64.  Columns that
    are as in `before`, the previous version of the table in a file, stay in that file.
    """
    described: list[dict[str, Any]] = []
    parts: list[np.ndarray] = []
    end = 0
    for name in columns:
        if before is not None and (kept := before.keeping(name, columns)):
            described.append(kept)
            continue
        column = columns[name]
        _refuse_objects(name, column)
        stored = smallest(column)
        described.append(
            {
                "name": name,
                "type": stored.dtype.str,
                "shape": list(column.shape),
                "stored": len(stored),
                "at": end,
                "wide": column.dtype == np.int64,
            }
        )
        parts.append(stored)
        end += -(-stored.nbytes // _ALIGNMENT) * _ALIGNMENT
    text = json.dumps(described).encode()
    begin = -(-(_HEADER + len(text)) // _ALIGNMENT) * _ALIGNMENT
    head = len(text).to_bytes(_HEADER, "little") + text
    out = [memoryview(head.ljust(begin, b"\0"))]
    for stored in parts:
        data = np.ascontiguousarray(stored).reshape(-1).view(np.uint8).data
        out.append(data)
        if len(data) % _ALIGNMENT:
            out.append(memoryview(bytes(_ALIGNMENT - len(data) % _ALIGNMENT)))
    return out, sorted({one["file"] for one in described if "file" in one})


def _refuse_objects(name: str, column: Any) -> None:
    """Refuse a column of an application or a system whose values are Python objects."""
    if not isinstance(column, np.ndarray):
        given = f"a {type(column).__name__}"
    elif column.dtype.kind not in _KINDS:
        given = f"an array of type {column.dtype}"
    else:
        return
    remedy = "give a numpy array of whole numbers, floats, booleans or strings (astype(str))"
    raise InputError(f"column {name}", given, remedy)


def smallest(column: np.ndarray) -> np.ndarray:
    """Return a column in the smallest type that holds it; a single row stands for equal rows."""
    if not column.size:
        return column
    if column.dtype != np.int64:
        return column[:1] if _is_constant(column) else column
    least, most = int(column.min()), int(column.max())
    if least == most:
        column = column[:1]
    for kind in _SIZES:
        info = np.iinfo(kind)
        if info.min <= least and most <= info.max:
            return column.astype(kind)
    return column


def _is_constant(column: np.ndarray) -> bool:
    """Return True if all rows of a column are equal; the last row is compared first."""
    first = column[:1]
    return bool((column[-1:] == first).all()) and all(
        bool((column[start : start + _AT_ONCE] == first).all())
        for start in range(0, len(column), _AT_ONCE)
    )


def count_rows(columns: Columns) -> int:
    """Return the number of rows of a table of columns."""
    if isinstance(columns, Overlaid):
        return count_rows(columns.changed or columns.base)
    if isinstance(columns, Packed):
        return columns.rows
    return len(next(iter(columns.values()))) if columns else 0


def take(columns: Columns, index: np.ndarray | slice) -> dict[str, np.ndarray]:
    """Return the rows of columns at `index`: a slice, numbers of rows, or a mask."""
    if not isinstance(index, slice) and index.dtype == bool:
        index = np.flatnonzero(index)
    return {name: _taken(column, index) for name, column in columns.items()}


def _taken(column: np.ndarray, index: np.ndarray | slice) -> np.ndarray:
    """Return the rows at `index`; `take` is fast, but would first copy a strided column."""
    if isinstance(index, slice) or not column.flags.c_contiguous:
        return column[index]
    return column.take(index, axis=0)


def concatenate(parts: Iterable[Columns]) -> dict[str, np.ndarray]:
    """Return the rows of several tables as one; narrower rows of a column are padded with -1."""
    first, *others = parts
    if not others:
        return dict(first)
    return {name: joined([part[name] for part in (first, *others)]) for name in first}


# --- several named tables, or kinds of messages, as one sequence of bytes


def to_frame(named: Sequence[tuple[str, Columns]]) -> list[memoryview]:
    """Return named tables of columns as bytes, in pieces to be sent one after the other."""
    packed = [pack(columns)[0] for _, columns in named]
    sizes = [sum(len(part) for part in parts) for parts in packed]
    names = [name for name, _ in named]
    text = json.dumps([names, sizes]).encode()
    head = len(text).to_bytes(_HEADER, "little") + text
    padded = head.ljust(-(-len(head) // _ALIGNMENT) * _ALIGNMENT, b"\0")
    return [memoryview(padded), *(part for parts in packed for part in parts)]


def of_frame(data: Any) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield names and columns from the bytes of :func:`to_frame` (any buffer)."""
    data = memoryview(data)
    length = int.from_bytes(data[:_HEADER], "little")
    names, sizes = json.loads(bytes(data[_HEADER : _HEADER + length]))
    at = -(-(_HEADER + length) // _ALIGNMENT) * _ALIGNMENT
    for name, size in zip(names, sizes, strict=True):
        yield name, dict(Packed(data[at : at + size]))
        at += size


#: The schema that :data:`ROWS` has in Arrow.
ARROW_ROWS = to_arrow_schema(ROWS)

#: Most bytes of one row: Parquet's writer copies rows several times in the JVM's heap, of which
#: each core has half a GiB.
_PART = 2**23


class Row:
    """One table, or messages of one kind, in a row of :data:`ROWS`; `read` returns the columns."""

    def __init__(self, parts: list[pa.RecordBatch]) -> None:
        self._parts = parts
        named = {name: parts[0].column(name)[0].as_py() for name in _NAMED}
        self.bucket, self.sender = named["bucket"], named["sender"]
        self.table, self.name, self._file = named["table"], named["name"], named["file"]

    @functools.cached_property
    def packed(self) -> Packed:
        """The packed columns; each is decoded when it is read."""
        if self._file is not None:
            return packed_in(self._file)
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
        """Yield the row, or its parts, with the schema that :data:`ROWS` has in Arrow."""
        for part in self._parts:
            yield pa.RecordBatch.from_arrays(part.columns, schema=ARROW_ROWS)


def packed_in(files: str) -> Packed:
    """Return the packed columns in a file, which is the first line of a row's column ``file``."""
    file = files.splitlines()[0]
    return Packed(np.memmap(file, np.uint8, "r"), file)


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
    """Yield a table, or messages of a kind, as rows of :data:`ROWS`, several if it is large.

    With a `folder`, a table becomes a file there; columns that are as in `before`, the table's
    previous version, stay in their files.
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
    """Return a batch with one row of :data:`ROWS`; its bytes are not copied."""
    arrays = [
        _bytes(value) if isinstance(value, memoryview) else pa.array([value], one.type)
        for value, one in zip(values, ARROW_ROWS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_ROWS)


def _bytes(data: memoryview) -> pa.Array:
    ends = pa.py_buffer(np.array([0, len(data)], dtype="<i4"))
    return pa.BinaryArray.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)])
