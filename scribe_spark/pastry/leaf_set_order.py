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

    Parameters
    ----------
    place : ndarray of int64, shape (n,)
        The positions of the nodes, in the order of nodeIds.
    half : int
        l / 2; a side has fewer leaves if there are fewer other nodes.
    nodes : ndarray of int64, shape (n,), or int
        The number of nodes on the ring, or on the ring of each node.
    start : ndarray of int64, shape (n,), or int
        The position of the ring's first node.
    """
    nodes, start = np.expand_dims(nodes, -1), np.expand_dims(start, -1)
    index, steps = place[:, None] - start, np.arange(1, half + 1)
    sides = [
        np.where(steps < nodes, start + (index + sign * steps) % nodes, NONE) for sign in (1, -1)
    ]
    return np.concatenate(sides, axis=1).astype(np.int32)
