"""Offers of nodes to leaf sets: each side keeps the l/2 nearest nodes.

In a living overlay, the sides of a leaf set may differ in length and contain dead nodes.  Every
offer is made to both sides; a side never takes over a leaf of the other side.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import (
    distinct,
    distinct_indices,
    divided,
    index_in_run,
    whole_numbers,
)
from scribe_spark.pastry.states import NONE, States

LARGER, SMALLER = SIDES = (0, 1)

_OFFERS = 2**16  # the number of offers that are compared in one step, in the cache
_ROWS = 2**13


def side_columns(states: States, side: int) -> slice:
    """Return the columns of `States.leaves` that contain a side, nearest leaf first."""
    return slice(0, states.half) if side == LARGER else slice(states.half, 2 * states.half)


def places_out(
    size: int | np.int32, node: np.ndarray, position: np.ndarray, side: int | np.ndarray
) -> np.ndarray:
    """Return the distance in ring positions from a node to a position on one side; 0 for itself."""
    out = (position - node) * (1 - 2 * side)
    out += (out < 0) * size  # four times faster than a remainder
    return out


def take_leaves(
    states: States, index: np.ndarray, offers: np.ndarray, *, only_new: bool = False
) -> np.ndarray:
    """Offer nodes to leaf sets; return the indices of the nodes whose leaf set changed, ascending.

    Each side keeps the l/2 nearest nodes; the result does not depend on the order of the offers.
    The offers, shape (m,) or (m, k), are live nodes or :data:`NONE`; a node ignores an offer of
    itself.  With `only_new`, leaves of either side are not offered again.
    """
    offers = offers if offers.ndim == 2 else offers[:, None]
    nodes = distinct_indices(len(states.own), index)
    number = np.empty(len(states.own), dtype=np.int32)
    number[nodes] = np.arange(len(nodes))
    rooms = [_room(states, nodes, side) for side in SIDES]
    entering = _entering(states, nodes, number[index], offers, rooms, only_new)
    changed = [_fill_side(states, nodes, *entering[side], side) for side in SIDES]
    return distinct(np.concatenate(changed))


def _room(states: States, index: np.ndarray, side: int) -> np.ndarray:
    """Return the distance below which an offer enters a side: int32, the ring's size if any."""
    last = states.leaves[index, side_columns(states, side).stop - 1]
    out = places_out(len(states.known), states.own[index], last, side)
    return np.where(last >= 0, out, len(states.known)).astype(np.int32)


def _entering(
    states: States,
    nodes: np.ndarray,
    to: np.ndarray,
    offers: np.ndarray,
    rooms: list[np.ndarray],
    only_new: bool,
) -> list[tuple[np.ndarray, int]]:
    """Return the offers that enter each side, as keys ``to * width + distance``, and the width.

    The value `to` is an index into `nodes`.
    """
    size, own = np.int32(len(states.known)), states.own[nodes].astype(np.int32)
    widths = [1 + int(room.max(initial=0)) for room in rooms]
    # only then can a leaf of one side enter the other side
    meet = rooms[LARGER] > size - rooms[SMALLER]
    keys: list[list[np.ndarray]] = [[whole_numbers()] for _ in SIDES]
    at_once = max(1, _OFFERS // max(1, offers.shape[1]))
    for start in range(0, len(to), at_once):
        row = to[start : start + at_once]
        offer = offers[start : start + at_once].astype(np.int32, copy=False)
        out = places_out(size, own[row, None], offer, LARGER)
        out[offer < 0] = 0
        for side in SIDES:
            if side == SMALLER:
                np.subtract(size, out, out=out, where=out > 0)
            one, column = np.nonzero((out < rooms[side][row, None]) & (out > 0))
            receiver = row[one].astype(np.int64)
            key = receiver * widths[side] + out[one, column]
            if only_new and (some := np.flatnonzero(meet[receiver])).size:
                held = holds_leaf(states, nodes[receiver[some]], offer[one[some], column[some]])
                key = np.delete(key, some[held])
            keys[side].append(key)
    return [(np.concatenate(keys[side]), widths[side]) for side in SIDES]


def _fill_side(
    states: States, nodes: np.ndarray, keys: np.ndarray, width: int, side: int
) -> np.ndarray:
    """Keep the l/2 nearest of a side's leaves and the offers; return the changed nodes."""
    size, half, columns = len(states.known), states.half, side_columns(states, side)
    touched = distinct_indices(len(nodes), keys // width)
    index = nodes[touched]
    held = states.leaves[index, columns]
    one, column = np.nonzero(held >= 0)
    out = places_out(size, states.own[index[one]], held[one, column], side)
    keys = distinct_indices(len(nodes) * width, np.r_[keys, touched[one] * width + out])
    row, out = divided(keys, width)
    order = index_in_run(row)
    near = np.flatnonzero(order < half)
    number = np.empty(len(nodes), dtype=np.int64)
    number[touched] = np.arange(len(touched))
    row, out = number[row[near]], out[near]
    position = states.own[index[row]] + (out if side == LARGER else -out)
    position += np.where(position < 0, size, 0) - np.where(position >= size, size, 0)
    taken = np.full_like(held, NONE)
    taken[row, order[near]] = position
    states.leaves[index, columns] = taken
    return index[(taken != held).any(axis=1)]


def lacks_leaves(states: States, index: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Return True for leaf sets that would change if all live nodes (ascending) were offered."""
    size, own, lacks = len(states.known), states.own[index], np.zeros(len(index), dtype=bool)
    is_live = np.zeros(size, dtype=bool)
    is_live[live] = True
    # before[i]: live nodes among the first i positions, going round the ring twice
    before = np.r_[0, np.cumsum(np.r_[is_live, is_live])]
    for side in SIDES:
        held = states.leaves[index, side_columns(states, side)]
        last = held[:, -1]
        out = np.where(last >= 0, places_out(size, own, last, side), size - 1)
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
        leaves = states.leaves.take(index[some], axis=0)
        held[some] = (leaves == position[some, None]).any(axis=1)
    return held
