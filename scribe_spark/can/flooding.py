"""The forwarding rules of CAN multicast: across which faces of a zone a message is sent.

References
----------
S. Ratnasamy, M. Handley, R. Karp, S. Shenker: Application-level multicast using
content-addressable networks, NGC 2001 (recalled); docs/rules.md, C7 to C10.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.can.zones import Zones
from scribe_spark.engine import Columns

#: The variants: rules 1 to 4; rules 1 to 5; and a variant without duplicates.
DIRECTED, CORNER, OPTIMAL = "directed", "corner", "optimal"

_EDGES_AT_ONCE = 2**17


def may_cross(zones: Zones, flooding: str, edges: Columns, source: np.ndarray) -> np.ndarray:
    """Return True for neighbours that may receive a multicast, however it arrived at the zone.

    `edges` has ``zone, neighbour, face``; `source` has the zone of the multicast's source for each.
    """
    kept = np.empty(len(source), dtype=bool)
    for start in range(0, len(source), _EDGES_AT_ONCE):
        part = slice(start, start + _EDGES_AT_ONCE)
        zone, neighbour, face = (edges[name][part] for name in ("zone", "neighbour", "face"))
        if flooding == OPTIMAL:
            kept[part] = _optimal(zones, zone, neighbour, face, source[part])
        else:
            corner = flooding == CORNER
            kept[part] = _directed(zones, zone, neighbour, face, source[part], corner)
    return kept


def _directed(
    zones: Zones,
    zone: np.ndarray,
    neighbour: np.ndarray,
    face: np.ndarray,
    source: np.ndarray,
    corner: bool,
) -> np.ndarray:
    """Apply rule 3, and rule 5 if `corner`."""
    places, dimension, upper = zones.space.places, face >> 1, face & 1 == 1
    begin = _along(zones.low, dimension, source) + _side(zones, dimension, source) // 2
    at = _along(zones.low, dimension, zone) + _side(zones, dimension, zone) * upper
    gone = np.where(upper, at - begin, begin - at) & (places - 1)
    kept = gone < places // 2
    kept &= ~upper | (gone > 0)
    if corner:
        first = np.flatnonzero(kept & (dimension == 0))
        holds = _holds(zones, zone[first], zones.low[:, neighbour[first]])
        kept[first] = holds[1:].all(axis=0)
    return kept


def _along(of: np.ndarray, dimension: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return the values of an array (dimensions, n), each along its own dimension: int64."""
    return of.ravel()[dimension * of.shape[1] + index].astype(np.int64)


def _side(zones: Zones, dimension: np.ndarray, zone: np.ndarray) -> np.ndarray:
    return _along(zones.space.sides, dimension, zones.depth[zone])


def _optimal(
    zones: Zones, zone: np.ndarray, neighbour: np.ndarray, face: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Return True if the zone is the parent of its neighbour."""
    places, low = zones.space.places, zones.low
    dimension, upper = face >> 1, face & 1 == 1
    begin, corner = zones.middle(source), low[:, neighbour]
    mine = dimension, np.arange(len(zone))
    # 1. the face is in the first dimension in which the neighbour excludes the source's middle
    kept = np.argmin(_holds(zones, neighbour, begin), axis=0) == dimension
    kept &= neighbour != source
    # 2. the direction is the shorter one; any, if both zones span half of the dimension
    away = (corner[mine] - begin[mine]) & (places - 1)
    upwards = (away > 0) & (away < places // 2)
    halves = zones.side(neighbour)[mine] == places // 2
    halves &= zones.side(zone)[mine] == places // 2
    kept &= halves | (upwards == upper)
    # 3. the zone contains that middle in lower dimensions, and the neighbour's corner in higher
    asked = np.where(np.arange(zones.space.dimensions)[:, None] < dimension, begin, corner)
    holds = _holds(zones, zone, asked)
    holds[mine] = True
    return kept & holds.all(axis=0)


def _holds(zones: Zones, zone: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return whether zones contain a coordinate, by dimension: bool, shape (dimensions, n)."""
    inside = place - zones.low[:, zone]
    return (inside >= 0) & (inside < zones.side(zone))


def goes_on(first: Columns, edges: Columns) -> np.ndarray:
    """Apply rules 1 and 2: return whether a node sends across a face, given its first copy.

    The ``face`` of a first copy is the one of the sender's zone that the copy crossed.
    """
    came, face = first["face"], edges["face"]
    return (first["sender"] < 0) | (face >> 1 < came >> 1) | (face == came)
