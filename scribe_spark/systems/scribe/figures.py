"""``forward`` and ``deliver`` of Figures 3 and 4, for all messages that arrive in a superstep.

The papers handle one message at a time.  Here, all messages of one kind are arrays, for all nodes
and all groups together; the result does not depend on the order of the messages.  Numbers in
parentheses are line numbers of the figures.  Of Figure 4, lines 5 to 8 (MULTICAST) are in
`multicast`.  The file also has the paths to the root.

JSAC 2002, Section III.A, Figures 3 and 4; docs/rules.md, S10 and S11.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, joined
from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe.scribe import Scribe, send_leave
from scribe_spark.systems.scribe.state import cause


def leave_trees(scribe: Scribe) -> None:
    """All nodes leave trees that do not need them (Figure 4, lines 10 and 11).

    By the printed lines, a member that loses its last child would leave, and a root would send a
    LEAVE although it has no parent.  Here a node leaves if it is not a member, not the root, and
    has no child.
    """
    _leave_up(scribe, np.arange(len(scribe.state.entries)))


def left_trees(scribe: Scribe, came: Columns) -> None:
    """Let nodes leave, too, that are not needed after a child has left by a LEAVE (`came`)."""
    row = distinct(scribe.entry(came["group"], came[AT]))
    _leave_up(scribe, row[row >= 0])


def _leave_up(scribe: Scribe, asked: np.ndarray) -> None:
    entries = scribe.state.entries
    idle = asked[~(entries.member[asked] | entries.root[asked])]
    # (10) if |groups[msg.group].children| = 0
    going = idle[~_has_child(scribe, entries.key[idle])]
    group, node = scribe.split(entries.key[going])
    parent, number = entries.parent[going], entries.number[going]
    entries.drop(going)
    up = parent >= 0
    # (11) send(msg, groups[msg.group].parent)
    send_leave(scribe, group[up], node[up], parent[up], number[up])


def _has_child(scribe: Scribe, pair: np.ndarray) -> np.ndarray:
    """Return whether nodes, given as keys (group, node), have a child."""
    edges = scribe.state.children.key
    first = np.searchsorted(edges, pair * scribe.state.size)
    first, beyond = np.minimum(first, len(edges) - 1), first == len(edges)
    return ~beyond & (edges[first] // scribe.state.size == pair) if len(edges) else ~beyond


def lose_parent(scribe: Scribe, rows: np.ndarray, why: str) -> None:
    """Remove the parents of nodes (rows of `Entries`), which will send JOINs of the cause `why`."""
    entries = scribe.state.entries
    entries.parent[rows], entries.cause[rows] = NONE, cause(why)
    entries.path[rows], entries.moved[rows] = NONE, True


# --- paths to the root, as nodes know them from answers to JOINs and from heartbeats (III.A.2)


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
    if scribe.settled:  # there, a JOIN never visits a node below its source
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
    both = joined([paths.of(entries.path[rows]), nodes])  # of equal widths
    nodes = both[len(rows) :]
    changed = (both[: len(rows)] != nodes).any(axis=1)
    # children of the same parent share one stored path
    group = entries.key[rows[changed]] // scribe.state.size
    _, first, which = np.unique(
        scribe.key(group, parent[changed]), return_index=True, return_inverse=True
    )
    entries.path[rows[changed]] = paths.add(nodes[changed][first])[which]
    entries.moved[rows[changed]] = True
    return changed


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


# --- `forward` and `deliver` of Figures 3 and 4


#: The answer to a JOIN.
ANSWER = "answer"

#: The table of added children for which joinHandler is still to be called: the parent (``at``) and
#: the columns of the child's JOIN.
ADDED = "scribe added"

#: The table of JOINs that roots have answered: ``group, source``.
AT_ROOT = "scribe at root"


def forward(
    scribe: Scribe, at: np.ndarray, joins: Columns, route: Callable[[np.ndarray], None]
) -> None:
    """Forward JOINs at nodes on their way to the groupId (Figure 3, line 1).

    ``route(pairs)`` sends the JOINs of nodes that enter the tree, given as sorted keys (group,
    node).
    """
    pair = scribe.key(joins["group"], at)
    new = distinct(pair[~scribe.state.entries.has(pair)])  # (3) if !(msg.group in groups)
    scribe.state.entries.enter(new, scribe.number, "forwarder")  # (4) groups = groups + msg.group
    route(new)  # (5) route(msg, msg.group)
    _add_children(scribe, at, joins)  # (6) groups[msg.group].children + msg.source
    # (7) nextId = null: the caller forwards none of the messages


def deliver_create(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, creator: np.ndarray
) -> None:
    """Store a group's state at its root, a node without a state of it (Figure 4, line 3)."""
    state = {"epoch": scribe.number, "version": 0, "creator": creator, "length": 0, "values": NONE}
    pair = scribe.key(group, node)
    scribe.state.copies.insert(pair, **state, root=node, incarnation=-1)  # (3) groups + msg.group


def deliver_join(scribe: Scribe, at: np.ndarray, joins: Columns) -> None:
    """Add children at roots (Figure 4, line 4)."""
    _add_children(scribe, at, joins)  # (4) groups[msg.group].children + msg.source


def _add_children(scribe: Scribe, at: np.ndarray, joins: Columns) -> None:
    """Add children at the nodes `at` and answer their JOINs; joinHandler is called later."""
    group, source = joins["group"], joins["source"]
    edge, now = scribe.edge(group, at, source), {"refreshed": scribe.number, "got_payload": False}
    scribe.state.children.put(edge, number=joins["number"], **now)
    answer: dict[str, np.ndarray] = {"group": group, "parent": at}
    if not scribe.settled:
        scribe.note(ADDED, at=at, **joins)
        row = scribe.entry(group, at)
        answer["by_root"] = scribe.state.entries.root[row]
        answer["path"] = paths_above(scribe, row)
    scribe.tell(ANSWER, source, **answer)


def take_answers(scribe: Scribe, answers: Columns) -> None:
    """Nodes take the sender of an answer as their parent; roots ignore answers."""
    entries = scribe.state.entries
    group, source, parent = answers["group"], answers[AT], answers["parent"]
    row = scribe.entry(group, source)
    takes = row >= 0
    takes[takes] = ~entries.root[row[takes]]
    row, parent = row[takes], parent[takes]
    entries.parent[row] = parent
    entries.heard[row] = scribe.number
    if not scribe.settled:
        note_paths(scribe, row, parent, answers["path"][takes])
        by_root = takes & answers["by_root"]
        scribe.note(AT_ROOT, group=group[by_root], source=source[by_root])
