"""Leaf set exchange in an overlay with dead nodes.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals import exchange
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.tally import Tally

__all__ = ["exchange_leaf_sets"]


def exchange_leaf_sets(state: OverlayState, senders: np.ndarray, tally: Tally) -> int:
    """Exchange leaf sets, and count the messages; see :mod:`scribe_spark.pastry.arrivals.exchange`.

    Parameters
    ----------
    senders : ndarray of int64
        Live nodes, each once.
    """

    def count(sender: np.ndarray, to: np.ndarray, arrives: np.ndarray) -> None:
        tally.send("exchange", arrives, sender, to)

    return exchange.exchange_leaf_sets(state.states, senders, state.is_alive, count)
