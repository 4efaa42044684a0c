"""Leaf set exchange: who got a new leaf sends its leaf set to its leaves, until nothing changes.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import States

__all__ = ["exchange_leaf_sets"]


def exchange_leaf_sets(states: States, senders: np.ndarray) -> int:
    """Rounds of exchange in an overlay that one task has; writes `states.leaves`.

    A node that is sent a leaf set by one that it has no place for answers with its own: otherwise
    those of more than l/2 nodes of a wave between two old neighbours would never hear of each
    other.

    Parameters
    ----------
    states : States
        Of all known nodes: ``own`` is every position.
    senders : ndarray of bool, shape (n,)
        Who got a new leaf by the announcements, and who has arrived.

    Returns
    -------
    int
        How many rounds there were.
    """
    rounds = 0
    while senders.any():
        rounds += 1
        # 1. leaf sets are sent as they were before the round
        sender = np.flatnonzero(senders)
        sets = states.distinct_leaves(sender)
        at, column = np.nonzero(sets >= 0)
        receiver = sets[at, column].astype(np.int64)
        senders[:] = False
        senders[_take_sets(states, receiver, sender[at], sets[at])] = True
        # 2. answers
        refused = ~holds_leaf(states, receiver, sender[at])
        asked, asker = receiver[refused], sender[at][refused]
        senders[_take_sets(states, asker, asked, states.distinct_leaves(asked))] = True
        sent = np.r_[sender[at], asked]
        states.messages[:, Kind.EXCHANGE] += np.bincount(sent, minlength=len(states.own))
    return rounds


def _take_sets(states: States, to: np.ndarray, sender: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Nodes take senders and their leaf sets; whose leaf set has changed."""
    offered = np.concatenate([sets, sender[:, None].astype(np.int32)], axis=1)
    return take_leaves(states, to, offered, only_new=True)
