"""A few small trees of a world that are watched: what failures do to them, round by round.

Trees are told in the rounds in which something befalls them, so that their table stays small: when
a node with children has died, the tree before the round and after it, and then the tree after each
round up to the first in which nobody in it is an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.scribe.group_keys import Groups
from scribe_spark.scribe.state import ScribeState
from scribe_spark.worlds.groups import WorldGroups

__all__ = ["AFTER", "BEFORE", "Tree", "all_told", "told_trees", "tree_of", "watched_groups"]

#: Values of ``moment`` in `schemas.WATCHED_TREES`.
BEFORE, AFTER = "before", "after"

#: So many groups are watched at most; those whose number of members is nearest to :data:`MEMBERS`.
WATCHED, MEMBERS = 8, 14

#: Trees of more nodes are not told.
MOST_NODES = 64


def watched_groups(groups: WorldGroups, initial: int) -> np.ndarray:
    """The groups whose trees are watched: their numbers, ascending.

    Parameters
    ----------
    initial : int
        How many nodes are alive at the start.
    """
    apart = np.abs(groups.sizes(initial) - MEMBERS)
    return np.sort(groups.numbers[np.argsort(apart, kind="stable")[:WATCHED]])


@dataclass(frozen=True)
class Tree:
    """A group's tree between two rounds; arrays of shape (n,), nodes by position, ascending.

    Attributes
    ----------
    node, parent : ndarray of int64
        `parent` is negative at the root and at nodes that wait for one; it may be dead.
    member, root : ndarray of bool
    orphan : ndarray of bool
        Not the root, and no live node is the parent and has the node as a child.
    """

    node: np.ndarray
    parent: np.ndarray
    member: np.ndarray
    root: np.ndarray
    orphan: np.ndarray

    @property
    def inner(self) -> np.ndarray:
        """Return the nodes that are parents of others: bool, shape (n,)."""
        return np.isin(self.node, self.parent)

    def take(self, which: np.ndarray) -> Tree:
        """Some of its nodes."""
        return Tree(*[part[which] for part in vars(self).values()])


def tree_of(state: ScribeState, group: int) -> Tree:
    """The tree of a group, by its index.

    It is read off the children tables and the entries; dead nodes have none.
    """
    size, entries = state.size, state.entries
    first, last = np.searchsorted(entries.key, (group * size, (group + 1) * size))
    rows = np.arange(first, last)
    node, parent, root = entries.key[rows] % size, entries.parent[rows], entries.root[rows]
    has_parent = parent >= 0
    edge = (group * size + parent[has_parent]) * size + node[has_parent]
    attached = root.copy()
    attached[has_parent] |= state.children.find(edge) >= 0
    return Tree(node, parent, entries.member[rows], root, ~attached)


def told_trees(
    number: int,
    before: dict[int, Tree],
    state: ScribeState,
    groups: Groups,
    overlay: OverlayState,
) -> pa.Table:
    """Return the rows of the watched trees after a round: `schemas.WATCHED_TREES`.

    Parameters
    ----------
    number : int
        The round.
    before : dict of int to Tree
        By the group's index: the watched trees as they were before the round.
    state : ScribeState
        After the round.
    """
    parts = []
    for group, old in before.items():
        new, died = tree_of(state, group), ~overlay.alive[old.node]
        struck = bool((died & old.inner).any())
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
    columns["group"] = groups.number[columns["group"]]
    names = overlay.states.known.node
    columns["node"], parent = names[columns["node"]], columns["parent"]
    cells = {name: pa.array(part) for name, part in columns.items()}
    cells["parent"] = pa.array(names[parent], mask=parent < 0)
    return pa.table(cells, schema=wanted)


def all_told(rounds: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """`schemas.WATCHED_TREES` of several rounds; the parent of who has none is None."""
    parts = [told.astype({"parent": "Int64"}) for told in rounds if len(told)]
    if not parts:
        return pd.DataFrame(columns=schemas.WATCHED_TREES.names)
    trees = pd.concat(parts, ignore_index=True)
    return trees.astype({"parent": object}).where(trees.notna(), None)


def _rows(number: int, moment: str, group: int, tree: Tree, alive: bool) -> dict[str, np.ndarray]:
    """The columns of `schemas.WATCHED_TREES`, groups by index and nodes by position."""
    n = len(tree.node)
    return {
        "round": np.full(n, number),
        "moment": np.full(n, moment, dtype=object),
        "group": np.full(n, group),
        **vars(tree),
        "alive": np.full(n, alive),
    }
