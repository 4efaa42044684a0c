"""Nodes that are offered to routing tables: each cell keeps the nearest.

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

_OFFERS = 2**20  # offers looked at together
_POSITION = 31  # bits of a position; delays are below 2**32 (`underlay.routable`)

#: The score of no node: any other is nearer.
NO_OFFER = np.int64(2**63 - 1)


def take_cells(
    states: States,
    kernel: Kernel,
    index: np.ndarray,
    position: np.ndarray,
    cell: np.ndarray | None = None,
) -> np.ndarray:
    """Offer nodes to routing tables; writes `states.cells`.

    A cell takes the nearest of its entry and all that it is offered, of equally near ones that with
    the smallest nodeId, so that the order of the offers does not matter.

    Parameters
    ----------
    index : ndarray of int64, shape (m,)
        The node that is offered something, as an index into `states.own`.
    position : ndarray of int64, shape (m,)
        The node offered, as a position in `states.known`; the node itself is passed over.
    cell : ndarray of int64, shape (m,), optional
        Where the offer belongs, ``row * 2**b + col``, if the caller knows.

    Returns
    -------
    ndarray of bool, shape (n,)
        Whose routing table has changed.
    """
    changed = np.zeros(len(states.own), dtype=bool)
    for start in range(0, len(index), _OFFERS):
        part = slice(start, start + _OFFERS)
        where = None if cell is None else cell[part]
        _take(states, kernel, index[part], position[part].astype(np.int64), where, changed)
    return changed


def take_rows(
    states: States, kernel: Kernel, sender: np.ndarray, row: np.ndarray, entries: np.ndarray
) -> None:
    """Offer the nodes of rows of others' tables to one another; writes `states.cells`.

    Parameters
    ----------
    sender, row : ndarray of int64, shape (m,)
        The owner of each row, a position, and the row's number.
    entries : ndarray of int32, shape (m, 2**b)
        The row with its owner in the column of its own digit.  Those of `states.own` take the
        others, but for the owner: they share the row's digits and no more.
    """
    base, first, last = 2**states.b, states.first, states.first + len(states.own)
    width = states.cells.shape[1] * base
    # entries to the front, rows with as many of them together
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
        told = (entry >= first) & (entry < last) & (entry != sender[some, None])
        begin = (entry.astype(np.int64) - first) * width + row[some, None] * base
        slot = np.where(told, begin, 0)[:, :, None] + column[:, None, :]
        offer = np.broadcast_to(entry[:, None, :], slot.shape)
        new = told[:, :, None] & (offer >= 0) & (states.cells.reshape(-1)[slot] != offer)
        new &= ~np.eye(column.shape[1], dtype=bool)
        new = np.flatnonzero(new)
        slot, offer = slot.reshape(-1)[new], offer.reshape(-1)[new].astype(np.int64)
        _take_nearer(states, kernel, slot, offer)
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
    cell = cells_of(states, index, position) if cell is None else cell[other]
    slot = index * (states.cells.shape[1] * states.cells.shape[2]) + cell
    changed[_take_nearer(states, kernel, slot, position)] = True


def _take_nearer(
    states: States, kernel: Kernel, slot: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """Cells take what is nearer than their entry; return the indices of the nodes, many twice.

    Parameters
    ----------
    slot : ndarray of int64, shape (m,)
        The cell that is offered a node, as an index into the flat `States.cells`.
    position : ndarray of int64, shape (m,)
        The node.
    """
    cells, width = states.cells.reshape(-1), states.cells.shape[1] * states.cells.shape[2]
    # 1. offers that are nearer than what the cell has
    present = cells[slot].astype(np.int64)
    new = np.flatnonzero(present != position)
    slot, position, present = slot[new], position[new], present[new]
    index = slot // width
    router, at = states.known.router, states.own[index]
    here = router[at]
    delay = kernel.delays(here, router[position])
    filled = np.maximum(present, 0)
    to_beat = kernel.delays(here, router[filled])
    nearer = (delay < to_beat) | ((delay == to_beat) & (position < filled)) | (present < 0)
    slot, delay, position = slot[nearer], delay[nearer], position[nearer]
    # 2. of those for one cell the nearest
    order = order_of(slot, delay, position)
    slot, position = slot[order], position[order]
    first = run_starts(slot)
    cells[slot[first]] = position[first]
    return slot[first] // width


def cells_of(states: States, index: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return the cells of others' tables that nodes belong in, ``row * 2**b + col``: int64."""
    node, other, b = states.known.take(states.own[index]), states.known.take(position), states.b
    row = ids.shared_digits_np(node.hi, node.lo, other.hi, other.lo, b)
    return row * 2**b + ids.digit_at_np(other.hi, other.lo, row, b)


def scores(known: Ring, kernel: Kernel, node: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Numbers that sort others by (delay from a node, nodeId); both are positions in `known`."""
    return kernel.delays(known.router[node], known.router[other]) << _POSITION | other


def scored(score: np.ndarray) -> np.ndarray:
    """The other nodes that have some scores, as positions."""
    return score & (2**_POSITION - 1)
