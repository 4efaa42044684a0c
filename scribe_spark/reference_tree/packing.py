"""Conversion of searches and keysets to named int64 arrays, to send and store them, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from scribe_spark.core.u128 import Numbers, from_halves, halves_of
from scribe_spark.engine import Columns
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Branches, Climbs
from scribe_spark.reference_tree.tree import Subtrees

_Searches = TypeVar("_Searches", Climbs, Branches)

#: The names of columns that are keys, and of columns that are subtrees; all others are whole
#: numbers.
_NUMBERS = {"topmost", "own_first", "own_last", "unknown_first", "unknown_last", "first", "last"}
_SUBTREES = {"subtree"}
_RINGS = ("first", "last", "topmost", "depth", "node")


def _flat(name: str, column: Any) -> dict[str, np.ndarray]:
    if name in _SUBTREES:
        ends = _halves(f"{name}_first", column.first) | _halves(f"{name}_last", column.last)
        return ends | {f"{name}_kind": column.kind.astype(np.int64)}
    return _halves(name, column) if name in _NUMBERS else {name: column.astype(np.int64)}


def _halves(name: str, column: Numbers) -> dict[str, np.ndarray]:
    hi, lo = (half.view(np.int64) for half in halves_of(column))
    return {f"{name}_hi": hi, f"{name}_lo": lo}


def _read(name: str, columns: Columns, bits: int) -> Any:
    def number(of: str) -> Numbers:
        return from_halves(columns[f"{of}_hi"], columns[f"{of}_lo"], bits)

    if name in _SUBTREES:
        kind = columns[f"{name}_kind"].astype(np.int8)
        return Subtrees(number(f"{name}_first"), number(f"{name}_last"), kind)
    return number(name) if name in _NUMBERS else columns[name]


def to_columns(searches: Climbs | Branches) -> dict[str, np.ndarray]:
    """Return searches as named arrays."""
    columns: dict[str, np.ndarray] = {}
    for field in fields(searches):
        columns |= _flat(field.name, getattr(searches, field.name))
    return columns


def from_columns(kind: type[_Searches], columns: Columns, bits: int) -> _Searches:
    """Return the searches from the arrays of :func:`to_columns`."""
    return kind(*[_read(field.name, columns, bits) for field in fields(kind)])


def to_keysets(rings: Rings) -> dict[str, np.ndarray]:
    """Return the keysets of a bucket as named arrays; they are a part of one ring."""
    columns: dict[str, np.ndarray] = {}
    for name in _RINGS:
        columns |= _flat(name, getattr(rings, name))
    return columns


def keysets_of_columns(columns: Columns, answers: tuple[Numbers, Numbers], bits: int) -> Rings:
    """Return the keysets from the arrays of :func:`to_keysets`.

    `answers` are the first and the last key of the bucket.
    """
    first, last, topmost, depth, node = (_read(name, columns, bits) for name in _RINGS)
    starts = np.array([0, len(node) - 1])
    return Rings(starts, starts[1:], first, last, topmost, depth, node, answers)
