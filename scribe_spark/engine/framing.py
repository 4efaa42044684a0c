"""Encoding of several named tables, or kinds of messages, as one sequence of bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scribe_spark.engine.packing import Columns, Packed, pack

_ALIGNMENT, _HEADER = 64, 8


def to_frame(named: Sequence[tuple[str, Columns]]) -> list[memoryview]:
    """Encode named columns as bytes; the result is parts to be sent one after the other."""
    packed = [pack(columns)[0] for _, columns in named]
    sizes = [sum(len(part) for part in parts) for parts in packed]
    names = [name for name, _ in named]
    text = json.dumps([names, sizes]).encode()
    head = len(text).to_bytes(_HEADER, "little") + text
    padded = head.ljust(-(-len(head) // _ALIGNMENT) * _ALIGNMENT, b"\0")
    return [memoryview(padded), *(part for parts in packed for part in parts)]


def of_frame(data: Any) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Decode the bytes of :func:`to_frame` (any buffer); yield names and columns."""
    data = memoryview(data)
    length = int.from_bytes(data[:_HEADER], "little")
    names, sizes = json.loads(bytes(data[_HEADER : _HEADER + length]))
    at = -(-(_HEADER + length) // _ALIGNMENT) * _ALIGNMENT
    for name, size in zip(names, sizes, strict=True):
        yield name, dict(Packed(data[at : at + size]))
        at += size
