"""Each node's path to the root, as the node knows it from answers to JOINs and from heartbeats.

JSAC 2002, Section III.A.2. docs/rules.md, S10 and S11.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe.leave import lose_parent, send_leave
from scribe_spark.systems.scribe.scribe import Scribe

#: The message in which a parent sends its child the path above itself.
PATH = "path"


def paths_above(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """Return the path of each row of `Entries`: positions from parent to root, then NONE."""
    there = rows >= 0
    index = np.full(len(rows), NONE)
    index[there] = scribe.state.entries.path[rows[there]]
    return scribe.state.paths.of(index)


def on_path(scribe: Scribe, rows: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return True for sources that are the node itself or on its known path to the root."""
    if scribe.settled:
        return np.zeros(len(rows), dtype=bool)
    entries = scribe.state.entries
    there = rows >= 0
    found = (paths_above(scribe, rows) == source[:, None]).any(axis=1)
    found[there] |= entries.key[rows[there]] % scribe.state.size == source[there]
    return found


def note_paths(
    scribe: Scribe, rows: np.ndarray, parent: np.ndarray, above: np.ndarray
) -> np.ndarray:
    """Record paths to the root: the parent and its path `above`; return which have changed."""
    entries, paths = scribe.state.entries, scribe.state.paths
    if not len(rows):
        return np.empty(0, dtype=bool)
    nodes = np.column_stack([parent.astype(np.int32), above.astype(np.int32)])
    before = paths.of(entries.path[rows])
    width = max(before.shape[1], nodes.shape[1])
    before, nodes = (_widened(one, width) for one in (before, nodes))
    changed = (before != nodes).any(axis=1)
    # children of the same parent share one stored path
    group = entries.key[rows[changed]] // scribe.state.size
    _, first, which = np.unique(
        scribe.key(group, parent[changed]), return_index=True, return_inverse=True
    )
    entries.path[rows[changed]] = paths.add(nodes[changed][first])[which]
    entries.moved[rows[changed]] = True
    return changed


def _widened(nodes: np.ndarray, width: int) -> np.ndarray:
    missing = width - nodes.shape[1]
    return np.pad(nodes, ((0, 0), (0, missing)), constant_values=NONE) if missing else nodes


def tell_paths(scribe: Scribe) -> None:
    """Send changed paths to children, uncounted: heartbeats and payloads would carry a path."""
    entries, children = scribe.state.entries, scribe.state.children
    moved = np.flatnonzero(entries.moved)
    entries.moved[moved] = False
    which, edge = scribe.children_of(entries.key[moved])
    group, parent = scribe.split(entries.key[moved[which]])
    child = children.key[edge] % scribe.state.size
    alive = scribe.is_alive(child)
    which, group, parent, child = which[alive], group[alive], parent[alive], child[alive]
    scribe.tell(PATH, child, group=group, parent=parent, path=paths_above(scribe, moved[which]))


def take_paths(scribe: Scribe, told: Columns) -> None:
    """Record told paths; a node on its own changed path is in a cycle, and leaves its parent."""
    entries, node = scribe.state.entries, told[AT]
    mine, row = scribe.under(told["group"], node, told["parent"])
    node, parent, path = node[mine], told["parent"][mine], told["path"][mine]
    circle = note_paths(scribe, row, parent, path) & (path == node[:, None]).any(axis=1)
    row, node, parent = row[circle], node[circle], parent[circle]
    group, number = told["group"][mine][circle], entries.number[row]
    lose_parent(scribe, row, "cycle")
    send_leave(scribe, group, node, parent, number)


def forget_paths(scribe: Scribe) -> None:
    """Delete stored paths that no node has, once they are half of all paths."""
    entries, paths = scribe.state.entries, scribe.state.paths
    used = np.zeros(len(paths) + 1, dtype=bool)
    used[entries.path] = True  # the last element is written by NONE
    kept = np.flatnonzero(used[:-1])
    if 2 * len(kept) + 1000 > len(paths):
        return
    number = np.full(len(paths) + 1, NONE, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    entries.path[:] = number[entries.path]
    paths.nodes = paths.nodes[kept]
