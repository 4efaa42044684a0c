"""Offers of nodes to routing tables: each cell keeps the nearest node that it is offered.

References
----------
JSAC 2002, Section II: "among such nodes, the one closest to the present node (according to a scalar
proximity metric) is chosen".
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import run_starts
from scribe_spark.core.keys import order_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.states import States
from scribe_spark.underlay.protocol import Kernel

_OFFERS = 2**16  # the number of offers that are compared in one step, in the cache
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
    """Offer nodes to routing tables (by index); return True for changed nodes: bool, shape (n,).

    Each cell keeps the nearest of its entry and the offers.  Among equally near nodes it keeps the
    one with the smallest nodeId, so the result does not depend on the order of the offers.  A node
    ignores an offer of itself.  The cells, ``row * 2**b + col``, are computed if omitted.
    """
    changed = np.zeros(len(states.own), dtype=bool)
    for start in range(0, len(index), _OFFERS):
        part = slice(start, start + _OFFERS)
        where = None if cell is None else cell[part]
        _take(states, kernel, index[part], position[part].astype(np.int64), where, changed)
    return changed


def take_rows(states: States, kernel: Kernel, row: np.ndarray, entries: np.ndarray) -> None:
    """Offer the nodes of routing table rows to each other; writes `states.cells`.

    The rows have the shape (m, 2**b) and the numbers `row`.  Two nodes of a row share exactly `row`
    digits.  Receivers are the nodes of the row that are in `states.own`.
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
        end = min(end, start + max(1, _OFFERS // wide**2))
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


def _take(
    states: States,
    kernel: Kernel,
    index: np.ndarray,
    position: np.ndarray,
    cell: np.ndarray | None,
    changed: np.ndarray,
) -> None:
    other = np.flatnonzero(position != states.own[index])
    index, position = index[other], position[other]
    cell = cells_of(states, states.own[index], position) if cell is None else cell[other]
    slot = index * (states.cells.shape[1] * states.cells.shape[2]) + cell
    present = states.cells.reshape(-1)[slot]
    changed[_take_nearer(states, kernel, slot, position, present)] = True


def _take_nearer(
    states: States, kernel: Kernel, slot: np.ndarray, position: np.ndarray, present: np.ndarray
) -> np.ndarray:
    """Put offers into cells if they are nearer; return the indices of changed nodes (repeated).

    The slot of an offer is an index into the flattened `States.cells`; `present` is its entry.
    """
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
    """Return the cells of nodes' tables where other nodes belong, ``row * 2**b + col``: int64.

    All nodes are given as positions.
    """
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
    """Return numbers that sort other nodes by (delay from a node, nodeId), given as positions."""
    return kernel.delays(known.router[node], known.router[other]) << _POSITION | other


def scored(score: np.ndarray) -> np.ndarray:
    """Return the positions of the other nodes in scores of :func:`scores`."""
    return score & (2**_POSITION - 1)
