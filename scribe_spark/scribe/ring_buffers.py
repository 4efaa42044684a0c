"""Ring buffers of the rows of a table: the last B numbers, each with a name.

A ring whose largest number so far is `top` has names of numbers in (top - B, top].  The name of a
number is in the slot ``number % B``, and NONE is there if the ring lacks it.

Most rows have the same names for the same numbers.  Equal rings are therefore stored once: the
table has a column ``ring`` of indices, and a ring that is written is copied first, once for all
rows that write the same into it.  Rings that have become equal are merged when there are many.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from scribe_spark.core.arrays import NONE, expand, turns, whole_numbers

#: Where fewer rows have a ring of their own, equal rings are looked for before there are more.
_ROWS_A_RING = 32


class HasRings(Protocol):
    """A table whose rows have rings.

    Attributes
    ----------
    ring : ndarray of int64
        The ring of each row; NONE is the empty one.
    """

    ring: np.ndarray


class SharedRings:
    """The rings of a table; `rows` are indices of its rows.

    Parameters
    ----------
    size : int
        B.
    table : HasRings
        All its rings are empty.

    Attributes
    ----------
    tops : ndarray of int64, shape (n,)
        By the index of the ring.  The last one, which NONE is the index of, stays empty.
    names : ndarray of int64, shape (n, B)
    """

    def __init__(self, size: int, table: HasRings) -> None:
        self.size, self.table = size, table
        self.tops, self.names = self._empty(1)
        self._free = whole_numbers()  # rings that no row has; there may be more

    def _empty(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        return np.full(n, NONE), np.full((n, self.size), NONE)

    def top(self, rows: np.ndarray) -> np.ndarray:
        """The largest number of each row so far."""
        return self.tops[self.table.ring[rows]]

    def read(self, rows: np.ndarray, number: np.ndarray) -> np.ndarray:
        """The names of numbers, one of each row; NONE where a row lacks it."""
        ring = self.table.ring[rows]
        top = self.tops[ring]
        inside = (number > top - self.size) & (number <= top)
        return np.where(inside, self.names[ring, number % self.size], NONE)

    def between(
        self, rows: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All numbers from `first` up to `last`: indices in `rows`, the numbers, their names."""
        which, number = expand(first, last + 1)
        return which, number, self.read(rows[which], number)

    def leading_to(
        self, rows: np.ndarray, number: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As :meth:`between`, all that lead up to `number` without a gap."""
        return self.between(rows, number + 1 - self.run(rows, number, -1), number)

    def run(
        self,
        rows: np.ndarray,
        number: np.ndarray,
        step: int,
        where: np.ndarray | Literal[True] = True,
    ) -> np.ndarray:
        """Return the count of numbers that rows have without a gap, from `number` on.

        Parameters
        ----------
        step : int
            1 upwards, -1 downwards.
        where : ndarray of bool, optional
            The others have 0.
        """
        count = np.zeros(len(rows), dtype=np.int64)
        some = np.flatnonzero(np.broadcast_to(where, len(rows)))
        while len(some):
            some = some[self.read(rows[some], number[some] + step * count[some]) != NONE]
            count[some] += 1
        return count

    def write(self, rows: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Write names of numbers into the rings of rows; a row may come several times.

        A number that is too old for the ring is left out.  A second name of the same number takes
        the place of the first.
        """
        before = len(self.tops)
        for part in turns(rows):
            self._write_one(rows[part], number[part], name[part])
        if len(self.tops) > max(before, len(self.table.ring) // _ROWS_A_RING):
            self._merge()

    def _write_one(self, rows: np.ndarray, number: np.ndarray, name: np.ndarray) -> None:
        """Each row comes once."""
        new = (number > self.top(rows) - self.size) & (self.read(rows, number) != name)
        if not new.any():
            return
        what = np.stack([self.table.ring[rows], number, name], axis=1)[new]
        # 1. neighbours mostly write the same: the distinct ones of those that differ
        starts = np.r_[True, (what[1:] != what[:-1]).any(axis=1)]
        distinct, which = _distinct(what[starts])
        ring, number, name = distinct.T
        # 2. copies, in which slots of new numbers are empty
        top = np.maximum(self.tops[ring], number)
        in_slot = top[:, None] - (top[:, None] - np.arange(self.size)) % self.size
        names = np.where(in_slot <= self.tops[ring][:, None], self.names[ring], NONE)
        copy = self._unused(len(ring))
        self.tops[copy], self.names[copy] = top, names
        self.names[copy, number % self.size] = name
        self.table.ring[rows[new]] = copy[which[np.cumsum(starts) - 1]]

    def _unused(self, n: int) -> np.ndarray:
        """`n` rings that no row has, from now on its caller's."""
        if n > len(self._free):
            self._free = np.flatnonzero(~self._used())
        if n > len(self._free):
            before = len(self.tops)
            tops, names = self._empty(max(n, before))
            self.tops, self.names = np.r_[self.tops, tops], np.concatenate([self.names, names])
            self._free = np.r_[self._free, np.arange(before - 1, len(self.tops) - 1)]
        taken, self._free = self._free[:n], self._free[n:]
        return taken

    def _used(self) -> np.ndarray:
        used = np.zeros(len(self.tops), dtype=bool)
        used[self.table.ring] = used[NONE] = True
        return used

    def _first_equal(self) -> np.ndarray:
        """Return the first ring that equals each one that a row has; any for others."""
        used = np.flatnonzero(self._used())
        contents = np.concatenate([self.tops[used, None], self.names[used]], axis=1)
        # by a hash, which is checked
        factors = np.multiply.accumulate(np.full(self.size + 1, 0x9E3779B97F4A7C15, np.uint64))
        hashes = contents.view(np.uint64) @ factors
        _, first, which = np.unique(hashes, return_index=True, return_inverse=True)
        first = first[which]
        same = (contents == contents[first]).all(axis=1)
        ring = np.empty(len(self.tops), dtype=np.int64)
        ring[used] = np.where(same, used[first], used)
        return ring

    def _merge(self) -> None:
        """Let rows with equal rings share one; as many rings as rows have then are free."""
        rows = np.flatnonzero(self.table.ring != NONE)
        ring = self._first_equal()[self.table.ring[rows]]
        is_kept = np.zeros(len(self.tops), dtype=bool)
        is_kept[ring] = True
        self.table.ring[rows] = (np.cumsum(is_kept) - 1)[ring]
        tops, names = self._empty(int(np.count_nonzero(is_kept)) + 1)
        self.tops = np.r_[self.tops[is_kept], tops]
        self.names = np.concatenate([self.names[is_kept], names])
        self._free = whole_numbers()


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of a matrix, and which of them each row is."""
    order = np.lexsort(rows.T)
    in_order = rows[order]
    starts = np.r_[True, (in_order[1:] != in_order[:-1]).any(axis=1)]
    which = np.empty(len(rows), dtype=np.int64)
    which[order] = np.cumsum(starts) - 1
    return in_order[starts], which
