"""Tables of arrays that are sorted by a key of one number, which rows are found by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

__all__ = [
    "NONE",
    "SortedTable",
    "codes",
    "expand",
    "flags",
    "key_of",
    "key_parts",
    "places",
    "whole_numbers",
]

#: No row, no node, no round.
NONE = -1


def whole_numbers() -> np.ndarray:
    """A column of whole numbers, empty at first."""
    return np.empty(0, dtype=np.int64)


def codes() -> np.ndarray:
    """A column of indices of a few names, empty at first."""
    return np.empty(0, dtype=np.int8)


def flags() -> np.ndarray:
    """A column that is true or false, empty at first."""
    return np.empty(0, dtype=bool)


@dataclass
class SortedTable:
    """Rows that are found by their keys; every array has one element a row.

    Attributes
    ----------
    key : ndarray of int64
        Ascending, each once.
    """

    key: np.ndarray = field(default_factory=whole_numbers)

    def __len__(self) -> int:
        return len(self.key)

    def columns(self) -> Iterator[str]:
        """Names of the columns besides the key."""
        return (one.name for one in fields(self) if one.name != "key")

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, :data:`NONE` where there is none: int64."""
        return places(self.key, keys)

    def has(self, keys: np.ndarray) -> np.ndarray:
        """Whether there is a row of each key: bool."""
        return self.find(keys) >= 0

    def insert(self, keys: np.ndarray, **values: Any) -> None:
        """Insert rows.

        Parameters
        ----------
        keys : ndarray of int64
            Keys that are not there yet, each once, in any order.
        values
            Of every column, an array or one value for all rows.
        """
        if not len(keys):
            return
        order = np.argsort(keys)
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
        """Write rows, new ones or over those of the same key; each key once."""
        index = self.find(keys)
        old = index >= 0

        def of(value: Any, some: np.ndarray) -> Any:
            return value[some] if isinstance(value, np.ndarray) else value

        for name in self.columns():
            getattr(self, name)[index[old]] = of(values[name], old)
        self.insert(keys[~old], **{name: of(values[name], ~old) for name in self.columns()})

    def keep(self, kept: np.ndarray) -> None:
        """Keep only the rows that are marked."""
        if kept.all():
            return
        for name in ("key", *self.columns()):
            setattr(self, name, getattr(self, name)[kept])

    def to_columns(self, parts: tuple[str, ...], size: int) -> dict[str, np.ndarray]:
        """All columns by their names, the key as its parts.

        Parameters
        ----------
        parts : tuple of str
            What the numbers are that the key is made of.
        size : int
            All numbers but the first are below it.
        """
        rest = {name: getattr(self, name) for name in self.columns()}
        return {**key_parts(self.key, parts, size), **rest}

    def take_back(
        self, columns: Mapping[str, np.ndarray], parts: tuple[str, ...], size: int
    ) -> None:
        """Insert what :meth:`to_columns` gave, in any order; `size` may have grown."""
        key = key_of([columns[part] for part in parts], size)
        self.insert(key, **{name: columns[name] for name in self.columns()})

    def drop(self, index: np.ndarray) -> None:
        """Take some rows out."""
        if len(index):
            kept = np.ones(len(self), dtype=bool)
            kept[index] = False
            self.keep(kept)


def key_parts(key: np.ndarray, parts: tuple[str, ...], size: int) -> dict[str, np.ndarray]:
    """The numbers that keys are made of, by their names; all but the first are below `size`."""
    numbers = []
    for _ in parts[1:]:
        key, last = np.divmod(key, size)
        numbers.append(last)
    return dict(zip(parts, [key, *numbers[::-1]], strict=True))


def key_of(numbers: list[np.ndarray], size: int) -> np.ndarray:
    """The keys that are made of numbers; all but the first are below `size`."""
    key = numbers[0]
    for number in numbers[1:]:
        key = key * size + number
    return key


def places(sorted_keys: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Where keys are among sorted ones, :data:`NONE` where they are not: int64."""
    if not len(sorted_keys):
        return np.full(len(keys), NONE, dtype=np.int64)
    index = np.searchsorted(sorted_keys, keys)
    index[index == len(sorted_keys)] = 0
    return np.where(sorted_keys[index] == keys, index, NONE)


def expand(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All numbers from `first` up to but without `last`, for each pair; and whose they are.

    Returns
    -------
    pair, number : ndarray of int64
    """
    lengths = last - first
    pair = np.repeat(np.arange(len(first)), lengths)
    ends = np.cumsum(lengths)
    return pair, np.arange(len(pair)) - np.repeat(ends - lengths - first, lengths)
