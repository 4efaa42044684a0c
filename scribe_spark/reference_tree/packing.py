"""Columns of searches and keysets as bytes, for one cell of a table.

A number takes the two halves of 128 bits, whatever the bits of a key; everything is int64.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from scribe_spark.core.u128 import Numbers, from_halves, halves_of
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Branches, Climbs
from scribe_spark.reference_tree.tree import Subtrees

__all__ = ["pack", "pack_rings", "unpack", "unpack_rings"]

_Searches = TypeVar("_Searches", Climbs, Branches)

#: What a column is, by its name; a whole number unless it is here.
_NUMBERS = {"topmost", "own_first", "own_last", "unknown_first", "unknown_last", "first", "last"}
_SUBTREES = {"subtree"}
_RINGS = ("first", "last", "topmost", "depth", "node")


def _flat(name: str, column: Any) -> list[np.ndarray]:
    if isinstance(column, Subtrees):
        return [*_halves(column.first), *_halves(column.last), column.kind.astype(np.int64)]
    if name in _NUMBERS:
        return _halves(column)
    return [column.astype(np.int64)]


def _halves(column: Numbers) -> list[np.ndarray]:
    return [half.view(np.int64) for half in halves_of(column)]


def _read(name: str, columns: list[np.ndarray], bits: int) -> Any:
    """A column made of the first of `columns`, which are taken out."""

    def number() -> Numbers:
        hi, lo = columns.pop(0), columns.pop(0)
        return from_halves(hi, lo, bits)

    if name in _SUBTREES:
        return Subtrees(number(), number(), columns.pop(0).astype(np.int8))
    return number() if name in _NUMBERS else columns.pop(0)


def pack(searches: Climbs | Branches) -> bytes:
    """Searches as bytes."""
    columns = []
    for field in fields(searches):
        columns += _flat(field.name, getattr(searches, field.name))
    return np.stack(columns).tobytes()


def unpack(kind: type[_Searches], data: bytes, bits: int) -> _Searches:
    """The searches that :func:`pack` wrote."""
    names = [field.name for field in fields(kind)]
    width = sum(5 if name in _SUBTREES else 2 if name in _NUMBERS else 1 for name in names)
    columns = list(np.frombuffer(data, np.int64).reshape(width, -1))
    return kind(*[_read(name, columns, bits) for name in names])


def pack_rings(rings: Rings) -> bytes:
    """The keysets of a bucket: one ring, of which not all hosts are there."""
    columns = [c for name in _RINGS for c in _flat(name, getattr(rings, name))]
    return np.stack(columns).tobytes()


def unpack_rings(data: bytes, answers: tuple[Numbers, Numbers], bits: int) -> Rings:
    """Read what :func:`pack_rings` wrote, and add the keys that the bucket answers for."""
    columns = list(np.frombuffer(data, np.int64).reshape(8, -1))
    read = [_read(name, columns, bits) for name in _RINGS]
    beyond = len(read[-1]) - 1
    first, last, topmost, depth, node = read
    starts = np.array([0, beyond])
    return Rings(starts, starts[1:], first, last, topmost, depth, node, answers)
