"""Named arrays as bytes: how tables of a bucket and messages between buckets travel.

A row for each message would be converted number by number on its way between Spark and Python.
Packed, a message costs about ten bytes: numbers take as few bytes as the largest of the column
needs, and a column in which all are equal takes none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["Columns", "concatenate", "count_rows", "pack", "take", "unpack"]

#: Arrays by name, all with the same number of rows.
Columns = Mapping[str, np.ndarray]

_ALIGNMENT = 64
_HEADER = 8  # bytes that say how long the description is
_SIZES = (np.int8, np.int16, np.int32)


def pack(columns: Columns) -> list[memoryview]:
    """Return the bytes of some columns, in parts to be written one after the other.

    Whole numbers come back as int64, whatever size they had; other types as they are.
    """
    described: list[dict[str, Any]] = []
    parts: list[np.ndarray] = []
    end = 0
    for name, column in columns.items():
        stored = _smallest(column)
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
    return out


def unpack(data: Any) -> dict[str, np.ndarray]:
    """Return the columns of :func:`pack`'s bytes (any buffer); nothing is copied where it need
    not be, and then the arrays cannot be written to."""
    buffer = np.frombuffer(data, np.uint8)
    length = int.from_bytes(buffer[:_HEADER].tobytes(), "little")
    described = json.loads(buffer[_HEADER : _HEADER + length].tobytes())
    begin = -(-(_HEADER + length) // _ALIGNMENT) * _ALIGNMENT
    columns = {}
    for one in described:
        kind, shape = np.dtype(one["type"]), tuple(one["shape"])
        row = int(np.prod(shape[1:], dtype=np.int64))
        first = begin + one["at"]
        stored = buffer[first : first + one["stored"] * row * kind.itemsize].view(kind)
        stored = stored.reshape(one["stored"], *shape[1:])
        if one["stored"] != shape[0]:
            stored = np.broadcast_to(stored, shape)
        columns[one["name"]] = stored.astype(np.int64, copy=False) if one["wide"] else stored
    return columns


def _smallest(column: np.ndarray) -> np.ndarray:
    """The same numbers in the smallest type that holds them; one row where all rows are equal."""
    if not column.size:
        return column
    if column.dtype != np.int64:
        code = column.ndim == 1 and column.dtype in (np.bool_, np.int8)
        return column[:1] if code and bool((column == column[0]).all()) else column
    least, most = int(column.min()), int(column.max())
    if least == most:
        column = column[:1]
    for kind in _SIZES:
        info = np.iinfo(kind)
        if info.min <= least and most <= info.max:
            return column.astype(kind)
    return column


def count_rows(columns: Columns) -> int:
    """Return how many rows columns have."""
    return len(next(iter(columns.values()))) if columns else 0


def take(columns: Columns, index: np.ndarray) -> dict[str, np.ndarray]:
    """Return some of the rows."""
    return {name: column[index] for name, column in columns.items()}


def concatenate(parts: Iterable[Columns]) -> dict[str, np.ndarray]:
    """Return the rows of several, one after the other; of columns with two dimensions the
    narrower ones are filled up with -1."""
    first, *others = parts
    if not others:
        return dict(first)
    return {name: _joined([part[name] for part in (first, *others)]) for name in first}


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    if columns[0].ndim == 2:
        width = max(column.shape[1] for column in columns)
        columns = [
            np.pad(column, ((0, 0), (0, width - column.shape[1])), constant_values=-1)
            for column in columns
        ]
    return np.concatenate(columns)
