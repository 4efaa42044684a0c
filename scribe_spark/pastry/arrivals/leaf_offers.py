"""Offers of nodes to leaf sets: each side keeps the l/2 nearest nodes.

In a living overlay, the sides of a leaf set may differ in length and contain dead nodes.  Every
offer is made to both sides; a side never takes over a leaf of the other side.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import distinct, distinct_indices, offsets_of
from scribe_spark.pastry.states import NONE, States

LARGER, SMALLER = SIDES = (0, 1)

_OFFERS = 2**20  # the number of offers that are compared in one step
_ROWS = 2**13


def side_columns(states: States, side: int) -> slice:
    """Return the columns of `States.leaves` that contain a side, nearest leaf first."""
    return slice(0, states.half) if side == LARGER else slice(states.half, 2 * states.half)


def places_out(
    states: States, index: np.ndarray, position: np.ndarray, side: int | np.ndarray
) -> np.ndarray:
    """Return the distance in ring positions from a node to a position on one side; 0 for itself."""
    larger = np.asarray(side) == LARGER
    return np.where(larger, position - states.own[index], states.own[index] - position) % len(
        states.known
    )


def take_leaves(
    states: States, index: np.ndarray, offers: np.ndarray, *, only_new: bool = False
) -> np.ndarray:
    """Offer nodes to leaf sets; the result is written to `states.leaves`.

    Each side keeps the l/2 nearest nodes; the result does not depend on the order of the offers.

    Parameters
    ----------
    index : ndarray of int64, shape (m,)
        The node that receives each offer, as an index into `states.own`.
    offers : ndarray of int, shape (m,) or (m, k)
        The positions of live nodes, or :data:`NONE`; a node ignores an offer of itself.
    only_new : bool
        If True, nodes that are in the leaf set, even on the other side, are not offered.

    Returns
    -------
    ndarray of int64
        The indices of the nodes whose leaf set changed, ascending.
    """
    offers = offers if offers.ndim == 2 else offers[:, None]
    node, offer = _that_enter(states, index, offers, only_new)
    touched = distinct_indices(len(states.own), node)
    row = np.searchsorted(touched, node)
    before = states.leaves[touched]
    for side in SIDES:
        _fill_side(states, touched, row, offer, side)
    return touched[(states.leaves[touched] != before).any(axis=1)]


def _that_enter(
    states: States, index: np.ndarray, offers: np.ndarray, only_new: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return offers (node, offered) that are nearer than the farthest leaf, or find room."""
    size, half = np.int32(len(states.known)), states.half
    at_once = max(1, _OFFERS // max(1, offers.shape[1]))

    def enter(start: int) -> np.ndarray:
        node = index[start : start + at_once]
        offer = offers[start : start + at_once].astype(np.int32)
        own, last = states.own[node].astype(np.int32), states.leaves[node][:, [half - 1, -1]]
        larger = np.where(last[:, 0] >= 0, (last[:, 0] - own) % size, size)
        smaller = np.where(last[:, 1] >= 0, (own - last[:, 1]) % size, size)
        place = offer - own[:, None]
        place += (place < 0) * size
        enters = (place < larger[:, None]) | (place > size - smaller[:, None])
        enters &= (place > 0) & (offer >= 0)
        row, column = np.nonzero(enters)
        # (many nodes make the same offer; keep it once)
        return distinct(node[row] * size + offer[row, column])

    starts = range(0, len(index), at_once)
    pairs = np.concatenate([np.empty(0, dtype=np.int64), *map(enter, starts)])
    pairs = distinct(pairs) if len(starts) > 1 else pairs
    node, offer = np.divmod(pairs, size)
    if only_new:
        new = ~holds_leaf(states, node, offer)
        node, offer = node[new], offer[new]
    return node, offer


def _fill_side(
    states: States, touched: np.ndarray, row: np.ndarray, offer: np.ndarray, side: int
) -> None:
    """Keep the l/2 nearest of a side's leaves and the offers; `row` is an index into `touched`."""
    size, half, columns = len(states.known), states.half, side_columns(states, side)
    held = states.leaves[touched, columns]
    held_row, _ = np.nonzero(held >= 0)
    rows = np.r_[row, held_row]
    places = places_out(states, touched[rows], np.r_[offer, held[held >= 0]], side)
    rows, places = np.divmod(distinct(rows * size + places), size)
    offsets = offsets_of(np.bincount(rows, minlength=len(touched)))
    order = np.arange(len(rows)) - offsets[rows]
    near = order < half
    rows, places, order = rows[near], places[near], order[near]
    own = states.own[touched[rows]]
    taken = np.full((len(touched), half), NONE, dtype=np.int32)
    taken[rows, order] = (own + places if side == LARGER else own - places) % size
    states.leaves[touched, columns] = taken


def lacks_leaves(states: States, index: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Return True for leaf sets that would change if all live nodes were offered.

    Parameters
    ----------
    live : ndarray of int64
        The positions of all live nodes, ascending.
    """
    size, own, lacks = len(states.known), states.own[index], np.zeros(len(index), dtype=bool)
    is_live = np.zeros(size, dtype=bool)
    is_live[live] = True
    # before[i]: live nodes among the first i positions, going round the ring twice
    before = np.r_[0, np.cumsum(np.r_[is_live, is_live])]
    for side in SIDES:
        held = states.leaves[index, side_columns(states, side)]
        last = held[:, -1]
        out = np.where(last >= 0, places_out(states, index, last, side), size - 1)
        first = own + 1 if side == LARGER else own + size - out
        near = before[first + out] - before[first]
        lacks |= near > ((held >= 0) & is_live[held]).sum(axis=1)
    return lacks


def holds_leaf(states: States, index: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return True where the node at a position is in the leaf set."""
    held = np.empty(len(index), dtype=bool)
    position = position.astype(np.int32)
    for start in range(0, len(index), _ROWS):  # rows that stay in the cache
        some = slice(start, start + _ROWS)
        held[some] = (states.leaves[index[some]] == position[some, None]).any(axis=1)
    return held
