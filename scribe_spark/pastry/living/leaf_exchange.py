"""Leaf set exchange in an overlay with dead nodes.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf, take_leaves
from scribe_spark.pastry.arrivals.states import NONE
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.tally import Tally

__all__ = ["exchange_leaf_sets", "live_only"]


def live_only(state: OverlayState, positions: np.ndarray) -> np.ndarray:
    """Positions, :data:`NONE` in the place of dead nodes: nobody takes them."""
    return np.where(state.is_alive(positions), positions, np.int32(NONE))


def exchange_leaf_sets(state: OverlayState, senders: np.ndarray, tally: Tally) -> int:
    """Who got a new leaf sends its leaf set to its leaves, until nothing changes.

    Writes `States.leaves`.  A node that is sent a leaf set by one that it has no place for answers
    with its own.

    Parameters
    ----------
    senders : ndarray of int64
        Live nodes, each once.

    Returns
    -------
    int
        How many rounds there were.
    """
    states, rounds = state.states, 0
    while len(senders):
        rounds += 1
        # 1. leaf sets are sent as they were before the round
        sets = states.distinct_leaves(senders)
        at, column = np.nonzero(sets >= 0)
        receiver = sets[at, column].astype(np.int64)
        arrives = state.alive[receiver]
        tally.send("exchange", arrives)
        at, receiver = at[arrives], receiver[arrives]
        known = np.concatenate([live_only(state, sets), senders[:, None]], axis=1)
        gained = take_leaves(states, receiver, known[at], only_new=True)
        # 2. answers
        refused = ~holds_leaf(states, receiver, senders[at])
        asker, asked = senders[at][refused], receiver[refused]
        tally.add("exchange", len(asked))
        answers = live_only(state, states.leaves[asked])
        more = take_leaves(states, asker, answers, only_new=True)
        senders = np.union1d(gained, more)
    return rounds
