"""The paths of nodes from the root, as they know them: answers to JOINs and heartbeats bring them.

References
----------
JSAC 2002, Section III.A.2.  docs/rules.md, S10 and S11.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import NONE, expand
from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.scribe.leave import lose_parent, send_leave
from scribe_spark.scribe.scribe import Scribe

#: A parent tells its child who is above it.
PATH = "path"


def paths_above(scribe: Scribe, rows: np.ndarray) -> np.ndarray:
    """Return whom nodes, by rows of `Entries`, know above themselves, as `Paths`; NONE: nobody."""
    there = rows >= 0
    index = np.full(len(rows), NONE)
    index[there] = scribe.state.entries.path[rows[there]]
    return scribe.state.paths.of(index)


def on_path(scribe: Scribe, rows: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return which sources are on the paths of nodes (rows of `Entries`) as these know them: bool.

    A node is on its own path; a row that is NONE has none.  Where all is settled no JOIN comes to a
    node below its source, and nobody asks.
    """
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
    """Nodes, by rows of `Entries`, have heard of a parent and of those above that.

    Return which of them have another path now.
    """
    entries, paths = scribe.state.entries, scribe.state.paths
    if not len(rows):
        return np.empty(0, dtype=bool)
    nodes = np.column_stack([parent.astype(np.int32), above.astype(np.int32)])
    before = paths.of(entries.path[rows])
    width = max(before.shape[1], nodes.shape[1])
    before, nodes = (_widened(one, width) for one in (before, nodes))
    changed = (before != nodes).any(axis=1)
    # those that are told by the same parent share what they are told
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
    """Parents tell their children their paths, if these have changed since they did so last.

    Heartbeats and payloads carry them; so this is not counted.
    """
    entries, children = scribe.state.entries, scribe.state.children
    moved = np.flatnonzero(entries.moved)
    entries.moved[moved] = False
    first = np.searchsorted(children.key, entries.key[moved] * scribe.state.size)
    last = np.searchsorted(children.key, (entries.key[moved] + 1) * scribe.state.size)
    which, edge = expand(first, last)
    group, parent = scribe.split(entries.key[moved[which]])
    child = children.key[edge] % scribe.state.size
    alive = scribe.is_alive(child)
    which, group, parent, child = which[alive], group[alive], parent[alive], child[alive]
    scribe.tell(PATH, child, group=group, parent=parent, path=paths_above(scribe, moved[which]))


def take_paths(scribe: Scribe, told: Columns) -> None:
    """Children receive the paths above their parents.

    Who finds itself on a path that is new to it leaves its parent.
    """
    entries = scribe.state.entries
    child = told[AT]
    row = scribe.entry(told["group"], child)
    mine = row >= 0
    mine[mine] = entries.parent[row[mine]] == told["parent"][mine]
    row, parent, path = row[mine], told["parent"][mine], told["path"][mine]
    node = child[mine]
    circle = note_paths(scribe, row, parent, path) & (path == node[:, None]).any(axis=1)
    row, node, parent = row[circle], node[circle], parent[circle]
    group, number = told["group"][mine][circle], entries.number[row]
    lose_parent(scribe, row, "cycle")
    send_leave(scribe, group, node, parent, number)


def forget_paths(scribe: Scribe) -> None:
    """Forget the paths that no node has any more, once they are as many as the others."""
    entries, paths = scribe.state.entries, scribe.state.paths
    used = np.zeros(len(paths) + 1, dtype=bool)
    used[entries.path] = True  # the last one is that of NONE
    kept = np.flatnonzero(used[:-1])
    if 2 * len(kept) + 1000 > len(paths):
        return
    number = np.full(len(paths) + 1, NONE, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    entries.path[:] = number[entries.path]
    paths.nodes = paths.nodes[kept]
