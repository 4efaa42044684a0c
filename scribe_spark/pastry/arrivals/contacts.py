"""Contacts: the live node that an arriving node asks first.

References
----------
JSAC 2002, Section II.B: "a nearby Pastry node A (according to the proximity metric)".
"""

from __future__ import annotations

import numpy as np

from scribe_spark.engine.ring import Ring
from scribe_spark.underlay.protocol import Kernel


def planned_contacts(
    contact: str, known: Ring, wave: np.ndarray, rank: np.ndarray, drawn: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Return the contact of each node, or the start of its search (``discovered``): positions.

    Nodes of wave 0 have none: -1.  The arguments `wave`, `rank` and `drawn` are the wave, the rank
    of arrival and random bits (uint64) of each node.
    """
    if contact in ("random", "discovered"):
        return random_contacts(wave, drawn)
    preference = -rank if contact == "latest" else np.arange(len(known))
    return _nearest_contacts(known, wave, preference, kernel)


def _nearest_contacts(
    known: Ring, wave: np.ndarray, preference: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Return each node's nearest live node; ties go to the smallest preference."""
    routers, of = np.unique(known.router, return_inverse=True)
    contact = np.full(len(known), -1, dtype=np.int64)
    nearest, delay_us = np.zeros(len(routers), dtype=np.int64), None
    for members in _waves(wave):
        if delay_us is not None:
            contact[members] = nearest[of[members]]
        arrived = members[np.argsort(preference[members])]
        found = nearest_nodes(known, arrived, routers, kernel)
        found_us = kernel.delays(routers, known.router[found])
        if delay_us is None:
            nearest, delay_us = found, found_us
            continue
        preferred = preference[found] < preference[nearest]
        better = (found_us < delay_us) | ((found_us == delay_us) & preferred)
        nearest[better], delay_us[better] = found[better], found_us[better]
    return contact


def nearest_nodes(
    known: Ring, members: np.ndarray, routers: np.ndarray, kernel: Kernel
) -> np.ndarray:
    """Return the node nearest to each router among `members`; ties go to the first of these."""
    # of the nodes on one router, only the first can be the result
    _, first = np.unique(known.router[members], return_index=True)
    first = members[np.sort(first)]
    return first[kernel.nearest(routers, known.router[first], np.array([0]))[:, 0]]


def random_contacts(wave: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Draw a live node as the contact of each arriving node, see :func:`planned_contacts`.

    The node's random bits modulo the number of live nodes are an index of the live nodes by nodeId.
    """
    contact = np.full(len(wave), -1, dtype=np.int64)
    live = np.zeros(len(wave), dtype=bool)
    for members in _waves(wave):
        present = np.flatnonzero(live)
        if len(present):
            contact[members] = present[(drawn[members] % np.uint64(len(present))).astype(np.int64)]
        live[members] = True
    return contact


def _waves(wave: np.ndarray) -> list[np.ndarray]:
    """Return the nodes of each wave, sorted by nodeId."""
    order = np.argsort(wave, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(wave[order])) + 1)
