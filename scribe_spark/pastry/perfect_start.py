"""A world that begins with perfect tables: each cell the nearest node, each leaf set the ring's.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.leaf_set_order import ring_leaves
from scribe_spark.pastry.nearest_entries import nearest_entries
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.states import NONE, States
from scribe_spark.underlay.protocol import Kernel


def perfect_start(
    known: Ring, live: np.ndarray, leaf_set: int, b: int, kernel: Kernel
) -> OverlayState:
    """The overlay of perfect tables.

    Parameters
    ----------
    known : Ring
        All nodes of the world in the order of their nodeIds; routers are indices.
    live : ndarray of int64
        Positions of those that are there from the start, ascending.
    leaf_set : int
        l, even.
    """
    states = States.empty(known, np.arange(len(known)), leaf_set, b)
    named = np.append(live, NONE)  # what NONE indexes is NONE
    leaves = ring_leaves(np.arange(len(live)), leaf_set // 2, len(live))
    states.leaves[live] = named[leaves]
    for row, entries in enumerate(nearest_entries(known.take(live), 0, kernel, b)):
        states.cells[live, row] = named[entries]
    return OverlayState.of(states, live)
