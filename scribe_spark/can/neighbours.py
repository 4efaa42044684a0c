"""Neighbours in a CAN: pairs of adjacent zones (docs/rules.md, C6)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.can.zones import Zones


def across_faces(zones: Zones, zone: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return zones, their neighbours that are not deeper, and the faces between them.

    Each side of the deeper of two neighbours is at most as long as that of the other zone, so its
    whole face touches the other zone, and one look-up finds it.  All pairs are found from the
    deeper zone; if both are equally deep, each finds the other.  Face 2 i is the lower face of
    dimension i, 2 i + 1 the upper one.
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
            # two zones that each span half of a dimension are neighbours across the lower face only
            halved = depth > dimension + (space.dimensions if upwards else 0)
            rows = np.flatnonzero(halved)
            beyond = space.beyond_face(corner[rows], depth[rows], dimension, upwards)
            there = zones.of_point(can[rows], beyond)
            kept = zones.depth[there] <= depth[rows]
            rows, there = rows[kept], there[kept]
            yield zone[rows], there, np.full(len(rows), 2 * dimension + upwards, dtype=np.int64)


def opposite(zones: Zones, zone: np.ndarray, face: np.ndarray) -> np.ndarray:
    """Return the face across which each zone, the deeper one of a pair, lies for its neighbour."""
    twice = zones.depth[zone] > face // 2 + zones.space.dimensions
    return np.where(twice, face ^ 1, face)
