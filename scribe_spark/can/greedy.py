"""Greedy routes: to the neighbour whose zone is nearest to a point (docs/rules.md, C12)."""

from __future__ import annotations

import numpy as np

from scribe_spark.can.zones import Zones
from scribe_spark.core.arrays import expand

__all__ = ["distance", "next_zones"]

_MESSAGES_AT_ONCE = 2**12  # their neighbours stay in the cache of a core


def distance(zones: Zones, zone: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the squared distance of zones from places, 0 where they hold them: int64, shape (n,).

    Parameters
    ----------
    place : ndarray of int64, shape (n, dimensions)
        Coordinates.
    """
    places, side = zones.space.places, zones.side(zone)
    ahead = (place - zones.low[zone]) & (places - 1)
    away = np.minimum(places - ahead, ahead - side + 1)
    away[ahead < side] = 0
    return (away * away).sum(axis=1)


def next_zones(
    zones: Zones, owner: np.ndarray, neighbour: np.ndarray, zone: np.ndarray, point: np.ndarray
) -> np.ndarray:
    """Return the zones that messages go to next, the zone itself where it holds the point: int64.

    Parameters
    ----------
    owner, neighbour : ndarray of int64, shape (P,)
        Pairs of neighbours, in the order of `owner`.
    zone : ndarray of int64, shape (m,)
        Where the messages are.
    point : ndarray of int64, shape (m,)
        Where they go.
    """
    onward = zone.copy()
    place = zones.space.coordinates(point)
    moving = np.flatnonzero(distance(zones, zone, place) > 0)
    first = np.searchsorted(owner, zone[moving])
    last = np.searchsorted(owner, zone[moving], side="right")
    for start in range(0, len(moving), _MESSAGES_AT_ONCE):
        part = slice(start, start + _MESSAGES_AT_ONCE)
        message, pair = expand(first[part], last[part])
        asked = neighbour[pair]
        away = distance(zones, asked, place[moving[part]][message])
        begins = np.cumsum(last[part] - first[part]) - (last[part] - first[part])
        nearest = np.repeat(np.minimum.reduceat(away, begins), last[part] - first[part])
        node = np.where(away == nearest, zones.node[asked], zones.size)
        least = np.minimum.reduceat(node, begins)
        chosen = np.flatnonzero(node == least[message])
        onward[moving[part]] = asked[chosen]
    return onward
