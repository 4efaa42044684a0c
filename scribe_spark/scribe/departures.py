"""Departing nodes tell their parents and children, and hand on the states that they had as roots.

References
----------
JSAC 2002, Sections III.A.2 and III.B.1.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.scribe.leave import Gone, lose_parent, send_leave
from scribe_spark.scribe.nearness import leaves_by_nearness, nearness_order
from scribe_spark.scribe.replicas import SentStates, receive_states
from scribe_spark.scribe.scribe import Scribe

__all__ = ["say_goodbye"]


def say_goodbye(scribe: Scribe, gone: Gone, departing: np.ndarray) -> None:
    """Departing nodes send LEAVE to each parent and a goodbye to each child.

    The nodes are dead already: what they send to each other is lost.

    Parameters
    ----------
    gone : Gone
        What all had that died in this round.
    departing : ndarray of int64
        Those of them that say goodbye.
    """
    state, entries = scribe.state, gone.entries
    saying = np.zeros(state.size, dtype=bool)
    saying[departing] = True
    # 1. to parents
    group, node = scribe.split(entries.key)
    up = saying[node] & (entries.parent >= 0)
    send_leave(scribe, group[up], node[up], entries.parent[up], entries.number[up])
    # 2. to children, who join again in this round
    place, child = scribe.split(gone.children.key)
    group, parent = scribe.split(place)
    told = saying[parent]
    group, parent, child = group[told], parent[told], child[told]
    arrives = scribe.send("tree goodbye", parent, child)
    group, parent, child = group[arrives], parent[arrives], child[arrives]
    row = scribe.entry(group, child)
    believes = row >= 0
    believes[believes] = state.entries.parent[row[believes]] == parent[believes]
    lose_parent(scribe, row[believes], "parent left")
    # 3. roots to the nearest leaf that is alive, asked in order of nearness
    root = gone.copies.find(entries.key[entries.root])
    root = root[saying[gone.copies.key[root] % state.size]]
    _hand_on(scribe, gone, root)


def _hand_on(scribe: Scribe, gone: Gone, rows: np.ndarray) -> None:
    """Copies of departing roots, by rows of `gone.copies`, go to their nearest live leaves."""
    copies = gone.copies
    group, node = scribe.split(copies.key[rows])
    order = nearness_order(scribe, group, node)
    rows, group, node = rows[order], group[order], node[order]
    leaves = leaves_by_nearness(scribe, group, node)
    alive = scribe.overlay.is_alive(leaves)
    first = np.where(alive.any(axis=1), alive.argmax(axis=1), (leaves >= 0).sum(axis=1))
    lost, arrived = first.sum(), alive.any(axis=1)

    def between() -> tuple[np.ndarray, np.ndarray]:
        asked = (leaves >= 0) & (np.arange(leaves.shape[1]) < (first + arrived)[:, None])
        return node[np.nonzero(asked)[0]], leaves[asked]

    scribe.tally.add("replica", lost + arrived.sum(), lost, between=between)
    rows, group, node, first = rows[arrived], group[arrived], node[arrived], first[arrived]
    states = SentStates(
        group,
        node,
        leaves[arrived][np.arange(len(rows)), first],
        copies.epoch[rows],
        copies.version[rows],
        copies.creator[rows],
        copies.value[rows],
        node,
        scribe.state.incarnation[node],
    )
    receive_states(scribe, states)
