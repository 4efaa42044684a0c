"""Lists of nodes that requests carry through a tree: those to ask next, and those that refused.

A request that a node refuses goes on to the first node of its list.  The node puts some of its
neighbours in front of the list, and others behind it: a search in depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from scribe_spark.core.arrays import NONE, Rows, expand, find_sorted, offsets_of, run_starts


@dataclass(frozen=True)
class Lists(Rows):
    """Lists of nodes, ``values[first[i] : last[i]]``; lists taken from others share `values`."""

    first: np.ndarray
    last: np.ndarray
    values: np.ndarray  # int32

    @classmethod
    def empty(cls, count: int) -> Self:
        """Return `count` empty lists."""
        none = np.zeros(count, dtype=np.int64)
        return cls(none, none, np.empty(0, dtype=np.int32))

    @classmethod
    def of(cls, row: np.ndarray, values: np.ndarray, count: int) -> Self:
        """Return `count` lists of `values`; `row` (ascending) is the index of each value's list."""
        offsets = offsets_of(np.bincount(row, minlength=count))
        return cls(offsets[:-1], offsets[1:], values.astype(np.int32))

    @classmethod
    def of_rows(cls, nodes: np.ndarray) -> Self:
        """Return a list for each row of an array of two dimensions, without NONE."""
        row, column = np.nonzero(nodes >= 0)
        return cls.of(row, nodes[row, column], len(nodes))

    @classmethod
    def join(cls, *parts: Self) -> Self:
        """Return the lists of several objects (at least one), one after the other."""
        if all(part.values is parts[0].values for part in parts):
            first, last = ([getattr(one, end) for one in parts] for end in ("first", "last"))
            return cls(np.concatenate(first), np.concatenate(last), parts[0].values)
        offsets = offsets_of(np.concatenate([part.lengths() for part in parts]))
        values, at = np.empty(offsets[-1], dtype=np.int32), 0
        for part in parts:
            for some in pieces(part.lengths()):
                more = part.take(some).rows()[1]
                values[at : at + len(more)] = more
                at += len(more)
        return cls(offsets[:-1], offsets[1:], values)

    def __len__(self) -> int:
        return len(self.first)

    def lengths(self) -> np.ndarray:
        """Return the length of each list."""
        return self.last - self.first

    def take(self, index: Any) -> Self:
        """Return some of the lists, by indices, a slice or a mask; they share the values."""
        return type(self)(self.first[index], self.last[index], self.values)

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all values: the index of the list, and the value."""
        row, index = expand(self.first, self.last)
        return row, self.values[index]

    def padded(self) -> np.ndarray:
        """Return the lists as the rows of an array, padded with NONE: int64."""
        rows = np.full((len(self), int(self.lengths().max(initial=0))), NONE)
        rows[np.arange(rows.shape[1]) < self.lengths()[:, None]] = self.rows()[1]
        return rows

    def popped(self) -> tuple[np.ndarray, Self]:
        """Return the first value of each list, NONE for an empty one, and the rest of the lists."""
        full = self.first < self.last
        first = np.full(len(self), NONE)
        first[full] = self.values[self.first[full]]
        return first, type(self)(self.first + full, self.last, self.values)

    def without(self, size: int, *others: Lists) -> Self:
        """Return the lists without values (below `size`) of the same lists of other objects."""
        (row, values), key = self.rows(), self.keys(size)
        order, kept = np.argsort(key), np.ones(len(key), dtype=bool)
        for other in others:  # which may be much longer
            found = find_sorted(key[order], other.keys(size))
            kept[order[found[found >= 0]]] = False
        return self.of(row[kept], values[kept], len(self))

    def keys(self, size: int) -> np.ndarray:
        """Return a key (list, value) for each value; all values are below `size`."""
        row, values = self.rows()
        return row * size + values

    def between(self, front: Lists, back: Lists) -> Self:
        """Return lists, each of the list in `front`, the list here and the list in `back`."""
        parts: tuple[Lists, ...] = (front, self, back)
        ends = np.cumsum([part.lengths() for part in parts], axis=0)
        offsets = offsets_of(ends[-1])
        values = np.empty(offsets[-1], dtype=np.int32)
        for part, end in zip(parts, offsets[:-1] + ends, strict=True):
            values[expand(end - part.lengths(), end)[1]] = part.rows()[1]
        return type(self)(offsets[:-1], offsets[1:], values)


def pieces(lengths: np.ndarray, most: int = 2**20) -> Iterator[slice]:
    """Yield slices of rows whose `lengths` sum up to about `most`, to bound the memory."""
    piece = np.cumsum(lengths) // most
    for begin, end in pairwise([*run_starts(piece), len(piece)]):
        yield slice(begin, end)


def visit(
    visited: Lists, todo: Lists, at: np.ndarray, front: Lists, back: Lists, size: int
) -> tuple[Lists, Lists]:
    """Return the visited nodes and those to ask next, after the nodes `at` have refused requests.

    A node puts `front` before and `back` behind the list, without nodes that are visited or listed.
    A NONE in `at` is not listed as visited; `size` is the number of nodes.
    """
    nothing = Lists.empty(len(at))
    visited = visited.between(nothing, Lists.of_rows(at[:, None]))
    front = front.without(size, visited, todo)
    return visited, todo.between(front, back.without(size, visited, todo, front))
