"""Greedy routing: to the neighbour whose zone is nearest to a point (docs/rules.md, C12)."""

from __future__ import annotations

import numpy as np

from scribe_spark.can.zones import Zones
from scribe_spark.core.arrays import expand, offsets_of
from scribe_spark.engine import Columns

_MESSAGES_AT_ONCE = 2**12  # messages whose neighbours fit into a core's cache


def distance(zones: Zones, zone: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the squared distance of zones from coordinates of points; 0 inside of the zone."""
    space, depth = zones.space, zones.depth[zone]
    far, total = space.dtype(space.places - 1), np.zeros(len(zone), dtype=space.dtype)
    for mine, low, side in zip(place, zones.low, space.sides, strict=True):
        ahead = (mine - low[zone]) & far
        # the distance from the nearer end; at most 0 if the zone contains the coordinate
        away = np.minimum(far - ahead, ahead - side[depth]) + 1
        np.maximum(away, 0, out=away)
        total += away * away
    return total


def next_zones(zones: Zones, pairs: Columns, zone: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the zones that messages go to next; the zone itself if it contains the point: int64.

    `pairs` has the neighbours of a bucket's zones: ``zone, neighbour``, sorted by zone.
    """
    onward = zone.copy()
    rest = zones.space.bits - zones.depth[zone].astype(np.int64)
    moving = np.flatnonzero((zones.corner[zone] ^ point) >> rest != 0)
    place = zones.space.coordinates(point[moving])
    offsets = offsets_of(np.bincount(pairs["zone"], minlength=len(zones)))
    begin, end = offsets[zone[moving]], offsets[zone[moving] + 1]
    for start in range(0, len(moving), _MESSAGES_AT_ONCE):
        part = slice(start, start + _MESSAGES_AT_ONCE)
        message, pair = expand(begin[part], end[part])
        asked = pairs["neighbour"][pair]
        away = distance(zones, asked, place[:, part][:, message])
        nearest = np.minimum.reduceat(away, np.flatnonzero(np.diff(message, prepend=-1)))
        best = np.flatnonzero(away == nearest[message])
        # ties go to the smallest nodeId
        best = best[np.lexsort((zones.node[asked[best]], message[best]))]
        first = np.flatnonzero(np.diff(message[best], prepend=-1))
        onward[moving[part]] = asked[best[first]]
    return onward
