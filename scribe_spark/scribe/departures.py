"""Announced departures: a node that leaves notifies its parents and children.

A departing root also hands over the states of its groups.

References
----------
JSAC 2002, Sections III.A.2 and III.B.1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scribe_spark.engine import Columns
from scribe_spark.engine.program import AT
from scribe_spark.scribe.leave import Gone, lose_parent, send_leave
from scribe_spark.scribe.nearness import leaves_by_nearness
from scribe_spark.scribe.replicas import SentStates, tell_states
from scribe_spark.scribe.scribe import Scribe

#: Messages of a departing node: the goodbye to a child, and a group's state from a root to its
#: nearest live leaf.
GOODBYE, HANDED_ON = "tree goodbye", "state handed on"


def say_goodbye(scribe: Scribe, gone: Gone, departing: np.ndarray) -> None:
    """Departing nodes send a LEAVE to each parent and a goodbye to each child.

    `gone` has the state of all nodes that died in this round.  The departing nodes count as dead,
    so messages that they send to each other are lost.
    """
    state, entries = scribe.state, gone.entries
    saying = np.zeros(state.size, dtype=bool)
    saying[departing] = True
    # 1. tell parents
    group, node = scribe.split(entries.key)
    up = saying[node] & (entries.parent >= 0)
    send_leave(scribe, group[up], node[up], entries.parent[up], entries.number[up])
    # 2. tell children
    group, parent, child = scribe.ends(gone.children.key)
    told = saying[parent]
    group, parent, child = group[told], parent[told], child[told]
    scribe.post(GOODBYE, "tree goodbye", parent, child, group=group, parent=parent)
    # 3. roots hand over to the nearest live leaf; they try leaves in order of nearness
    root = gone.copies.find(entries.key[entries.root])
    root = root[saying[gone.copies.key[root] % state.size]]
    _hand_on(scribe, gone, root)


def hear_goodbyes(scribe: Scribe, came: Columns) -> None:
    """Children of departed nodes lose their parent, and send a JOIN in this round."""
    _, row = scribe.under(came["group"], came[AT], came["parent"])
    lose_parent(scribe, row, "parent left")


def _hand_on(scribe: Scribe, gone: Gone, rows: np.ndarray) -> None:
    """Send group states of departed roots (rows of `gone.copies`) to their nearest live leaves."""
    if not len(rows):
        return
    group, node = scribe.split(gone.copies.key[rows])
    leaves = leaves_by_nearness(scribe, group, node)
    alive = scribe.is_alive(leaves)
    first = np.where(alive.any(axis=1), alive.argmax(axis=1), (leaves >= 0).sum(axis=1))
    lost, arrived = first.sum(), alive.any(axis=1)

    def between() -> tuple[np.ndarray, np.ndarray]:
        asked = (leaves >= 0) & (np.arange(leaves.shape[1]) < (first + arrived)[:, None])
        return node[np.nonzero(asked)[0]], leaves[asked]

    scribe.count("replica", lost + arrived.sum(), lost, between=between)
    rows, node, first = rows[arrived], node[arrived], first[arrived]
    to = leaves[arrived][np.arange(len(rows)), first]
    states = SentStates.of(scribe, gone.copies, rows, to)
    states = replace(states, root=node, incarnation=scribe.state.incarnation[node])
    tell_states(scribe, HANDED_ON, states)
