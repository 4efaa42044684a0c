"""Keys that are one number made of several, for example of a group, a node and its child.

One int64 sorts in a third of the time that several columns take.  A key is the number of its row
among all possible rows, ``(a * size_b + b) * size_c + c``, at most `MOST_KEYS`, so keys sort as
their parts do.  Keys of a group and a node always fit; for keys with more nodes, too large inputs
are refused (:mod:`.key_limits`), or kernels use ranks (:func:`common_keys`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scribe_spark.core.arrays import numbered, order_of_keys, whole_numbers
from scribe_spark.core.key_limits import MOST_KEYS


def key_of(numbers: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return keys made of columns of numbers; all but the first column are below `size`."""
    return mixed_key(numbers, [size] * (len(numbers) - 1))


def mixed_key(numbers: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """Return keys made of columns of numbers; each column but the first is below its own size."""
    key = np.asarray(numbers[0], dtype=np.int64)  # a key needs 64 bits
    for number, size in zip(numbers[1:], sizes, strict=True):
        key = key * size + number
    return key


def key_parts(key: np.ndarray, parts: Sequence[str], size: int) -> dict[str, np.ndarray]:
    """Undo :func:`key_of`: return the columns of numbers by the names of the `parts`."""
    numbers = []
    for _ in parts[1:]:
        key, last = np.divmod(key, size)
        numbers.append(last)
    return dict(zip(parts, [key, *numbers[::-1]], strict=True))


def common_keys(sizes: Sequence[int], *tables: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a key for each row of each table, or the row's rank if keys exceed int64.

    A table is its columns, the most significant first.  Keys and ranks compare as the rows do, also
    between tables.
    """
    if math.prod(sizes) <= MOST_KEYS:
        return [mixed_key(columns, sizes[1:]) for columns in tables]
    ranks = numbered(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))
    return np.split(ranks, np.cumsum([len(columns[0]) for columns in tables])[:-1])


def order_of(*columns: np.ndarray) -> np.ndarray:
    """Return the stable order of rows by columns, the most significant first, as indices: int64."""
    if not len(columns[0]):
        return whole_numbers()
    sizes = [int(column.max()) + 1 for column in columns]
    if min(int(column.min()) for column in columns) < 0 or math.prod(sizes) > MOST_KEYS:
        return np.lexsort(columns[::-1])
    first = columns[0].astype(np.int64, copy=False)
    return order_of_keys(mixed_key([first, *columns[1:]], sizes[1:]), math.prod(sizes) - 1)
