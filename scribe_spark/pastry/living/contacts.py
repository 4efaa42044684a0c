"""Contacts: the live node that an arriving node asks first.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.cell_offers import NOBODY, scored, scores
from scribe_spark.pastry.arrivals.contacts import nearest_nodes
from scribe_spark.pastry.arrivals.states import NONE
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.living.tally import Tally
from scribe_spark.pastry.ragged import distinct
from scribe_spark.underlay.protocol import Kernel

__all__ = ["contacts"]


def contacts(
    state: OverlayState,
    arriving: np.ndarray,
    number: int,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> np.ndarray:
    """The contact of each arriving node, by the rule in force; probes are counted.

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
        return nearest_nodes(known, live, known.router[arriving], kernel)
    bits = draws.stream_at(rules.seed, "contact", number, known.node[arriving])
    drawn = live[(bits % np.uint64(len(live))).astype(np.int64)]
    if rules.contact == "random":
        return drawn
    return _Search(state, arriving, kernel).discover(drawn, tally)


class _Search:
    """Nearby-node search of several arriving nodes at once, each from a live node."""

    def __init__(self, state: OverlayState, arriving: np.ndarray, kernel: Kernel) -> None:
        self._state, self._arriving, self._kernel = state, arriving, kernel
        self._probed = [np.empty(0, dtype=np.int64)]

    def discover(self, start: np.ndarray, tally: Tally) -> np.ndarray:
        """Where the searches end; a node is probed, and counted, once by each arriving node."""
        states = self._state.states
        everybody = np.arange(len(start))
        # 1. the nearest of the start and its leaf set
        at = self._nearest(everybody, start, states.leaves[start])
        # 2. rows of the tables of the nodes reached, from the last row of the first of them on
        row = _last_row(states.cells[at])
        while (down := np.flatnonzero(row >= 0)).size:
            at[down] = self._nearest(down, at[down], states.cells[at[down], row[down]])
            row[down] -= 1
        # 3. the first row, until nobody in it is nearer
        moving = everybody
        while len(moving):
            nearer = self._nearest(moving, at[moving], states.cells[at[moving], 0])
            moving, nearer = moving[nearer != at[moving]], nearer[nearer != at[moving]]
            at[moving] = nearer
        dead = distinct(np.concatenate(self._probed)) % len(states.known)
        tally.send("probe", self._state.alive[dead])
        return at

    def _nearest(self, index: np.ndarray, at: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The nearest live one of the nodes where searches are and of others (or `NONE`)."""
        known = self._state.states.known
        asked = np.concatenate([at[:, None], others], axis=1).astype(np.int64)
        here, column = np.nonzero(asked != NONE)
        probed = asked[here, column]
        self._probed.append(index[here] * len(known) + probed)
        here, column = np.nonzero(self._state.is_alive(asked))
        found = asked[here, column]
        score = np.full(asked.shape, NOBODY)
        score[here, column] = scores(known, self._kernel, self._arriving[index[here]], found)
        return scored(score.min(axis=1))


def _last_row(cells: np.ndarray) -> np.ndarray:
    """The deepest row of each table that has an entry, -1 without any."""
    row = np.arange(cells.shape[1])
    return np.where(cells.max(axis=2) >= 0, row, -1).max(axis=1)
