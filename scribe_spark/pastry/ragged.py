"""Lists of different lengths in flat arrays: the values of all rows, and where each row begins.

Row i of a ragged array with ``offsets`` (n + 1 positions, ascending, the first is 0) is
``values[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = [
    "distinct",
    "kept_offsets",
    "list_array",
    "offsets_of",
    "row_max",
    "row_numbers",
    "row_values",
    "struct_lists",
]


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Offsets (n + 1,) of rows of such lengths (n,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def distinct(keys: np.ndarray) -> np.ndarray:
    """The different values of `keys`, ascending; of whole numbers in less time than `np.unique`."""
    keys = np.sort(keys)
    return keys[np.r_[True, keys[1:] != keys[:-1]]] if len(keys) else keys


def row_numbers(offsets: np.ndarray) -> np.ndarray:
    """The row of each value."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def kept_offsets(offsets: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Offsets of what is left of the rows when only the values marked in `keep` are kept."""
    return offsets_of(keep)[offsets]


def row_max(offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The greatest value of each row, 0 where that is less or the row is empty: int64, (n,)."""
    greatest = np.zeros(len(offsets) - 1, dtype=np.int64)
    filled = np.diff(offsets) > 0
    if len(values):
        greatest[filled] = np.maximum.reduceat(values, offsets[:-1][filled])
    return np.maximum(greatest, 0)


def row_values(offsets: np.ndarray, rows: slice) -> tuple[np.ndarray, slice]:
    """Offsets of a slice of the rows alone, and where their values are."""
    start, stop, _ = rows.indices(len(offsets) - 1)
    own = offsets[start : stop + 1]
    return own - own[0], slice(own[0], own[-1])


def list_array(offsets: np.ndarray, values: np.ndarray | pa.Array) -> pa.ListArray:
    """A ragged array as Arrow lists."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def struct_lists(offsets: np.ndarray, fields: dict[str, np.ndarray]) -> pa.ListArray:
    """Ragged arrays of the same offsets as Arrow lists of structs."""
    columns = [pa.array(values) for values in fields.values()]
    return list_array(offsets, pa.StructArray.from_arrays(columns, names=list(fields)))
