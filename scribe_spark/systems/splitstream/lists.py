"""Lists of nodes that requests carry: those still to ask, and those that have refused.

A request that a node refuses goes on to the first node of its list (L6, L8).  The node puts some of
its neighbours in front of the list, and others behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scribe_spark.core.arrays import (
    NONE,
    Rows,
    expand,
    find_sorted,
    offsets_of,
    row_numbers,
    run_starts,
)

#: The most elements of new lists that are made at once, to bound the memory.
_AT_ONCE = 2**22


@dataclass(frozen=True)
class Lists(Rows):
    """Lists of rows of nodes, one for each request, as a ragged array."""

    offsets: np.ndarray
    values: np.ndarray  # int32

    @classmethod
    def empty(cls, count: int) -> Lists:
        """Return empty lists."""
        return cls(np.zeros(count + 1, dtype=np.int64), np.empty(0, dtype=np.int32))

    @classmethod
    def of(cls, row: np.ndarray, values: np.ndarray, count: int) -> Lists:
        """Return lists of values, whose rows are ascending."""
        return cls(offsets_of(np.bincount(row, minlength=count)), values.astype(np.int32))

    @classmethod
    def join(cls, *parts: Self) -> Self:
        """Return the lists of several objects (at least one), one after the other."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(offsets_of(lengths), np.concatenate([part.values for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, index: Any) -> Self:
        """Return lists by indices, a slice or a mask."""
        first, last = self.offsets[:-1][index], self.offsets[1:][index]
        return type(self)(offsets_of(last - first), self.values[expand(first, last)[1]])

    def rows(self) -> np.ndarray:
        """Return the index of the list of each value."""
        return row_numbers(self.offsets)

    def popped(self) -> tuple[np.ndarray, Lists]:
        """Return the first value of each list (NONE: it is empty), and the rest of the lists."""
        full = np.diff(self.offsets) > 0
        first = np.full(len(self), NONE, dtype=np.int64)
        first[full] = self.values[self.offsets[:-1][full]]
        left = np.ones(len(self.values), dtype=bool)
        left[self.offsets[:-1][full]] = False
        return first, Lists(offsets_of(np.diff(self.offsets) - full), self.values[left])

    def with_ends(self, front: Lists, back: Lists) -> Lists:
        """Return lists with values before and behind."""
        row = np.concatenate([part.rows() for part in (front, self, back)])
        order = np.argsort(row, kind="stable")
        values = np.concatenate([part.values for part in (front, self, back)])
        return Lists.of(row[order], values[order], len(self))


def visit(
    visited: Lists, todo: Lists, at: np.ndarray, front: Lists, back: Lists, size: int
) -> tuple[Lists, Lists]:
    """Return the lists of requests that nodes have refused.

    Parameters
    ----------
    visited, todo : Lists
        The nodes that have refused each request, and those still to ask; n lists of both.
    at : ndarray of int64, shape (n,)
        The node that refuses.
    front, back : Lists
        The neighbours that it puts before and behind the list; those that are visited or listed are
        left out.
    size : int
        The number of rows of nodes.

    Returns
    -------
    Lists, Lists
        The nodes that have refused, and those still to ask.
    """
    alone = Lists(np.arange(len(at) + 1), at.astype(np.int32))
    visited = visited.with_ends(alone, Lists.empty(len(at)))
    known = np.concatenate([one.rows() * size + one.values for one in (visited, todo)])
    known.sort()

    def new(lists: Lists) -> Lists:
        row = lists.rows()
        is_new = find_sorted(known, row * size + lists.values) < 0
        return Lists.of(row[is_new], lists.values[is_new], len(lists))

    return visited, todo.with_ends(new(front), new(back))


def in_parts(sizes: np.ndarray) -> list[slice]:
    """Return slices of requests whose lists together are not too long."""
    part = np.cumsum(sizes) // _AT_ONCE
    starts = run_starts(part)
    return [slice(*ends) for ends in zip(starts, [*starts[1:], len(sizes)], strict=True)]
