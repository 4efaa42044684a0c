"""Contacts: the live node that an arriving node asks first.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.states import NONE
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.living.tally import Tally
from scribe_spark.pastry.ragged import distinct
from scribe_spark.underlay.protocol import Kernel

__all__ = ["contacts", "node_bits"]

_FAR = np.int64(2**63 - 1)


def node_bits(seed: int, purpose: str, number: int, nodes: np.ndarray) -> np.ndarray:
    """Random bits of some nodes in a round: uint64; they do not depend on how many nodes there are.

    Parameters
    ----------
    nodes : ndarray of int64
        Numbers of nodes.
    """
    return draws.stream(seed, purpose, number).random_raw(int(nodes.max(initial=-1)) + 1)[nodes]


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
        # on each router only the smallest nodeId can be nearest
        _, first = np.unique(known.router[live], return_index=True)
        first = live[np.sort(first)]
        nearest = kernel.nearest(known.router[arriving], known.router[first], np.array([0]))
        return first[nearest[:, 0]]
    bits = node_bits(rules.seed, "contact", number, known.node[arriving])
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
        score = np.full(asked.shape, _FAR)
        routers = known.router[self._arriving[index[here]]], known.router[found]
        score[here, column] = self._kernel.delays(*routers) << 31 | found
        return score.min(axis=1) & (2**31 - 1)


def _last_row(cells: np.ndarray) -> np.ndarray:
    """The deepest row of each table that has an entry, -1 without any."""
    row = np.arange(cells.shape[1])
    return np.where(cells.max(axis=2) >= 0, row, -1).max(axis=1)
