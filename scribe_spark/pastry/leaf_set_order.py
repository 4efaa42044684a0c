"""Comparison of leaf sets as sets, and the correct leaf sets of a ring.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.states import NONE


def same_leaves(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return True for rows of leaves that contain the same nodes, in any order."""
    same = (one == other).all(axis=1)
    rest = np.flatnonzero(~same)
    same[rest] = (_as_sets(one[rest]) == _as_sets(other[rest])).all(axis=1)
    return same


def _as_sets(leaves: np.ndarray) -> np.ndarray:
    """Sort rows of leaves and keep each leaf once, :data:`NONE` first."""
    leaves = np.sort(leaves, axis=1)
    leaves[:, 1:][leaves[:, 1:] == leaves[:, :-1]] = NONE
    return np.sort(leaves, axis=1)


def ring_leaves(
    place: np.ndarray, half: int, nodes: np.ndarray | int, start: np.ndarray | int = 0
) -> np.ndarray:
    """Return the correct leaf sets, as in `States.leaves`: positions, int32, shape (n, l).

    A ring has `nodes` nodes and begins at the position `start`; both may differ from node to node.
    A side has fewer leaves than l / 2 (`half`) if there are fewer other nodes.
    """
    nodes, start = np.expand_dims(nodes, -1), np.expand_dims(start, -1)
    index, steps = place[:, None] - start, np.arange(1, half + 1)
    sides = [
        np.where(steps < nodes, start + (index + sign * steps) % nodes, NONE) for sign in (1, -1)
    ]
    return np.concatenate(sides, axis=1).astype(np.int32)
