"""Lists of nodes that requests carry through a tree: those to ask next, and those that refused.

A request that a node refuses goes on to the first node of its list.  The node puts some of its
neighbours in front of the list, and others behind it: a search in depth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scribe_spark.core.arrays import NONE, Rows, expand, find_sorted, offsets_of, row_numbers


@dataclass(frozen=True)
class Lists(Rows):
    """Lists of nodes, one list for each request, as a ragged array."""

    offsets: np.ndarray
    values: np.ndarray  # int32

    @classmethod
    def empty(cls, count: int) -> Self:
        """Return `count` empty lists."""
        return cls(np.zeros(count + 1, dtype=np.int64), np.empty(0, dtype=np.int32))

    @classmethod
    def of(cls, row: np.ndarray, values: np.ndarray, count: int) -> Self:
        """Return `count` lists of `values`; `row` (ascending) is the index of each value's list."""
        return cls(offsets_of(np.bincount(row, minlength=count)), values.astype(np.int32))

    @classmethod
    def of_rows(cls, nodes: np.ndarray) -> Self:
        """Return a list for each row of an array of two dimensions, without NONE."""
        row, column = np.nonzero(nodes >= 0)
        return cls.of(row, nodes[row, column], len(nodes))

    @classmethod
    def join(cls, *parts: Self) -> Self:
        """Return the lists of several objects (at least one), one after the other."""
        lengths = np.concatenate([part.lengths() for part in parts])
        return cls(offsets_of(lengths), np.concatenate([part.values for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self) -> np.ndarray:
        """Return the length of each list."""
        return np.diff(self.offsets)

    def take(self, index: Any) -> Self:
        """Return some of the lists, by indices, a slice or a mask."""
        first, last = self.offsets[:-1][index], self.offsets[1:][index]
        return type(self)(offsets_of(last - first), self.values[expand(first, last)[1]])

    def padded(self) -> np.ndarray:
        """Return the lists as the rows of an array, padded with NONE: int64."""
        rows = np.full((len(self), int(self.lengths().max(initial=0))), NONE)
        rows[np.arange(rows.shape[1]) < self.lengths()[:, None]] = self.values
        return rows

    def popped(self) -> tuple[np.ndarray, Self]:
        """Return the first value of each list, NONE for an empty one, and the rest of the lists."""
        full = self.lengths() > 0
        begin = self.offsets[:-1][full]
        first = np.full(len(self), NONE)
        first[full] = self.values[begin]
        return first, type(self)(offsets_of(self.lengths() - full), np.delete(self.values, begin))

    def without(self, keys: np.ndarray, size: int) -> Self:
        """Return the lists without the values that `keys` names: ascending keys (list, value).

        All values are below `size`.
        """
        kept = find_sorted(keys, self.keys(size)) < 0
        return self.of(row_numbers(self.offsets)[kept], self.values[kept], len(self))

    def keys(self, size: int) -> np.ndarray:
        """Return a key (list, value) for each value; all values are below `size`."""
        return row_numbers(self.offsets) * size + self.values

    def between(self, front: Lists, back: Lists) -> Self:
        """Return lists, each of the list in `front`, the list here and the list in `back`."""
        parts = front, self, back
        row = np.concatenate([row_numbers(part.offsets) for part in parts])
        order = np.argsort(row, kind="stable")
        values = np.concatenate([part.values for part in parts])
        return self.of(row[order], values[order], len(self))


def visit(
    visited: Lists, todo: Lists, at: np.ndarray, front: Lists, back: Lists, size: int
) -> tuple[Lists, Lists]:
    """Return the lists that requests carry on, after nodes have refused them.

    Parameters
    ----------
    visited, todo : Lists
        The nodes that have refused each request, and those to ask next.
    at : ndarray of int64
        The node that refuses each request; NONE: the node is not to be listed as visited.
    front, back : Lists
        The neighbours that it puts before and behind the list; those that are visited or listed are
        left out.
    size : int
        The number of nodes.

    Returns
    -------
    Lists, Lists
        The nodes that have refused, and those to ask next.
    """
    nothing = Lists.empty(len(at))
    visited = visited.between(nothing, Lists.of_rows(at[:, None]))
    known = np.sort(np.r_[visited.keys(size), todo.keys(size)])
    front = front.without(known, size)
    known = np.sort(np.r_[known, front.keys(size)])
    return visited, todo.between(front, back.without(known, size))
