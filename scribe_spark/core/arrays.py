"""Arrays that kernels share: sorted keys and tables, ranges, lists of different lengths.

A *ragged* array is lists of different lengths in flat arrays: row i of one with ``offsets`` (n + 1
positions, ascending, the first is 0) is ``values[offsets[i]:offsets[i + 1]]``.  A *run* is several
adjacent rows that are equal.  NONE is -1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pyarrow as pa

#: The value for "no row", "no node" and "no round", which are numbered from 0.
NONE = -1

#: The value for "no group" in columns without NULL.  Users number groups by any other int64.
NO_GROUP = -(2**63)


# --- sorted keys


def distinct(keys: np.ndarray) -> np.ndarray:
    """Return the different values of `keys` in ascending order; faster than `np.unique`."""
    keys = np.sort(keys, axis=None)
    return keys[np.r_[True, keys[1:] != keys[:-1]]] if len(keys) else keys


def without(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the different values of `keys` that `others` does not contain, in ascending order."""
    return distinct(keys[find_sorted(distinct(others), keys) < 0])


def distinct_indices(size: int, keys: np.ndarray) -> np.ndarray:
    """Return the different values of `keys` from 0 to `size` - 1, in ascending order: int64."""
    if len(keys) < size // 64:  # a scan of all possible values would take longer
        return distinct(keys)
    there = np.zeros(size, dtype=bool)
    there[keys] = True
    return np.flatnonzero(there)


