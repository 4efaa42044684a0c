"""Leaf set exchange: who got a new leaf sends its leaf set to its leaves, until nothing changes.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.states import IsAlive, States, live_only

__all__ = ["exchange_leaf_sets"]


def exchange_leaf_sets(
    states: States,
    senders: np.ndarray,
    is_alive: IsAlive,
    count: Callable[[np.ndarray, np.ndarray, np.ndarray], None],
) -> int:
    """Rounds of exchange in an overlay that one task has; writes `states.leaves`.

    A node that is sent a leaf set by one that it has no place for answers with its own: otherwise
    those of more than l/2 nodes of a wave between two old neighbours would never hear of each
    other.

    Parameters
    ----------
    states : States
        Of all known nodes: ``own`` is every position.
    senders : ndarray of int64
        Live nodes, each once: who got a new leaf, and who has arrived.
    is_alive : callable
    count : callable
        Called with the sender and the receiver of each message, and whether it arrives.

    Returns
    -------
    int
        How many rounds there were.
    """
    rounds = 0
    while len(senders):
        rounds += 1
        # 1. leaf sets are sent as they were before the round
        sets = states.distinct_leaves(senders)
        at, column = np.nonzero(sets >= 0)
        receiver = sets[at, column].astype(np.int64)
        arrives = is_alive(receiver)
        count(senders[at], receiver, arrives)
        at, receiver = at[arrives], receiver[arrives]
        offered = np.c_[live_only(is_alive, sets), senders.astype(np.int32)]
        gained = take_leaves(states, receiver, offered[at], only_new=True)
        # 2. answers
        refused = ~holds_leaf(states, receiver, senders[at])
        asker, asked = senders[at][refused], receiver[refused]
        count(asked, asker, np.ones(len(asked), dtype=bool))
        answers = live_only(is_alive, states.leaves[asked])
        more = take_leaves(states, asker, answers, only_new=True)
        senders = np.union1d(gained, more)
    return rounds
