"""Leaf sets compared as sets of nodes, and those that the ring asks for.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.states import NONE

__all__ = ["ring_leaves", "same_leaves"]


def same_leaves(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether rows of leaves are the same sets of nodes, in any order: bool, one a row."""
    same = (one == other).all(axis=1)
    rest = np.flatnonzero(~same)
    same[rest] = (_as_sets(one[rest]) == _as_sets(other[rest])).all(axis=1)
    return same


def _as_sets(leaves: np.ndarray) -> np.ndarray:
    """Rows of leaves, each leaf once: ascending, :data:`NONE` first."""
    leaves = np.sort(leaves, axis=1)
    leaves[:, 1:][leaves[:, 1:] == leaves[:, :-1]] = NONE
    return np.sort(leaves, axis=1)


def ring_leaves(live: np.ndarray, half: int, first: int = 0, last: int | None = None) -> np.ndarray:
    """The leaf sets of nodes that are the ring's, as in `States.leaves`: int32, shape (n, l).

    Parameters
    ----------
    live : ndarray of int64, shape (n,)
        Positions of all nodes of the ring, ascending.
    half : int
        l / 2; a side has fewer leaves where there are not as many other nodes.
    first, last : int, optional
        Of which of them; by default of all.
    """
    place = np.arange(first, len(live) if last is None else last)[:, None]
    leaves = np.full((len(place), 2 * half), NONE, dtype=np.int32)
    steps = np.arange(1, min(half, len(live) - 1) + 1)
    leaves[:, : len(steps)] = live[(place + steps) % len(live)]
    leaves[:, half : half + len(steps)] = live[(place - steps) % len(live)]
    return leaves
