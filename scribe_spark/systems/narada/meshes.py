"""The state of Narada's groups, as arrays: entries, links, and a square of cells for each group.

An *entry* is a node that some member of its group knows.  Two entries e and f of a group have a
*cell* (e, f): what e knows of f.  The cells lie in flat arrays, group by group and row by row: the
row of e has the cells of e, ascending by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scribe_spark.core import arrays
from scribe_spark.core.keys import key_of
from scribe_spark.engine.packing import Columns

#: The tables of the state.
WAITING, ENTRIES, LINKS, CELLS = TABLES = "waiting", "entries", "links", "cells"

#: The columns of the tables, without the group.
_COLUMNS = {
    ENTRIES: ("node", "is_in"),
    LINKS: ("node", "peer", "since", "distance"),
    CELLS: ("heard", "number", "cost", "next"),
}

#: The cost of a member that cannot be reached, in microseconds: 20 s.
UNREACHABLE = 20_000_000

#: The values of the cell of a member that an entry does not know.
_UNKNOWN = {"heard": arrays.NONE, "number": arrays.NONE, "cost": UNREACHABLE, "next": arrays.NONE}


@dataclass
class Meshes:
    """The entries, links and cells of the groups of a builder.

    Attributes
    ----------
    size : int
        The number of all nodes, K.
    group, node, is_in : ndarray, shape (E,)
        The entries, ascending: the index of the group, the position of the node, and True for
        members (the others have died or quit).
    a, b, since, distance : ndarray of int64, shape (L,)
        The links, each in both directions, ascending: indices of entries, the period in which the
        link began, and the distance of its ends in microseconds.
    cells : dict of str to ndarray of int32
        What an entry knows of another: in ``heard`` the period in which it last received a higher
        refresh number (NONE: never), in ``number`` that number, in ``cost`` the
        cost in microseconds, and in ``next`` the position of the neighbour on the way, or NONE.
    key, top, width, start : ndarray of int64, shape (E,)
        The key (group, node) of each entry, the first entry of its group, the length of its row of
        cells (the number of entries of the group), and the first of these cells.
    """

    size: int
    group: np.ndarray
    node: np.ndarray
    is_in: np.ndarray
    a: np.ndarray
    b: np.ndarray
    since: np.ndarray
    distance: np.ndarray
    cells: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.key = key_of([self.group, self.node], self.size)
        self.top = np.searchsorted(self.group, self.group)
        self.width = np.searchsorted(self.group, self.group, side="right") - self.top
        self.start = arrays.offsets_of(self.width)[:-1]

    @classmethod
    def of(cls, state: Mapping[str, Columns], size: int = 0) -> Meshes:
        """Return the meshes of a state; `size`, the number of nodes, is needed to find nodes."""
        entries, links, cells = (state_table(state, name) for name in (ENTRIES, LINKS, CELLS))
        size = size or 1 + int(entries["node"].max(initial=0))
        key = key_of([entries["group"], entries["node"]], size)
        a, b = (
            arrays.find_sorted(key, key_of([links["group"], links[x]], size))
            for x in ("node", "peer")
        )
        cells = {name: cells[name].astype(np.int32) for name in _UNKNOWN}
        members = entries["group"], entries["node"], entries["is_in"].astype(bool)
        return cls(size, *members, a, b, links["since"], links["distance"], cells)

    def tables(self) -> dict[str, Columns]:
        """Return the tables of the state."""
        links = {"group": self.group[self.a], "node": self.node[self.a], "peer": self.node[self.b]}
        return {
            ENTRIES: {"group": self.group, "node": self.node, "is_in": self.is_in},
            LINKS: {**links, "since": self.since, "distance": self.distance},
            CELLS: {"group": np.repeat(self.group, self.width), **self.cells},
        }

    # --- places

    def find(self, group: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the entries of nodes; NONE for nodes that are no entries."""
        return arrays.find_sorted(self.key, key_of([group, node], self.size))

    def cell(self, e: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return the indices of the cells (e, f): what the entries `e` know of the entries `f`."""
        return self.start[e] + f - self.top[e]

    def reader(self, cell: np.ndarray) -> np.ndarray:
        """Return the entries that know what cells (by index) say."""
        return np.searchsorted(self.start, cell, side="right") - 1

    def rows_of(self, e: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the cells of entries: index in `e`, cell, and the entry that it is about."""
        row, cell = arrays.expand(self.start[e], self.start[e] + self.width[e])
        return row, cell, cell + (self.top[e] - self.start[e])[row]

    # --- links

    @property
    def degree(self) -> np.ndarray:
        """The number of the links of each entry."""
        return np.bincount(self.a, minlength=len(self.node))

    @property
    def known(self) -> np.ndarray:
        """The number of members that each member (entry) has heard of, itself included."""
        return np.add.reduceat(self.cells["heard"] >= 0, self.start, dtype=np.int64)

    def find_links(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the links from `a` to `b`; NONE where there is none."""
        keys = (key_of(ends, len(self.node)) for ends in ([self.a, self.b], [a, b]))
        return arrays.find_sorted(*keys)

    def keep_links(self, kept: np.ndarray) -> None:
        """Keep only the links that a mask marks; both directions of a link must be marked alike."""
        for name in ("a", "b", "since", "distance"):
            setattr(self, name, getattr(self, name)[kept])

    def end_links(self, a: np.ndarray, b: np.ndarray) -> None:
        """End links between the entries `a` and `b`, if there are any, in both directions."""
        kept = np.ones(len(self.a), dtype=bool)
        for ends in ((a, b), (b, a)):
            found = self.find_links(*ends)
            kept[found[found >= 0]] = False
        self.keep_links(kept)

    def add_links(self, a: np.ndarray, b: np.ndarray, period: int, distance: np.ndarray) -> None:
        """Add the links from `a` to `b` that are new in a `period`, in both directions."""
        new = self.find_links(a, b) < 0
        a, b, distance = a[new], b[new], distance[new]
        since = np.full(len(a), period)
        ends = np.r_[self.a, a, b], np.r_[self.b, b, a]
        more = np.r_[self.since, since, since], np.r_[self.distance, distance, distance]
        _, first = np.unique(key_of([*ends], len(self.node)), return_index=True)
        self.a, self.b, self.since, self.distance = (column[first] for column in (*ends, *more))

    @cached_property
    def squares(self) -> list[Squares]:
        """The groups with equal numbers of entries, for each number."""
        order = np.argsort(self.width, kind="stable")
        starts = arrays.run_starts(self.width[order])
        some = np.split(order, starts[1:]) if len(order) else []
        return [Squares(self, e, int(self.width[e[0]])) for e in some]

    @cached_property
    def rank(self) -> np.ndarray:
        """The row of each entry in the square of its group's number of entries."""
        return arrays.rank_in_group(self.width)

    # --- entries

    def replaced(self, kept: np.ndarray, more: np.ndarray) -> Meshes:
        """Return meshes of the entries that `kept` (a mask) marks, and of new ones (keys)."""
        key = np.sort(np.r_[self.key[kept], more])
        is_in = np.zeros(len(key), dtype=bool)
        here = np.flatnonzero(kept)
        to = np.full(len(kept), arrays.NONE)
        to[here] = np.searchsorted(key, self.key[here])
        is_in[to[here]] = self.is_in[here]
        last = kept[self.a] & kept[self.b]
        links = to[self.a[last]], to[self.b[last]], self.since[last], self.distance[last]
        made = Meshes(self.size, *np.divmod(key, self.size), is_in, *links)
        row, cells, about = self.rows_of(here)
        column = to[about]
        stays = np.flatnonzero(column >= 0)
        cell = made.cell(to[here][row[stays]], column[stays])
        for name, unknown in _UNKNOWN.items():
            made.cells[name] = np.full(int(made.width.sum()), unknown, dtype=np.int32)
            made.cells[name][cell] = self.cells[name][cells[stays]]
        return made

    def forget(self, cells: np.ndarray) -> None:
        """Set cells, given by index, to the values of unknown members."""
        for name, unknown in _UNKNOWN.items():
            self.cells[name][cells] = unknown


class Squares:
    """The cells of groups with the same number of entries: a matrix, with a row for each entry."""

    def __init__(self, meshes: Meshes, e: np.ndarray, width: int) -> None:
        self._meshes, self.e, self._width = meshes, e, width
        self._cells: Any = slice(None)
        if len(e) < len(meshes.node):
            self._cells = (meshes.start[e][:, None] + np.arange(width)).ravel()

    def slots(self, readers: np.ndarray) -> list[np.ndarray]:
        """Return the first link of each entry that `readers` marks, the second link, and so on."""
        e = self.e[readers[self.e]]
        first, end = (np.searchsorted(self._meshes.a, e, side) for side in ("left", "right"))
        of, links = arrays.expand(first, end)
        return [links[turn] for turn in arrays.turns(of)]

    def rows(self, e: np.ndarray) -> np.ndarray:
        """Return the rows of entries, or NONE."""
        is_here = self._meshes.width[e] == self._width
        return np.where(is_here, self._meshes.rank[e], arrays.NONE)

    def columns(self, values: np.ndarray) -> np.ndarray:
        """Return values by entry, in each row those of the columns."""
        return np.repeat(values[self.e].reshape(-1, self._width), self._width, axis=0)

    def take(self, cells: np.ndarray) -> np.ndarray:
        """Return values by cell as a matrix."""
        return cells[self._cells].reshape(-1, self._width)

    def any_row(self, marks: np.ndarray) -> np.ndarray:
        """Return for each entry whether one row of its group marks its column."""
        return marks.reshape(-1, self._width, self._width).any(axis=1).ravel()

    def put(self, cells: np.ndarray, values: np.ndarray) -> None:
        """Write a matrix of values."""
        cells[self._cells] = values.ravel()


def state_table(state: Mapping[str, Columns], name: str) -> dict[str, np.ndarray]:
    """Return the columns of a table of a state, empty ones if the state has no such table."""
    columns = state.get(name) or {}
    return {one: columns.get(one, arrays.whole_numbers()) for one in ("group", *_COLUMNS[name])}
