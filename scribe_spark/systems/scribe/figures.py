"""``forward`` and ``deliver`` of Figures 3 and 4, for all messages that arrive in a superstep.

The papers handle one message at a time.  Here, all messages of one kind are arrays, for all nodes
and all groups together; the result does not depend on the order of the messages.  Numbers in
parentheses are line numbers of the figures.  Of Figure 4, lines 5 to 8 (MULTICAST) are in
`multicast` and `emitting`, lines 10 and 11 (LEAVE) in `leave`.

JSAC 2002, Section III.A, Figures 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.systems.scribe.paths_to_root import note_paths, paths_above
from scribe_spark.systems.scribe.scribe import Joins, Scribe

#: The answer to a JOIN.
ANSWER = "answer"

#: The table of added children for which joinHandler is still to be called: the parent (``at``) and
#: the columns of the child's JOIN.
ADDED = "scribe added"

#: The table of JOINs that roots have answered: ``group, source``.
AT_ROOT = "scribe at root"


def forward(
    scribe: Scribe, at: np.ndarray, joins: Joins, route: Callable[[np.ndarray], None]
) -> None:
    """Forward JOINs at nodes on their way to the groupId (Figure 3, line 1).

    ``route(pairs)`` sends the JOINs of nodes that enter the tree, given as sorted keys (group,
    node).
    """
    pair = scribe.key(joins.group, at)
    new = distinct(pair[~scribe.state.entries.has(pair)])  # (3) if !(msg.group in groups)
    scribe.state.entries.enter(new, scribe.number, "forwarder")  # (4) groups = groups + msg.group
    route(new)  # (5) route(msg, msg.group)
    _add_children(scribe, at, joins)  # (6) groups[msg.group].children + msg.source
    # (7) nextId = null: the caller forwards none of the messages


def deliver_create(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, creator: np.ndarray
) -> None:
    """Store a group's state at its root, a node without a state of it (Figure 4, line 3)."""
    state = {"epoch": scribe.number, "version": 0, "creator": creator, "value": -1}
    pair = scribe.key(group, node)
    scribe.state.copies.insert(pair, **state, root=node, incarnation=-1)  # (3) groups + msg.group


def deliver_join(scribe: Scribe, at: np.ndarray, joins: Joins) -> None:
    """Add children at roots (Figure 4, line 4)."""
    _add_children(scribe, at, joins)  # (4) groups[msg.group].children + msg.source


def _add_children(scribe: Scribe, at: np.ndarray, joins: Joins) -> None:
    """Add children at the nodes `at` and answer their JOINs; joinHandler is called later."""
    edge = scribe.edge(joins.group, at, joins.source)
    scribe.state.children.put(edge, number=joins.number, refreshed=scribe.number, got_payload=False)
    answer: dict[str, np.ndarray] = {"group": joins.group, "parent": at}
    if not scribe.settled:
        scribe.note(ADDED, at=at, **joins.to_columns())
        row = scribe.entry(joins.group, at)
        answer["by_root"] = scribe.state.entries.root[row]
        answer["path"] = paths_above(scribe, row)
    scribe.tell(ANSWER, joins.source, **answer)


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


def deliver_leave(
    scribe: Scribe, group: np.ndarray, node: np.ndarray, source: np.ndarray, number: np.ndarray
) -> None:
    """Drop children that send a LEAVE (Figure 4, line 9) no older than their last JOIN."""
    children = scribe.state.children
    row = children.find(scribe.edge(group, node, source))
    row, number = row[row >= 0], number[row >= 0]
    children.drop(row[children.number[row] <= number])  # (9) children - msg.source
