"""Offers of nodes to leaf sets and routing tables, in any order.

An *offer* is a node that another node may take into its tables.  Each side of a leaf set keeps the
l/2 nearest nodes, each cell the nearest node that it is offered.  In a living overlay, the sides of
a leaf set may differ in length and contain dead nodes.  Every offer is made to both sides; a side
never takes over a leaf of the other side.

JSAC 2002, Section II: "among such nodes, the one closest to the present node (according to a scalar
proximity metric) is chosen".
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import (
    distinct,
    distinct_indices,
    divided,
    index_in_run,
    run_starts,
    whole_numbers,
)
from scribe_spark.core.keys import order_of
from scribe_spark.engine.facts import Ring
from scribe_spark.pastry.states import NONE, States
from scribe_spark.underlay.protocol import Kernel

LARGER, SMALLER = SIDES = (0, 1)

_OFFERS = 2**16  # the number of offers that are compared in one step, in the cache
_ROWS = 2**13


def side_columns(states: States, side: int) -> slice:
    """Return the columns of `States.leaves` with a side (larger or smaller), nearest leaf first."""
    return slice(0, states.half) if side == LARGER else slice(states.half, 2 * states.half)


def places_out(
    size: int | np.int32, node: np.ndarray, position: np.ndarray, side: int | np.ndarray
) -> np.ndarray:
    """Return how many positions a position is away on a side (0: greater nodeIds) of a node."""
    out = (position - node) * (1 - 2 * side)
    out += (out < 0) * size  # four times faster than a remainder
    return out


def take_leaves(
    states: States, index: np.ndarray, offers: np.ndarray, *, only_new: bool = False
) -> np.ndarray:
    """Offer nodes to leaf sets; return the indices of the nodes whose leaf set changed, ascending.

    Each side keeps the l/2 nearest nodes; the result does not depend on the order of the offers.
    `index` has the receivers, as indices in `states`.  The offers, shape (m,) or (m, k), are
    positions of live nodes or :data:`NONE`; a node ignores an offer of itself.  With `only_new`,
    leaves of either side are not offered again.
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
    """Return the distance (positions) below which an offer enters a side of leaf sets: int32."""
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
    """Return, for each side, the offers that enter it, as keys, and the width of keys."""
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
    """Put offered nodes into one side of leaf sets; return the rows of `states` that changed."""
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
    """Return True for leaf sets that would change if the `live` nodes were offered to them."""
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
    """Return True where the node `index` in `states` has `position` in its leaf set."""
    held = np.empty(len(index), dtype=bool)
    position = position.astype(np.int32)
    for start in range(0, len(index), _ROWS):  # rows that stay in the cache
        some = slice(start, start + _ROWS)
        leaves = states.leaves.take(index[some], axis=0)
        held[some] = (leaves == position[some, None]).any(axis=1)
    return held


# --- routing tables


_CELLS_AT_ONCE = 2**16  # the number of offers that are compared in one step, in the cache
_POSITION = 31  # bits of a position; delays are below 2**32 (`underlay.routable`)

#: The score that stands for "no node"; greater than the score of every node.
NO_OFFER = np.int64(2**63 - 1)


def take_cells(
    states: States,
    kernel: Kernel,
    index: np.ndarray,
    position: np.ndarray,
    cell: np.ndarray | None = None,
) -> np.ndarray:
    """Offer nodes to routing tables (`index` in `states`); return True for changed nodes: bool.

    Each cell keeps the nearest of its entry and the offers.  Among equally near nodes it keeps the
    one with the smallest nodeId, so the result does not depend on the order of the offers.  A node
    ignores an offer of itself.  The cells, ``row * 2**b + col``, are computed if omitted.  The
    result has the shape (n,).
    """
    changed = np.zeros(len(states.own), dtype=bool)
    flat, width = states.cells.reshape(-1), states.cells.shape[1] * states.cells.shape[2]
    for start in range(0, len(index), _CELLS_AT_ONCE):
        part = slice(start, start + _CELLS_AT_ONCE)
        to, offered = index[part], position[part].astype(np.int64)
        other = np.flatnonzero(offered != states.own[to])
        to, offered = to[other], offered[other]
        where = cells_of(states, states.own[to], offered) if cell is None else cell[part][other]
        slot = to * width + where
        changed[_take_nearer(states, kernel, slot, offered, flat[slot])] = True
    return changed