def find_sorted(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the index of each key in ascending keys, or :data:`NONE` for an absent one: int64."""
    if not len(sorted_keys):
        return np.full(len(keys), NONE, dtype=np.int64)
    if _are_worth_a_map(sorted_keys, keys):
        return _find_by_map(sorted_keys, keys)
    index = search_sorted(sorted_keys, keys)
    index[index == len(sorted_keys)] = 0
    return np.where(sorted_keys[index] == keys, index, NONE)


def index_sorted(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the index of each key in ascending keys; an absent one raises a LookupError: int64."""
    index = find_sorted(sorted_keys, keys)
    if index.min(initial=0) < 0:
        lacking = np.asarray(keys)[index < 0]
        raise LookupError(f"{lacking[0]} is not one of {len(sorted_keys):,} sorted keys")
    return index


#: For fewer keys, a search takes less time than the making of a map.
_WORTH_A_MAP = 2**15

#: The most words of a map for each key to find; with more, a search is faster.
_WORDS_OF_A_KEY = 24

#: The number of keys that are looked up together, so that they stay in the processor's cache.
_FOUND_AT_ONCE = 2**14


def _are_worth_a_map(sorted_keys: np.ndarray, keys: np.ndarray) -> bool:
    """Return True if :func:`_find_by_map` is quicker: keys are many, unsorted and dense."""
    if len(keys) < _WORTH_A_MAP or not sorted_keys.dtype == keys.dtype == np.int64:
        return False
    words = (int(sorted_keys[-1]) - int(sorted_keys[0])) >> 6
    return words < _WORDS_OF_A_KEY * len(keys) and not (keys[1:] >= keys[:-1]).all()


def _find_by_map(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Find keys as :func:`find_sorted` does, by a bitmap with a bit for each possible key.

    An index is that of the first key of the word, plus the number of bits before the key's own bit
    (G. Jacobson: Space-efficient static trees and graphs, FOCS 1989).
    """
    least, greatest = sorted_keys[0], sorted_keys[-1]
    one, place = np.uint64(1), (sorted_keys - least).view(np.uint64)
    word = (place >> np.uint64(6)).view(np.int64)
    starts = run_starts(word)
    words = int(word[-1]) + 1
    bits, before = np.zeros(words, dtype=np.uint64), np.zeros(words, dtype=np.int64)
    bits[word[starts]] = np.bitwise_or.reduceat(one << (place & np.uint64(63)), starts)
    before[word[starts]] = starts
    found = np.empty(len(keys), dtype=np.int64)
    for start in range(0, len(keys), _FOUND_AT_ONCE):
        some = slice(start, start + _FOUND_AT_ONCE)
        inside = np.clip(keys[some], least, greatest)
        place = (inside - least).view(np.uint64)
        word = (place >> np.uint64(6)).view(np.int64)
        here, bit = bits[word], one << (place & np.uint64(63))
        index = before[word] + np.bitwise_count(here & (bit - one))
        there = ((here & bit) > 0) & (inside == keys[some])
        found[some] = np.where(there, index, NONE)
    return found


#: Fewer keys are searched in their own order.  Sorted ones take a tenth of the time in a table that
#: is larger than the processor's cache.
_WORTH_ORDER = 2**14


def search_sorted(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return what `numpy.searchsorted` returns, for int64 keys, many of which are sorted first."""
    few = min(len(keys), len(sorted_keys)) < _WORTH_ORDER
    if few or (keys[1:] >= keys[:-1]).all():
        return np.searchsorted(sorted_keys, keys)
    least, most = int(keys.min()), int(keys.max())
    if most - least >= 2**63:
        return np.searchsorted(sorted_keys, keys)
    order = order_of_keys(keys - least, most - least)
    found = np.empty(len(keys), dtype=np.int64)
    found[order] = np.searchsorted(sorted_keys, keys[order])
    return found


#: Fewer keys are sorted by comparisons in less time.
_WORTH_DIGITS = 1024

#: Bits of a digit: numpy sorts numbers of 16 bits by counting them.
_DIGIT = 16


def order_of_keys(key: np.ndarray, most: int) -> np.ndarray:
    """Return the stable order of keys that are from 0 to `most`, as indices of rows: int64."""
    if len(key) < _WORTH_DIGITS and most >> _DIGIT:
        return np.argsort(key, kind="stable")
    order = np.argsort(key.astype(np.uint16), kind="stable")  # the last digit
    for bits in range(_DIGIT, most.bit_length(), _DIGIT):
        digit = (key >> bits).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def numbered(*columns: np.ndarray) -> np.ndarray:
    """Return a number for each row, from 0 in sorted order, one for equal rows: int64."""
    order = np.lexsort(columns[::-1])
    starts = np.logical_or.reduce([np.diff(column[order]) != 0 for column in columns])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(np.r_[False, starts][: len(order)])
    return number


def run_starts(*columns: np.ndarray) -> np.ndarray:
    """Return the index of the first row of each run of rows equal in all columns: int64."""
    if not len(columns[0]):
        return whole_numbers()
    starts = np.ones(len(columns[0]), dtype=bool)
    np.not_equal(columns[0][1:], columns[0][:-1], out=starts[1:])
    for column in columns[1:]:
        starts[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(starts)


def index_in_run(*columns: np.ndarray) -> np.ndarray:
    """Return the number of equal rows before each row in its run: int64."""
    first = np.zeros(len(columns[0]), dtype=np.int64)
    starts = run_starts(*columns)
    first[starts] = starts
    return np.arange(len(first)) - np.maximum.accumulate(first)


def last_of_runs(*columns: np.ndarray) -> np.ndarray:
    """Return the index of the last row of each run of rows equal in all columns: int64."""
    ends = np.ones(len(columns[0]), dtype=bool)
    ends[:-1] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(ends)


def least_of(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the index of the first least value of each run of equal groups: int64."""
    starts = run_starts(group)
    least = np.minimum.reduceat(values, starts) if len(group) else values
    found = np.flatnonzero(values == np.repeat(least, np.diff(starts, append=len(group))))
    return found[run_starts(group[found])]


def turns(keys: np.ndarray) -> Sequence[np.ndarray | slice]:
    """Return an index for each turn: the r-th holds the r-th occurrence of each key."""
    if (keys[1:] > keys[:-1]).all():
        return [slice(None)] if len(keys) else []  # all keys are different
    turn = rank_in_group(keys)
    in_turn = np.argsort(turn, kind="stable")
    return np.split(in_turn, np.cumsum(np.bincount(turn))[:-1])


def sums_at(index: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Return exact sums of whole numbers by `index`; `numpy.bincount` would add them as float64."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, index, values)
    return sums


# --- ranges


def divided(number: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """Return quotients and remainders of whole numbers, ten times faster than `np.divmod`."""
    quotient = number // by
    return quotient, number - quotient * by


def expand(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of all ranges ``first[i]`` to ``last[i] - 1``: two columns, i, number."""
    some = np.flatnonzero(last > first)
    lengths = last[some] - first[some]
    ends = np.cumsum(lengths)
    count = int(ends[-1]) if len(ends) else 0
    # a cumulative sum is much faster than `np.repeat`
    pair, number = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    if count:
        starts = ends - lengths
        least = first[some]
        pair[0], number[0] = some[0], least[0]
        pair[starts[1:]] = some[1:] - some[:-1]
        number[starts[1:]] = least[1:] - least[:-1] - lengths[:-1] + 1
    return np.cumsum(pair, out=pair), np.cumsum(number, out=number)


# --- ragged arrays


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return the offsets (n + 1,) of a ragged array whose rows have these lengths (n,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def row_numbers(offsets: np.ndarray) -> np.ndarray:
    """Return the index of the row of each value of a ragged array."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def struct_lists(offsets: np.ndarray, fields: dict[str, np.ndarray]) -> pa.ListArray:
    """Return ragged arrays with equal offsets as an Arrow array of lists of structs."""
    columns = [pa.array(values) for values in fields.values()]
    structs = pa.StructArray.from_arrays(columns, names=list(fields))
    # Arrow's offsets have 32 bits: it raises for more values
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


# --- rows as columns


class Rows:
    """Rows as a dataclass of columns: arrays, or again `Rows`, with one element per row."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, index: Any) -> Self:
        """Return the rows that indices, a slice or a mask select, in the same class."""
        columns = (getattr(self, one.name) for one in fields(self))
        return type(self)(
            *[one.take(index) if isinstance(one, Rows) else one[index] for one in columns]
        )

    @classmethod
    def join(cls, *parts: Self) -> Self:
        """Return the rows of several objects (at least one), one after the other."""
        return cls(*[joined([getattr(part, one.name) for part in parts]) for one in fields(cls)])

    def to_columns(self) -> dict[str, np.ndarray]:
        """Return the columns by name; a column of nested `Rows` has a name of two parts."""
        columns: dict[str, np.ndarray] = {}
        for one in fields(self):
            column = getattr(self, one.name)
            columns |= column.to_columns() if isinstance(column, Rows) else {one.name: column}
        return columns

    @classmethod
    def from_columns(cls, columns: Mapping[str, np.ndarray]) -> Self:
        """Return an object from columns by name; columns that are no fields are ignored."""
        return cls(*[columns[one.name] for one in fields(cls)])


def joined(columns: Sequence[Any]) -> Any:
    """Return arrays, one after the other; narrower ones get -1 at the end of their rows."""
    first = columns[0]
    if not isinstance(first, np.ndarray):
        return type(first).join(*columns)
    if first.ndim > 1:
        width, others = max(column.shape[-1] for column in columns), [(0, 0)] * (first.ndim - 1)
        columns = [
            np.pad(column, (*others, (0, width - column.shape[-1])), constant_values=NONE)
            for column in columns
        ]
    return np.concatenate(columns)


# --- forests


def depths(above: np.ndarray, *, circles: bool = False) -> np.ndarray:
    """Return the number of ancestors of each node of a forest: int64; `above` has parents or NONE.

    With `circles`, nodes on or below a circle of parents have -1.
    """
    number = np.arange(len(above))
    up = np.where(above >= 0, above, number)
    depth = (up != number).astype(np.int64)
    # each step doubles the distance of `up`; a circle never ends
    for _ in range(len(above).bit_length()):
        further = up[up]
        if np.array_equal(further, up):
            break
        depth, up = depth + depth[up], further
    ends = above[up] < 0
    if not circles and not ends.all():
        raise RuntimeError("the parents are no forest: some nodes are their own ancestors")
    return np.where(ends, depth, -1)


def unrooted(above: np.ndarray, is_root: np.ndarray) -> np.ndarray:
    """Return True for nodes from which the way up over `above` (or NONE) leads to no root: bool."""
    circle = np.where(above < 0, np.arange(len(above)), above)
    return depths(np.where(is_root, NONE, circle), circles=True) < 0


def cut_to_rings(lists: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cut lists of ancestors, from the parent upwards, at the nodes `own` that have them.

    Such a node is on a ring of parents.  The lists are rows, padded with NONE; those without the
    node stay.  The second result is True for the nodes that are the least ones of their rings.
    """
    found = lists == own[:, None]
    is_ring, last = found.any(axis=1), found.argmax(axis=1)
    behind = is_ring[:, None] & (np.arange(lists.shape[1]) > last[:, None])
    lists = np.where(behind, NONE, lists)
    least = np.where(lists < 0, own[:, None], lists).min(axis=1)
    return lists, is_ring & (least == own)


def children_in(above: np.ndarray, of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the children of the nodes `of`: index in `of`, ascending, and child, ascending."""
    if not len(of):
        return whole_numbers(), whole_numbers()
    different = distinct(of)
    index = np.full(len(above) + 1, NONE)  # the last one for NONE
    index[different] = np.arange(len(different))
    parent = index[above]
    child = np.flatnonzero(parent >= 0)
    child = child[np.argsort(parent[child], kind="stable")]
    offsets = offsets_of(np.bincount(parent[child], minlength=len(different)))
    row, place = expand(offsets[index[of]], offsets[index[of] + 1])
    return row, child[place]


# --- tables sorted by a key that is one number


def rank_in_group(group: np.ndarray) -> np.ndarray:
    """Return how many rows of the same group stand before each row: int64."""
    order = np.argsort(group, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = index_in_run(group[order])
    return rank


def whole_numbers() -> np.ndarray:
    """Return an empty array of int64: the default of a column of whole numbers."""
    return np.empty(0, dtype=np.int64)


def codes() -> np.ndarray:
    """Return an empty array of small integers: the default of a column of small indices."""
    return np.empty(0, dtype=np.int8)


def flags() -> np.ndarray:
    """Return an empty array of booleans: the default of a column of booleans."""
    return np.empty(0, dtype=bool)


_BORROWED = "_borrowed"


@dataclass
class SortedTable(Rows):
    """A table whose rows are found by their keys, which are different and ascending."""

    key: np.ndarray = field(default_factory=whole_numbers)

    def __len__(self) -> int:
        return len(self.key)

    def borrow(self, columns: Mapping[str, np.ndarray]) -> Self:
        """Use the columns of a mapping, each read at its first use, in place of all columns."""
        self.__dict__ = {_BORROWED: columns}
        return self

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            column = self.__dict__[_BORROWED][name]
        except KeyError:
            raise AttributeError(name) from None
        setattr(self, name, column)
        return column

    def read(self) -> dict[str, np.ndarray]:
        """Return the columns, by name, that were read or written so far, with the key."""
        return {one.name: self.__dict__[one.name] for one in fields(self) if one.name in vars(self)}

    def columns(self) -> Iterator[str]:
        """Return the names of all columns but the key."""
        return (one.name for one in fields(self) if one.name != "key")

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the row of each key, or :data:`NONE` if there is no such row: int64."""
        return find_sorted(self.key, keys)

    def has(self, keys: np.ndarray) -> np.ndarray:
        """Return True for each key that has a row: bool."""
        return self.find(keys) >= 0

    def insert(self, keys: np.ndarray, **values: Any) -> None:
        """Insert rows with new keys, in any order; a value is an array, or one for all rows."""
        if not len(keys):
            return
        order = slice(None) if (keys[1:] > keys[:-1]).all() else np.argsort(keys)
        new = np.searchsorted(self.key, keys[order]) + np.arange(len(keys))
        is_old = np.ones(len(self.key) + len(keys), dtype=bool)
        is_old[new] = False
        for name, value in (("key", keys), *((name, values[name]) for name in self.columns())):
            old = getattr(self, name)
            both = np.empty((len(is_old), *old.shape[1:]), dtype=old.dtype)
            both[is_old] = old
            both[new] = value[order] if isinstance(value, np.ndarray) else value
            setattr(self, name, both)

    def put(self, keys: np.ndarray, **values: Any) -> None:
        """Write rows with different keys: insert new keys, and replace rows with existing keys."""
        index = self.find(keys)
        old = index >= 0

        def of(value: Any, some: np.ndarray) -> Any:
            return value[some] if isinstance(value, np.ndarray) else value

        for name in self.columns() if old.any() else ():
            column = getattr(self, name)
            if not column.flags.writeable:  # it belongs to a saved table
                column = column.copy()
                setattr(self, name, column)
            column[index[old]] = of(values[name], old)
        self.insert(keys[~old], **{name: of(values[name], ~old) for name in self.columns()})

    def keep(self, kept: np.ndarray) -> None:
        """Keep only the rows that the mask `kept` marks."""
        if kept.all():
            return
        for name in ("key", *self.columns()):
            setattr(self, name, getattr(self, name)[kept])

    def drop(self, index: np.ndarray) -> None:
        """Remove the rows with these indices."""
        if len(index):
            kept = np.ones(len(self), dtype=bool)
            kept[index] = False
            self.keep(kept)

    def discard(self, keys: np.ndarray) -> None:
        """Remove the row of each key that has a row."""
        row = self.find(keys)
        self.drop(row[row >= 0])


_Table = TypeVar("_Table", bound=SortedTable)


def read_table(
    kind: type[_Table], tables: Mapping[str, Mapping[str, np.ndarray]], name: str
) -> _Table:
    """Return the table with a `name` as an object of a `kind`; an empty one if there is none."""
    return kind.from_columns(tables[name]) if name in tables else kind()
