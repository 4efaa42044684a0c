"""The groups of a world between two rounds as tables of flat rows: nothing else persists.

Rows name nodes and groups by their numbers, so that they can be read in any order, and in a round
in which more nodes are known.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import NONE, SortedTable, index_in_run, key_of
from scribe_spark.engine import Columns
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.overlay_state import NEVER
from scribe_spark.scribe.duplicates import got_columns, got_of
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.state import (
    NOTHING,
    Addresses,
    Children,
    Copies,
    DeadRoots,
    Entries,
    Kept,
    Lacking,
    Missing,
    Paths,
    Publications,
    Repairs,
    Replicas,
    Resent,
    ScribeState,
    Values,
)
from scribe_spark.scribe.upcalls import Application

__all__ = ["from_tables", "table_of_rows", "to_tables"]

#: Columns that name nodes; `root` of entries says whether a node is one.
_NODES = frozenset({"node", "child", "parent", "creator", "root"})

#: What the numbers of a key are.
_NODE, _EDGE = ("group", "node"), ("group", "node", "child")

_SORTED: dict[str, tuple[type[SortedTable], tuple[str, ...]]] = {
    "entries": (Entries, _NODE),
    "children": (Children, _EDGE),
    "copies": (Copies, _NODE),
    "replicas": (Replicas, _EDGE),
    "addresses": (Addresses, _NODE),
    "unknown_members": (SortedTable, _NODE),
    "dead_roots": (DeadRoots, _NODE),
    "lacking": (Lacking, _NODE),
}

_PLAIN: dict[str, type[Kept | Publications | Missing | Resent]] = {
    "kept": Kept,
    "publications": Publications,
    "missing": Missing,
    "resent": Resent,
}

_APPLICATION = "application "

#: Columns that are of one round alone, and what they begin with.
_OF_A_ROUND = {"extra": NOTHING, "got_payload": False, "heeded": False}


class _Names:
    """Numbers of nodes and groups, and their places in a round."""

    def __init__(self, known: Ring, groups: Groups) -> None:
        self.size = len(known)
        self.node = np.r_[known.node, NONE]  # what NONE indexes is NONE
        self.group = groups.number

    @functools.cached_property
    def position(self) -> np.ndarray:
        """The position of the node of each number, NONE for NONE."""
        position = np.full(int(self.node.max()) + 2, NONE)
        position[self.node[:-1]] = np.arange(self.size)
        return position

    def outside(self, columns: Columns) -> pa.Table:
        """Columns of positions and indices as a table of numbers."""
        return pa.table({name: self._number(name, part) for name, part in columns.items()})

    def _number(self, name: str, part: np.ndarray) -> np.ndarray:
        if name == "group":
            return self.group[part]
        return self.node[part] if name in _NODES and part.dtype != bool else part

    def inside(self, table: pa.Table) -> dict[str, np.ndarray]:
        """The columns of a table of numbers, as positions and indices."""
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        return {name: self._place(name, part) for name, part in columns.items()}

    def _place(self, name: str, part: np.ndarray) -> np.ndarray:
        if name == "group":
            return np.searchsorted(self.group, part)
        return self.position[part] if name in _NODES and part.dtype != bool else part.copy()


def to_tables(
    state: ScribeState, groups: Groups, known: Ring, application: Application | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """Yield all that has to be kept of the groups from round to round: tables and their names.

    Parameters
    ----------
    known : Ring
        The nodes of the round, in the order of nodeIds.
    application : Application, optional
        Its memory is kept, too.
    """
    names = _Names(known, groups)
    for name in _SORTED:
        yield name, _outside(name, getattr(state, name), names)
    for name in _PLAIN:
        yield name, names.outside(dict(vars(getattr(state, name))))
    repairs = state.repairs
    group, child = np.divmod(repairs.place, state.size)
    dead = {"died": repairs.died, "node": repairs.node, "group": group, "child": child}
    yield "repairs", names.outside(dead)
    yield "got", names.outside(got_columns(state.got, groups, known))
    came = np.flatnonzero(state.incarnation != NEVER)
    yield "incarnations", names.outside({"node": came, "round": state.incarnation[came]})
    yield "created", names.outside({"group": np.flatnonzero(state.created)})
    some = np.flatnonzero(state.newest >= 0)
    yield "newest", names.outside({"group": some, "publication": state.newest[some]})
    yield "values", _values_table(state.values)
    row, place = np.nonzero(state.paths.nodes >= 0)
    above = state.paths.nodes[row, place]
    yield "paths", names.outside({"path": row, "place": place, "node": above})
    if application is not None:
        for name, memory in application.tables().items():
            yield _APPLICATION + name, names.outside(memory)


def table_of_rows(name: str, table: SortedTable, groups: Groups, known: Ring) -> pa.Table:
    """Return one of the tables of :func:`to_tables`, of what some nodes know."""
    return _outside(name, table, _Names(known, groups))


def _outside(name: str, table: SortedTable, names: _Names) -> pa.Table:
    columns = table.to_columns(_SORTED[name][1], names.size)
    for one in _OF_A_ROUND:
        columns.pop(one, None)
    return names.outside(columns)


def from_tables(
    tables: Mapping[str, pa.Table],
    groups: Groups,
    known: Ring,
    application: Application | None = None,
) -> ScribeState:
    """Return what :func:`to_tables` has kept; `known` may have more nodes, rows any order.

    Parameters
    ----------
    application : Application, optional
        One that remembers nothing yet, and takes back its memory.
    """
    names = _Names(known, groups)
    state = ScribeState.empty(len(known), len(groups))
    for name, (_, parts) in _SORTED.items():
        columns = names.inside(tables[name])
        n = len(columns[parts[0]])
        columns |= {one: np.full(n, value) for one, value in _OF_A_ROUND.items()}
        getattr(state, name).take_back(columns, parts, state.size)
    for name, kind in _PLAIN.items():
        columns = names.inside(tables[name])
        empty = vars(kind())
        setattr(state, name, kind(**{one: columns[one].astype(empty[one].dtype) for one in empty}))
    repairs = names.inside(tables["repairs"])
    place = key_of([repairs["group"], repairs["child"]], state.size)
    state.repairs = Repairs(repairs["died"], repairs["node"], place)
    state.got = got_of(names.inside(tables["got"]), groups, known)
    came = names.inside(tables["incarnations"])
    state.incarnation[came["node"]] = came["round"]
    state.created[names.inside(tables["created"])["group"]] = True
    newest = names.inside(tables["newest"])
    state.newest[newest["group"]] = newest["publication"]
    state.values = _values(tables["values"])
    state.paths = _paths(names.inside(tables["paths"]))
    if application is not None:
        application.restore(
            {
                name.removeprefix(_APPLICATION): names.inside(tables[name])
                for name in tables
                if name.startswith(_APPLICATION)
            }
        )
    return state


def _values_table(values: Values) -> pa.Table:
    """``value, place, number``: what an application keeps in the groups' states."""
    value, number = values.of(np.arange(len(values)))
    return pa.table({"value": value, "place": index_in_run(value), "number": number})


def _values(table: pa.Table) -> Values:
    value, place, number = (table.column(name).to_numpy() for name in table.column_names)
    return Values(np.bincount(value), number[np.lexsort((place, value))])


def _paths(columns: dict[str, np.ndarray]) -> Paths:
    row, place = columns["path"], columns["place"]
    shape = int(row.max(initial=NONE)) + 1, int(place.max(initial=NONE)) + 1
    nodes = np.full(shape, NONE, dtype=np.int32)
    nodes[row, place] = columns["node"]
    return Paths(nodes)
