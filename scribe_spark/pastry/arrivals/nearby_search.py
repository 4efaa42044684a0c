"""Nearby-node search: an arriving node finds a near contact from any live node.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.pastry.arrivals.cell_offers import NOBODY, scored, scores
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.arrivals.wave import WaveProgram
from scribe_spark.underlay.protocol import Kernel

__all__ = ["CONTACTS", "Discover"]

#: The table of the contacts that were found: ``contact``, a row for each node of the wave.
CONTACTS = "contacts"


@dataclass(frozen=True)
class Discover(WaveProgram):
    """Arriving nodes search for near contacts, from the nodes that the wave gives as contacts.

    A search asks any node for its leaf set and rows of its table, dozens of times: supersteps for
    that would cost more than all others of a wave.
    """

    @property
    def one_bucket(self) -> bool:
        """See `engine.Program`."""
        return True

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        states, is_alive = self.states(bucket, tables), self.given.is_alive
        arriving, start = self.wave.arriving, self.wave.contact
        contact, probing, probed = discover(states, is_alive, arriving, start, self.given.kernel)
        lost = len(probed) - int(np.count_nonzero(is_alive(probed)))
        self.given.observer.count(
            tables, Kind.PROBE, len(probed), lost, between=lambda: (arriving[probing], probed)
        )
        tables[CONTACTS] = {"contact": contact}
        return {}


def discover(
    states: States,
    is_alive: Callable[[np.ndarray], np.ndarray],
    arriving: np.ndarray,
    start: np.ndarray,
    kernel: Kernel,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nodes that the searches of all arriving nodes end at, and all that were probed.

    Parameters
    ----------
    states : States
        Of all known nodes, so that an index is a position.
    is_alive : callable
        Positions -> bool.
    arriving, start : ndarray of int64, shape (w,)
        Positions of nodes that arrive, and of the live node that each begins with.

    Returns
    -------
    tuple of ndarray of int64
        The contacts, shape (w,); and for every probe, dead nodes too, the index in `arriving` of
        who sends it and the position of who gets it.  A node is probed once by each arriving node.
    """
    return _Search(states, is_alive, arriving, kernel).discover(start)


class _Search:
    """Several searches at once."""

    def __init__(
        self,
        states: States,
        is_alive: Callable[[np.ndarray], np.ndarray],
        arriving: np.ndarray,
        kernel: Kernel,
    ) -> None:
        self._states, self._is_alive = states, is_alive
        self._arriving, self._kernel = arriving, kernel
        self._probed = [np.empty(0, dtype=np.int64)]

    def discover(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As :func:`discover`."""
        states = self._states
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
        probes = distinct(np.concatenate(self._probed))
        return at, probes // len(states.known), probes % len(states.known)

    def _nearest(self, index: np.ndarray, at: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The nearest live one of the nodes where searches are and of others (or `NONE`)."""
        known = self._states.known
        asked = np.concatenate([at[:, None], others], axis=1).astype(np.int64)
        here, column = np.nonzero(asked != NONE)
        self._probed.append(index[here] * len(known) + asked[here, column])
        here, column = np.nonzero((asked != NONE) & self._is_alive(asked))
        found = asked[here, column]
        score = np.full(asked.shape, NOBODY)
        score[here, column] = scores(known, self._kernel, self._arriving[index[here]], found)
        return scored(score.min(axis=1))


def _last_row(cells: np.ndarray) -> np.ndarray:
    """The deepest row of each table that has an entry, -1 without any."""
    row = np.arange(cells.shape[1])
    return np.where(cells.max(axis=2) >= 0, row, -1).max(axis=1)
