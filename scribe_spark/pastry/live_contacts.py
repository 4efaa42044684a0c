"""Contacts: the live node that an arriving node asks first.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.contacts import nearest_nodes
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.underlay.protocol import Kernel

__all__ = ["contacts"]


def contacts(
    state: OverlayState,
    arriving: np.ndarray,
    number: int,
    rules: WorldRules,
    kernel: Kernel,
) -> np.ndarray:
    """Return whom each node asks first, or begins to search with, by the rule in force.

    Parameters
    ----------
    arriving : ndarray of int64, shape (w,)
        Positions.
    number : int
        The round.

    Returns
    -------
    ndarray of int64, shape (w,)
        Positions of live nodes.
    """
    known, live = state.states.known, state.live()
    if rules.contact == "nearest":
        # (positions ascend with nodeIds: of equally near ones the smallest)
        return nearest_nodes(known, live, known.router[arriving], kernel)
    bits = draws.stream_at(rules.seed, "contact", number, known.node[arriving])
    return live[(bits % np.uint64(len(live))).astype(np.int64)]
