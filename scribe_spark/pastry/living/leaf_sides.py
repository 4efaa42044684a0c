"""The two sides of leaf sets that lose and gain leaves.

In a living overlay the sides of a leaf set may differ in length, and name dead nodes.  What is
offered is offered to both; a side never takes a leaf from the other.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.leaf_offers import holds_leaf
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.ragged import distinct, offsets_of

__all__ = [
    "LARGER",
    "SIDES",
    "SMALLER",
    "count_leaves",
    "distinct_leaves",
    "farthest",
    "places_out",
    "ring_leaves",
    "same_leaves",
    "side_columns",
    "take_leaves",
]

LARGER, SMALLER = SIDES = (0, 1)

_OFFERS = 2**20  # offers looked at together


def side_columns(states: States, side: int) -> slice:
    """The columns of `States.leaves` in which a side is, nearest first."""
    return slice(0, states.half) if side == LARGER else slice(states.half, 2 * states.half)


def places_out(
    states: States, index: np.ndarray, position: np.ndarray, side: int | np.ndarray
) -> np.ndarray:
    """How many places of `known` a position lies out from each node on a side; 0 for itself."""
    larger = np.asarray(side) == LARGER
    return np.where(larger, position - states.own[index], states.own[index] - position) % len(
        states.known
    )


def farthest(states: States, index: np.ndarray, side: int) -> np.ndarray:
    """The farthest leaf of each node on a side, the node itself where there is none: int64."""
    held = states.leaves[index, side_columns(states, side)]
    count = (held >= 0).sum(axis=1)
    last = held[np.arange(len(held)), np.maximum(count, 1) - 1]
    return np.where(count > 0, last, states.own[index])


def distinct_leaves(leaves: np.ndarray) -> np.ndarray:
    """Rows of leaves as sets: ascending, and :data:`NONE` where a leaf was mentioned before."""
    leaves = np.sort(leaves, axis=1)
    leaves[:, 1:][leaves[:, 1:] == leaves[:, :-1]] = NONE
    return leaves


def same_leaves(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether rows of leaves are the same sets of nodes, in any order: bool, one a row."""
    one, other = (np.sort(distinct_leaves(leaves), axis=1) for leaves in (one, other))
    return (one == other).all(axis=1)


def ring_leaves(live: np.ndarray, half: int) -> np.ndarray:
    """The leaf sets of nodes that are the ring's, as in `States.leaves`: int32, shape (n, l).

    Parameters
    ----------
    live : ndarray of int64, shape (n,)
        Positions of all nodes of the ring, ascending.
    half : int
        l / 2; a side has fewer leaves where there are not as many other nodes.
    """
    leaves = np.full((len(live), 2 * half), NONE, dtype=np.int32)
    steps = np.arange(1, min(half, len(live) - 1) + 1)
    place = np.arange(len(live))[:, None]
    leaves[:, : len(steps)] = live[(place + steps) % len(live)]
    leaves[:, half : half + len(steps)] = live[(place - steps) % len(live)]
    return leaves


def count_leaves(states: States, index: np.ndarray) -> int:
    """How many leaves some nodes have together; one that is on both sides of a node counts once."""
    larger, smaller = (
        places_out(states, index, farthest(states, index, side), side) for side in SIDES
    )
    meet = larger + smaller >= len(states.known)  # else no leaf is on both sides
    apart, both = states.leaves[index[~meet]], distinct_leaves(states.leaves[index[meet]])
    return int(np.count_nonzero(apart >= 0) + np.count_nonzero(both >= 0))


def take_leaves(
    states: States, index: np.ndarray, offers: np.ndarray, *, only_new: bool = False
) -> np.ndarray:
    """Offer nodes to leaf sets: each side keeps the l/2 nearest; writes `states.leaves`.

    The result does not depend on the order of the offers.

    Parameters
    ----------
    index : ndarray of int64, shape (m,)
        The node that is offered something.
    offers : ndarray of int, shape (m, k)
        Positions of live nodes, or :data:`NONE`; the node itself is passed over.
    only_new : bool
        Pass over those that are in the leaf set already, also if on the other side only.

    Returns
    -------
    ndarray of int64
        Whose leaf set has changed, ascending.
    """
    node, offer = _that_enter(states, index, offers)
    if only_new:
        new = ~holds_leaf(states, node, offer)
        node, offer = node[new], offer[new]
    touched = distinct(node)
    row = np.searchsorted(touched, node)
    before = states.leaves[touched]
    for side in SIDES:
        _fill_side(states, touched, row, offer, side)
    return touched[(states.leaves[touched] != before).any(axis=1)]


def _that_enter(
    states: States, index: np.ndarray, offers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The offers that are nearer than the farthest leaf of a side, or find room: int64 pairs."""
    size, half = np.int32(len(states.known)), states.half
    nodes, kept = [], []
    at_once = max(1, _OFFERS // max(1, offers.shape[1]))
    for start in range(0, len(index), at_once):
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
        nodes.append(node[row])
        kept.append(offer[row, column].astype(np.int64))
    if not nodes:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.concatenate(nodes), np.concatenate(kept)


def _fill_side(
    states: States, touched: np.ndarray, row: np.ndarray, offer: np.ndarray, side: int
) -> None:
    """The l/2 nearest of a side's leaves and what is offered; `row` says which of `touched`."""
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
