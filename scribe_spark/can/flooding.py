"""Across which faces a multicast goes: the forwarding rules of CAN multicast.

References
----------
S. Ratnasamy, M. Handley, R. Karp, S. Shenker: Application-level multicast using
content-addressable networks, NGC 2001 (recalled); docs/rules.md, C7 to C10.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.can.zones import Zones
from scribe_spark.engine import Columns

__all__ = ["CORNER", "DIRECTED", "FLOODINGS", "OPTIMAL", "goes_on", "may_cross"]

#: Rules 1 to 4; with rule 5; and the variant without duplicates.
DIRECTED, CORNER, OPTIMAL = FLOODINGS = ("directed", "corner", "optimal")

_EDGES_AT_ONCE = 2**17


def may_cross(
    zones: Zones,
    flooding: str,
    zone: np.ndarray,
    neighbour: np.ndarray,
    face: np.ndarray,
    source: np.ndarray,
) -> np.ndarray:
    """Return which neighbours may be sent a multicast, however it has come: bool, shape (m,).

    Parameters
    ----------
    flooding : str
        One of `FLOODINGS`.
    zone, neighbour, face : ndarray of int64, shape (m,)
        See `neighbours.across_faces`.
    source : ndarray of int64, shape (m,)
        The zone of the multicast's source.
    """
    kept = np.empty(len(zone), dtype=bool)
    rule = _optimal if flooding == OPTIMAL else _directed
    for start in range(0, len(zone), _EDGES_AT_ONCE):
        part = slice(start, start + _EDGES_AT_ONCE)
        kept[part] = rule(zones, flooding, *(a[part] for a in (zone, neighbour, face, source)))
    return kept


def _directed(
    zones: Zones,
    flooding: str,
    zone: np.ndarray,
    neighbour: np.ndarray,
    face: np.ndarray,
    source: np.ndarray,
) -> np.ndarray:
    """Rule 3, and rule 5 where it holds."""
    places, low = zones.space.places, zones.low
    dimension, upper = face >> 1, face & 1 == 1
    begin = _middle(zones, source)[np.arange(len(zone)), dimension]
    at = low[zone, dimension] + np.where(
        upper, zones.side(zone)[np.arange(len(zone)), dimension], 0
    )
    gone = np.where(upper, at - begin, begin - at) % places
    kept = gone < places // 2
    kept &= ~upper | (gone > 0)
    if flooding == CORNER:
        first = np.flatnonzero(kept & (dimension == 0))
        holds = _holds(zones, zone[first], low[neighbour[first]])
        kept[first] = holds[:, 1:].all(axis=1)
    return kept


def _optimal(
    zones: Zones,
    flooding: str,
    zone: np.ndarray,
    neighbour: np.ndarray,
    face: np.ndarray,
    source: np.ndarray,
) -> np.ndarray:
    """Whether the zone is the parent of its neighbour."""
    places, low = zones.space.places, zones.low
    dimension, upper = face >> 1, face & 1 == 1
    begin, theirs = _middle(zones, source), low[neighbour]
    mine = np.arange(len(zone)), dimension
    # 1. the least dimension in which the neighbour does not hold the middle of the source's
    kept = np.argmin(_holds(zones, neighbour, begin), axis=1) == dimension
    kept &= neighbour != source
    # 2. it is nearer that way; of two zones of half the dimension each, any
    upwards = (theirs[mine] - begin[mine]) % places
    upwards = (upwards > 0) & (upwards < places // 2)
    halves = zones.side(neighbour)[mine] == places // 2
    halves &= zones.side(zone)[mine] == places // 2
    kept &= halves | (upwards == upper)
    # 3. the zone holds the corner below that dimension, the neighbour's own above it
    asked = np.where(np.arange(zones.space.dimensions) < dimension[:, None], begin, theirs)
    holds = _holds(zones, zone, asked)
    holds[mine] = True
    return kept & holds.all(axis=1)


def _middle(zones: Zones, zone: np.ndarray) -> np.ndarray:
    """The place in the middle of each zone: int64, shape (n, dimensions)."""
    return zones.low[zone] + zones.side(zone) // 2


def _holds(zones: Zones, zone: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Whether each zone holds a place, dimension by dimension: bool, shape (n, dimensions)."""
    inside = place - zones.low[zone]
    return (inside >= 0) & (inside < zones.side(zone))


def goes_on(first: Columns, edges: Columns) -> np.ndarray:
    """Rules 1 and 2: whether a node sends across a face, after how its first copy has come.

    Parameters
    ----------
    first : Columns
        ``sender`` (-1 at the source) and the ``face`` of the sender's zone that was crossed.
    edges : Columns
        ``face``.
    """
    came, face = first["face"], edges["face"]
    return (first["sender"] < 0) | (face >> 1 < came >> 1) | (face == came)
