"""A world that starts with perfect tables: correct leaf sets, and the nearest node in each cell.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.leaf_set_order import ring_leaves
from scribe_spark.pastry.nearest_entries import nearest_entries
from scribe_spark.pastry.states import NONE, States
from scribe_spark.underlay.protocol import Kernel


def perfect_states(known: Ring, live: np.ndarray, leaf_set: int, b: int, kernel: Kernel) -> States:
    """Return the states of all nodes, of which the live ones (ascending) have perfect tables."""
    states = States.empty(known, np.arange(len(known)), leaf_set, b)
    named = np.append(live, NONE)  # index NONE yields NONE
    leaves = ring_leaves(np.arange(len(live)), leaf_set // 2, len(live))
    states.leaves[live] = named[leaves]
    for row, entries in enumerate(nearest_entries(known.take(live), 0, kernel, b)):
        states.cells[live, row] = named[entries]
    return states
