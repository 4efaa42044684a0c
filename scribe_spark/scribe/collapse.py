"""Collapse: nodes that only pass messages on to one child leave; their parents take the child.

References
----------
JSAC 2002, Section IV.F: "the algorithm collapses long paths in the tree by removing nodes that are
not members of a group and have only one entry in the group's children table".  docs/rules.md, S30.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.scribe.join import Requests, note_joins, receive_joins
from scribe_spark.scribe.leave import lose_parent, send_leave
from scribe_spark.scribe.scribe import Scribe

__all__ = ["collapse"]


def collapse(scribe: Scribe) -> None:
    """After the round's JOINs: such nodes leave, from above downwards, until none may."""
    if not scribe.rules.collapse:
        return
    asked = np.empty(0, dtype=np.int64)
    while True:
        place, child = _candidates(scribe)
        group, node = scribe.split(place)
        parent = scribe.state.entries.parent[scribe.state.entries.find(place)]
        # 1. each asks its parent, once; that permits it unless it would leave itself
        question = scribe.key(place, parent)
        new = ~np.isin(question, asked)
        asked = np.union1d(asked, question)
        permitted = new.copy()
        permitted[new] = scribe.send("collapse", node[new], parent[new])
        above = scribe.key(group, parent)
        permitted &= scribe.state.children.has(scribe.key(above, node))
        permitted &= ~np.isin(above, place)
        if not permitted.any():
            return
        # 2. who may leaves, and its child joins its parent
        moving = _leave(scribe, place[permitted], parent[permitted], child[permitted])
        while len(moving.at):
            moving = receive_joins(scribe, moving)


def _candidates(scribe: Scribe) -> tuple[np.ndarray, np.ndarray]:
    """Who would leave, as (group, node), ascending; and their only children."""
    entries = scribe.state.entries
    every, child = scribe.split(scribe.state.children.key)
    place, first, children = np.unique(every, return_index=True, return_counts=True)
    place, child = place[children == 1], child[first[children == 1]]
    row = entries.find(place)
    would = ~entries.member[row] & ~entries.root[row]
    would &= (entries.parent[row] >= 0) & (entries.parent[row] != child)
    return place[would], child[would]


def _leave(scribe: Scribe, place: np.ndarray, parent: np.ndarray, child: np.ndarray) -> Requests:
    """Nodes leave and tell their only children; return the JOINs that these send."""
    entries, children = scribe.state.entries, scribe.state.children
    group, node = scribe.split(place)
    row = entries.find(place)
    number = entries.number[row]
    entries.drop(row)
    children.drop(children.find(scribe.key(place, child)))
    send_leave(scribe, group, node, parent, number)
    told = scribe.send("collapse", node, child)
    row = scribe.entry(group, child)
    told &= row >= 0
    told[told] = entries.parent[row[told]] == node[told]
    lose_parent(scribe, row[told], "collapse")
    joins = note_joins(scribe, row[told])
    scribe.send("JOIN", child[told], parent[told])
    return Requests.sent_to(joins, parent[told])
