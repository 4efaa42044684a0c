"""Nodes that are offered to leaf sets: the l/2 nearest on each side are taken.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.ragged import distinct, offsets_of

__all__ = ["holds_leaf", "take_leaves"]

_OFFERS = 2**20  # offers looked at together
_ROWS = 2**13


def take_leaves(states: States, index: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Offer nodes to leaf sets; writes `states.leaves`.

    Every offer is made to both sides.  The result does not depend on the order of the offers.

    Parameters
    ----------
    index : ndarray of int64, shape (m,)
        The node that is offered something, as an index into `states.own`.
    position : ndarray of int, shape (m,) or (m, k)
        The node offered, or k nodes, as positions in `states.known`; or `NONE`.

    Returns
    -------
    ndarray of bool, shape (n,)
        Whose leaf set has changed.
    """
    changed = np.zeros(len(states.own), dtype=bool)
    size, half = len(states.known), states.half
    larger, smaller = (side.astype(np.int32) for side in states.reach())
    larger[states.leaves[:, half - 1] < 0] = size
    smaller[states.leaves[:, -1] < 0] = size
    own = states.own.astype(np.int32)
    position = position if position.ndim == 2 else position[:, None]
    at_once = max(1, _OFFERS // max(1, position.shape[1]))
    for start in range(0, len(index), at_once):
        # 1. offers that are nearer than the farthest leaf of a side (or it has room), and are new
        node = index[start : start + at_once]
        offer = position[start : start + at_once].astype(np.int32)
        place = offer - own[node, None]
        place += (place < 0) * np.int32(size)
        enters = (place < larger[node, None]) | (place > size - smaller[node, None])
        enters &= (place > 0) & (offer >= 0)
        row, column = np.nonzero(enters)
        node, offer = node[row], offer[row, column].astype(np.int64)
        new = ~holds_leaf(states, node, offer)
        _take(states, node[new], offer[new], changed)
    return changed


def _take(states: States, index: np.ndarray, position: np.ndarray, changed: np.ndarray) -> None:
    if not len(index):
        return
    size, half, leaves = len(states.known), states.half, states.leaves
    place = states.clockwise(index, position)
    # 2. these and the leaves of the same nodes, clockwise of each node
    is_touched = np.zeros(len(states.own), dtype=bool)
    is_touched[index] = True
    touched = np.flatnonzero(is_touched)
    row = (np.cumsum(is_touched) - 1)[index]
    old = leaves[touched]
    old_row, _ = np.nonzero(old >= 0)
    old_place = states.clockwise(touched[old_row], old[old >= 0])
    keys = distinct(np.r_[row * size + place, old_row * size + old_place])
    row, place = np.divmod(keys, size)
    # 3. the first of them are the larger leaves, the last the smaller ones
    offsets = offsets_of(np.bincount(row, minlength=len(touched)))
    from_start = np.arange(len(row)) - offsets[row]
    from_end = offsets[row + 1] - 1 - np.arange(len(row))
    at = (states.own[touched[row]] + place) % size
    taken = np.full((len(touched), 2 * half), NONE, dtype=np.int32)
    near = from_start < half
    taken[row[near], from_start[near]] = at[near]
    near = from_end < half
    taken[row[near], half + from_end[near]] = at[near]
    leaves[touched] = taken
    changed[touched] = True


def holds_leaf(states: States, index: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Whether each node has the node at a position in its leaf set."""
    held = np.empty(len(index), dtype=bool)
    position = position.astype(np.int32)
    for start in range(0, len(index), _ROWS):  # rows that stay in the cache
        some = slice(start, start + _ROWS)
        held[some] = (states.leaves[index[some]] == position[some, None]).any(axis=1)
    return held
