"""The ways from nodes of trees up to the roots, as parents are; and cycles of parents.

References
----------
JSAC 2002, Section III.A.2.  docs/rules.md: a node answers no JOIN of a node on its own path.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.scribe.nearness import nearness_order
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause

__all__ = ["break_cycles", "on_chain", "tops", "under_root"]


def on_chain(scribe: Scribe, rows: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the sources that are on the way from nodes (rows of `Entries`) to the root: indices.

    The way is a node, its parent, and so on, as far as live nodes of the tree are met; a row that
    is NONE has none.
    """
    entries = scribe.state.entries
    which = np.flatnonzero(rows >= 0)
    at, found = rows[which], []
    anchor, steps, limit = at, 0, 1
    while len(which):
        hit = entries.key[at] % scribe.state.size == source[which]
        found.append(which[hit])
        which, at, anchor = which[~hit], at[~hit], anchor[~hit]
        at = _parents(scribe, at)
        on = (at >= 0) & (at != anchor)  # a way that comes back to the anchor is a cycle
        which, at, anchor = which[on], at[on], anchor[on]
        if (steps := steps + 1) == limit:
            anchor, limit = at, 2 * limit
    return np.sort(np.concatenate(found)) if found else which


def tops(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """Return the last node on the way from nodes (rows of `Entries`) up; NONE if it is a cycle."""
    entries, top = scribe.state.entries, np.full(len(rows), NONE, dtype=np.int64)
    which, at = np.arange(len(rows)), rows
    anchor, steps, limit = at, 0, 1
    while len(which):
        up = _parents(scribe, at)
        ends = up < 0
        top[which[ends]] = entries.key[at[ends]] % scribe.state.size
        on = ~ends & (up != anchor)
        which, at, anchor = which[on], up[on], anchor[on]
        if (steps := steps + 1) == limit:
            anchor, limit = at, 2 * limit
    return top


def under_root(scribe: Scribe, rows: np.ndarray, orphans: np.ndarray) -> np.ndarray:
    """Whether what a root sends reaches nodes, by rows of `Entries`: bool.

    Parameters
    ----------
    orphans : ndarray of bool
        Of all rows: not the root, and no live node is both the parent and has it as a child.
    """
    entries, reached = scribe.state.entries, np.zeros(len(rows), dtype=bool)
    which, at = np.arange(len(rows)), rows
    anchor, steps, limit = at, 0, 1
    while len(which):
        reached[which] = entries.root[at]
        on = ~entries.root[at] & ~orphans[at]
        which, at, anchor = which[on], _parents(scribe, at[on]), anchor[on]
        on = at != anchor
        which, at, anchor = which[on], at[on], anchor[on]
        if (steps := steps + 1) == limit:
            anchor, limit = at, 2 * limit
    return reached


def _parents(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """The rows of the parents of rows, NONE where there is no live node of the tree."""
    entries = scribe.state.entries
    group, parent = entries.key[rows] // scribe.state.size, entries.parent[rows]
    up = scribe.entry(group, np.maximum(parent, 0))
    return np.where(parent >= 0, up, NONE)


def break_cycles(scribe: Scribe) -> None:
    """Break cycles of parents: the node of each that is nearest to the groupId leaves its parent.

    Only JOINs answered in the same superstep could make one, so ways begin at who joined now.
    """
    entries = scribe.state.entries
    for cycle in _cycles(scribe, np.flatnonzero(entries.number == scribe.number)):
        group, node = scribe.split(entries.key[cycle])
        top = cycle[nearness_order(scribe, group, node)[:1]]
        group, node = scribe.split(entries.key[top])
        scribe.tally.send("LEAVE", np.ones(1, dtype=bool), node, entries.parent[top])
        edge = scribe.key(scribe.key(group, entries.parent[top]), node)
        row = scribe.state.children.find(edge)
        scribe.state.children.drop(row[row >= 0])
        entries.parent[top], entries.cause[top] = NONE, cause("cycle")


def _cycles(scribe: Scribe, start: np.ndarray) -> list[np.ndarray]:
    """The cycles that ways from some rows lead into, each as its rows; hardly ever any."""
    at, anchor, steps, limit = start, start, 0, 1
    looping: list[int] = []
    while len(at):
        at = _parents(scribe, at)
        looping += at[(at >= 0) & (at == anchor)].tolist()
        on = (at >= 0) & (at != anchor)
        at, anchor = at[on], anchor[on]
        if (steps := steps + 1) == limit:
            anchor, limit = at, 2 * limit
    cycles, seen = [], set[int]()
    for first in sorted(set(looping)):
        if first in seen:
            continue
        cycle = [first]
        while (following := int(_parents(scribe, np.array(cycle[-1:]))[0])) != first:
            cycle.append(following)
        seen.update(cycle)
        cycles.append(np.array(cycle))
    return cycles
