"""Watched trees: the effect of failures on a few small trees, round by round.

To keep the table small, a tree is recorded only around failures: when a node with children has
died, the tree before and after that round, and then the tree after each round until no node in it
is an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.core.arrays import Rows, expand, find_sorted, flags, whole_numbers
from scribe_spark.core.keys import key_of
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import ScribeState

#: The values of ``moment`` in `schemas.WATCHED_TREES`.
BEFORE, AFTER = "before", "after"

#: The maximal number of watched groups; groups with a number of members nearest to :data:`MEMBERS`
#: are chosen.
WATCHED, MEMBERS = 8, 14

#: Trees with more nodes are not recorded.
MOST_NODES = 64


def watched_groups(numbers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the groups whose trees are watched, of groups with numbers of members; ascending."""
    apart = np.abs(sizes - MEMBERS)
    return np.sort(numbers[np.argsort(apart, kind="stable")[:WATCHED]])


@dataclass(frozen=True)
class Tree(Rows):
    """A group's tree between two rounds; arrays of shape (n,), sorted by node position.

    `parent` is negative at the root and at nodes without a parent, and may be dead.  A node is an
    `orphan` if it is not the root and no live node is its parent and knows it as a child.
    """

    node: np.ndarray
    parent: np.ndarray
    member: np.ndarray
    root: np.ndarray
    orphan: np.ndarray


#: The tables of the watched trees: entries (``group, node, parent, member, root``), and the edges
#: in children tables (``group, parent, child``), with indices of groups and positions of nodes.
#: They stay until the end of the next round; then they are the trees before that round.
TREES_SEEN = _ENTRIES, _EDGES = "scribe watched entries", "scribe watched edges"
TREES_BEFORE = tuple(f"{name} before" for name in TREES_SEEN)


@dataclass(frozen=True)
class SeeTrees(RoundProgram):
    """Record what a bucket's nodes know about watched trees: the tables :data:`TREES_SEEN`.

    `watched` are the indices of the groups.
    """

    watched: np.ndarray

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        for name, before in zip(TREES_SEEN, TREES_BEFORE, strict=True):
            if name in tables:
                tables[before] = tables.pop(name)
        for name, columns in watched_rows(scribe.state, self.watched).items():
            scribe.note(name, **columns)


def watched_rows(state: ScribeState, watched: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """Return the tables :data:`TREES_SEEN` of some nodes; trees that are too large are cut."""
    size, entries, children = state.size, state.entries, state.children
    first, last = (np.searchsorted(entries.key, (watched + n) * size) for n in (0, 1))
    small = last - first <= MOST_NODES
    _, row = expand(first, np.minimum(last, first + MOST_NODES + 1))
    group, node = np.divmod(entries.key[row], size)
    seen = {name: getattr(entries, name)[row] for name in ("parent", "member", "root")}
    first, last = (
        np.searchsorted(children.key, (watched[small] + n) * size * size) for n in (0, 1)
    )
    place, child = np.divmod(children.key[expand(first, last)[1]], size)
    edges = dict(zip(("group", "parent"), np.divmod(place, size), strict=True))
    return {_ENTRIES: {"group": group, "node": node, **seen}, _EDGES: {**edges, "child": child}}


def trees_of(
    taken: Mapping[str, Columns], names: tuple[str, ...], watched: np.ndarray, size: int
) -> dict[int, Tree]:
    """Return the watched trees by the index of the group; dead nodes are left out.

    `taken` has the tables `names` (:data:`TREES_SEEN` or :data:`TREES_BEFORE`) of all buckets;
    `size` is the number of nodes.
    """
    entries, edges = taken.get(names[0], _NO_ENTRIES), taken.get(names[1], _NO_EDGES)
    order = np.lexsort((entries["node"], entries["group"]))
    group, node, parent, member, root = (
        entries[name][order] for name in ("group", "node", "parent", "member", "root")
    )
    has_child = np.sort(key_of([edges[name] for name in ("group", "parent", "child")], size))
    edge = key_of([group, np.maximum(parent, 0), node], size)
    attached = root | ((parent >= 0) & (find_sorted(has_child, edge) >= 0))
    together = Tree(node, parent, member, root, ~attached)
    return {one: together.take(np.flatnonzero(group == one)) for one in watched.tolist()}


_NO_EDGES = {name: whole_numbers() for name in ("group", "parent", "child")}
_NO_ENTRIES = {
    **{name: whole_numbers() for name in ("group", "node", "parent")},
    **{name: flags() for name in ("member", "root")},
}


def tree_rows(
    number: int,
    before: Mapping[int, Tree],
    after: Mapping[int, Tree],
    groups: np.ndarray,
    known: Ring,
    alive: np.ndarray,
) -> pa.Table:
    """Return the rows of the watched trees after a round: `schemas.WATCHED_TREES`.

    Trees before and after the round are by the index of the group, in the numbers `groups`; `alive`
    (bool, shape (K,)) marks the nodes that are alive after it.
    """
    parts = []
    for group, old in before.items():
        new, died = after[group], ~alive[old.node]
        struck = bool((died & np.isin(old.node, old.parent)).any())
        if max(len(old.node), len(new.node)) > MOST_NODES:
            continue
        if struck:
            parts.append(_rows(number, BEFORE, group, old, alive=True))
        if struck or old.orphan.any() or new.orphan.any():
            parts.append(_rows(number, AFTER, group, new, alive=True))
            gone = old.take(died & ~np.isin(old.node, new.node))
            parts.append(_rows(number, AFTER, group, gone, alive=False))
    wanted = to_arrow_schema(schemas.WATCHED_TREES)
    if not parts:
        return wanted.empty_table()
    columns = {name: np.concatenate([part[name] for part in parts]) for name in wanted.names}
    columns["group"] = groups[columns["group"]]
    columns["node"], parent = known.node[columns["node"]], columns["parent"]
    cells = {name: pa.array(part) for name, part in columns.items()}
    cells["parent"] = pa.array(known.node[parent], mask=parent < 0)
    return pa.table(cells, schema=wanted)


def all_told(rounds: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Combine `schemas.WATCHED_TREES` of several rounds; a missing parent becomes None."""
    parts = [told.astype({"parent": "Int64"}) for told in rounds if len(told)]
    if not parts:
        return pd.DataFrame(columns=schemas.WATCHED_TREES.names)
    trees = pd.concat(parts, ignore_index=True)
    return trees.astype({"parent": object}).where(trees.notna(), None)


def _rows(number: int, moment: str, group: int, tree: Tree, alive: bool) -> dict[str, np.ndarray]:
    """Return columns of `schemas.WATCHED_TREES`, with indices of groups and positions of nodes."""
    n = len(tree.node)
    return {
        "round": np.full(n, number),
        "moment": np.full(n, moment, dtype=object),
        "group": np.full(n, group),
        **vars(tree),
        "alive": np.full(n, alive),
    }
