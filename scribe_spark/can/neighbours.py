"""Neighbours in a CAN: whose zones abut whose (docs/rules.md, C6)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.can.zones import Zones


def across_faces(zones: Zones, zone: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the neighbours of some zones that are not deeper than these.

    The sides of the deeper of two neighbours are no longer than those of the other, so all of its
    face abuts the other: one look-up finds it.  From the deeper zones all pairs are found; where
    both are equally deep each finds the other.

    Parameters
    ----------
    zone : ndarray of int64, shape (n,)

    Returns
    -------
    zone, neighbour : ndarray of int64, shape (m,)
    face : ndarray of int64, shape (m,)
        2 i where the neighbour is across the lower face of dimension i, 2 i + 1 across the upper.
    """
    found = [one for one in _look_up(zones, zone) if len(one[0])]
    if not found:
        none = np.empty(0, dtype=np.int64)
        return none, none, none
    here, there, face = zip(*found, strict=True)
    return np.concatenate(here), np.concatenate(there), np.concatenate(face)


def _look_up(zones: Zones, zone: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    space = zones.space
    can, corner, depth = zones.can[zone], zones.corner[zone], zones.depth[zone].astype(np.int64)
    for dimension in range(space.dimensions):
        for upwards in (False, True):
            # of two that have a half of the dimension each, each is across the other's lower face
            halved = depth > dimension + (space.dimensions if upwards else 0)
            rows = np.flatnonzero(halved)
            beyond = space.beyond_face(corner[rows], depth[rows], dimension, upwards)
            there = zones.of_point(can[rows], beyond)
            kept = zones.depth[there] <= depth[rows]
            rows, there = rows[kept], there[kept]
            yield zone[rows], there, np.full(len(rows), 2 * dimension + upwards, dtype=np.int64)


def opposite(zones: Zones, zone: np.ndarray, face: np.ndarray) -> np.ndarray:
    """Return the face of the neighbour across which each zone is, when it is across `face`.

    Parameters
    ----------
    zone : ndarray of int64
        The deeper of the two.
    face : ndarray of int64
        See :func:`across_faces`.
    """
    twice = zones.depth[zone] > face // 2 + zones.space.dimensions
    return np.where(twice, face ^ 1, face)