def take_rows(states: States, kernel: Kernel, row: np.ndarray, entries: np.ndarray) -> None:
    """Offer the nodes of each routing table row to each other; this writes `states.cells`.

    The rows (`entries`) have the shape (m, 2**b) and the numbers `row`.  Two nodes of a row share
    exactly `row` digits.  Receivers are the nodes of the row that are in `states.own`.
    """
    base, first, last = 2**states.b, states.first, states.first + len(states.own)
    width, flat = states.cells.shape[1] * base, states.cells.reshape(-1)
    # move entries to the front, and handle rows with about equally many entries together
    count = (entries >= 0).sum(axis=1)
    by_count = np.argsort(count, kind="stable")
    columns = np.argsort(entries < 0, axis=1, kind="stable").astype(np.int32)
    start = 0
    while start < len(by_count):
        wide = int(count[by_count[start]]) + 1  # a little wider, so that there are few blocks
        end = int(np.searchsorted(count[by_count], wide, side="right"))
        end = min(end, start + max(1, _CELLS_AT_ONCE // wide**2))
        some = by_count[start:end]
        column = columns[some, :wide]
        entry = np.take_along_axis(entries[some], column, axis=1)
        told = (entry >= first) & (entry < last)
        begin = (entry.astype(np.int64) - first) * width + row[some, None] * base
        slot = np.where(told, begin, 0)[:, :, None] + column[:, None, :]
        offer = np.broadcast_to(entry[:, None, :], slot.shape)
        present = flat[slot]
        new = told[:, :, None] & (offer >= 0) & (present != offer)
        new &= ~np.eye(column.shape[1], dtype=bool)
        new = np.flatnonzero(new)
        slot, offer = slot.reshape(-1)[new], offer.reshape(-1)[new].astype(np.int64)
        _take_nearer(states, kernel, slot, offer, present.reshape(-1)[new])
        start = end


def _take_nearer(
    states: States, kernel: Kernel, slot: np.ndarray, position: np.ndarray, present: np.ndarray
) -> np.ndarray:
    """Put nearer offers into cells; return the indices of changed nodes, with repetitions."""
    cells, width = states.cells.reshape(-1), states.cells.shape[1] * states.cells.shape[2]
    router = states.known.router
    # 1. keep offers that are nearer than the entry of the cell
    here = router[states.first + slot // width]
    delay = kernel.delays(here, router[position])
    to_beat = kernel.delays(here, router[present])  # of any node if the cell is empty
    nearer = (delay < to_beat) | ((delay == to_beat) & (position < present)) | (present < 0)
    nearer = np.flatnonzero(nearer)
    slot, delay, position = slot[nearer], delay[nearer], position[nearer]
    # 2. keep the nearest offer of each cell
    order = order_of(slot, delay, position)
    slot, position = slot[order], position[order]
    first = run_starts(slot)
    cells[slot[first]] = position[first]
    return slot[first] // width


def cells_of(states: States, node: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the cell (row * 2**b + col) of a node's table for another node: int64."""
    known, b = states.known, states.b
    hi, lo = known.hi[other], known.lo[other]
    row = ids.shared_digits_np(known.hi[node], known.lo[node], hi, lo, b)
    return row * 2**b + ids.digit_at_np(hi, lo, row, b)


def cells_in_rows(
    states: States, node: np.ndarray, row: np.ndarray, column: np.ndarray, entry: np.ndarray
) -> np.ndarray:
    """Return the cells of nodes' tables where entries of other nodes' rows belong: int64.

    A node shares the row's digits with the row's owner.  So an entry belongs in the same cell,
    except in the column of the node's own digit: that entry shares more digits.
    """
    cell, own = row * 2**states.b + column, states.known
    deeper = np.flatnonzero(column == ids.digit_at_np(own.hi[node], own.lo[node], row, states.b))
    cell[deeper] = cells_of(states, node[deeper], entry[deeper])
    return cell


def scores(known: Ring, kernel: Kernel, node: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a number for each other node, which sorts by (delay from a node, nodeId)."""
    return kernel.delays(known.router[node], known.router[other]) << _POSITION | other


def scored(score: np.ndarray) -> np.ndarray:
    """Return the positions of the other nodes, from their scores (:func:`scores`)."""
    return score & (2**_POSITION - 1)
