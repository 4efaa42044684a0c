"""Roots: failover, and hand-over to a nearer newcomer.

References
----------
JSAC 2002, Section III.B.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.scribe.leave import send_leave
from scribe_spark.scribe.nearness import leaves_by_nearness, nearness_order, rank
from scribe_spark.scribe.replicas import (
    drop_far_copies,
    join_themselves,
    receive_states,
    replicate,
    root_is_gone,
    sent_states,
)
from scribe_spark.scribe.scribe import Scribe
from scribe_spark.scribe.state import cause

__all__ = ["become_root", "failover", "lost_groups", "new_leafs"]


def new_leafs(scribe: Scribe) -> None:
    """Whoever has a group's state looks at its leaf set (Pastry's upcall newLeafs)."""
    copies = scribe.state.copies
    group, node = scribe.split(copies.key)
    # 1. a root that is not the nearest hands over; who has a copy of a root that is gone, and is
    #    not the nearest, passes it on: all at once, to the nearest leaf
    near = rank(scribe, group, node)
    root = scribe.is_root(group, node)
    sends = np.flatnonzero((near > 0) & (root | root_is_gone(scribe)))
    leaf = leaves_by_nearness(scribe, group[sends], node[sends])[:, 0]
    arrives = scribe.send("replica", node[sends], leaf)
    sends, leaf = sends[arrives], leaf[arrives]
    order = nearness_order(scribe, group[sends], node[sends])
    sends, leaf = sends[order], leaf[order]
    states, hands = sent_states(scribe, sends, leaf), root[sends]
    passed_on = copies.key[sends[~hands]]
    receive_states(scribe, states)
    handed = states.take(hands)
    _step_down(scribe, handed.group, handed.sender, handed.to)
    become_root(scribe, np.unique(scribe.key(handed.group, handed.to)))
    # 2. failover
    failover(scribe)
    # 3. roots bring their replicas up to date
    scribe.changed = []
    replicate(scribe, scribe.state.entries.key[scribe.state.entries.root])
    # 4. who is not of the k nearest drops its copy, once that is safe
    drop_far_copies(scribe, passed_on)


def failover(scribe: Scribe) -> None:
    """Nodes that have a copy of a group's state and are the nearest to its key become the roots."""
    copies = scribe.state.copies
    nearest = rank(scribe, *scribe.split(copies.key)) == 0
    become_root(scribe, copies.key[nearest])


def _step_down(scribe: Scribe, group: np.ndarray, node: np.ndarray, successor: np.ndarray) -> None:
    """Old roots keep their subtrees, and join under the new ones in this round's JOINs."""
    entries, copies = scribe.state.entries, scribe.state.copies
    row = scribe.entry(group, node)
    entries.root[row], entries.tried[row] = False, True
    entries.cause[row] = cause("hand-over")
    copy = copies.find(scribe.key(group, node))
    copies.root[copy] = successor
    copies.incarnation[copy] = scribe.state.incarnation[successor]


def become_root(scribe: Scribe, place: np.ndarray) -> None:
    """Nodes that have a group's state are its roots from now on.

    Those of the tree take leave of their parents.  Of one that has sent a JOIN before, a JOIN that
    repairs is delivered at itself: no child is added, and joinHandler is called with it.

    Parameters
    ----------
    place : ndarray of int64
        (group, node), each once; roots already are passed over.
    """
    entries, copies = scribe.state.entries, scribe.state.copies
    place = place[~scribe.is_root(*scribe.split(place))]
    if not len(place):
        return
    entries.enter(place[~entries.has(place)], scribe.number, "own")
    group, node = scribe.split(place)
    row = entries.find(place)
    tried = entries.tried[row]
    join_themselves(scribe, group[tried], node[tried])
    parent = entries.parent[row]
    entries.parent[row], entries.root[row] = -1, True
    copy = copies.find(place)
    copies.root[copy], copies.incarnation[copy] = node, scribe.state.incarnation[node]
    scribe.changed.append(place)
    had = parent >= 0
    send_leave(scribe, group[had], node[had], parent[had], entries.number[row[had]])


def lost_groups(scribe: Scribe) -> np.ndarray:
    """Groups that were created and of whose state no live node has a copy, ascending."""
    there = np.zeros(len(scribe.groups), dtype=bool)
    there[scribe.state.copies.key // scribe.state.size] = True
    return np.flatnonzero(scribe.state.created & ~there)
