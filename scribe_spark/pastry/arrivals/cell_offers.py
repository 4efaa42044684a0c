"""Nodes that are offered to routing tables: each cell keeps the nearest.

References
----------
JSAC 2002, Section II: "among such nodes, the one closest to the present node (according to a scalar
proximity metric) is chosen".
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.underlay.protocol import Kernel

__all__ = ["NOBODY", "cells_of", "scored", "scores", "take_cells"]

_OFFERS = 2**20  # offers looked at together
_POSITION = 31  # bits of a position, below those of a delay

#: The score of no node: any other is nearer.
NOBODY = np.int64(2**63 - 1)


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


def _take(
    states: States,
    kernel: Kernel,
    index: np.ndarray,
    position: np.ndarray,
    cell: np.ndarray | None,
    changed: np.ndarray,
) -> None:
    node = states.own[index]
    other = position != node
    index, position, node = index[other], position[other], node[other]
    cell = cells_of(states, index, position) if cell is None else cell[other]
    tables = states.cells.reshape(len(states.own), -1)
    # 1. offers that are nearer than what the cell has
    present = tables[index, cell].astype(np.int64)
    filled = np.flatnonzero(present >= 0)
    score = scores(states.known, kernel, node, position)
    to_beat = np.full(len(score), NOBODY)
    to_beat[filled] = scores(states.known, kernel, node[filled], present[filled])
    nearer = score < to_beat
    index, cell, score = index[nearer], cell[nearer], score[nearer]
    # 2. of those for one cell the nearest
    order = np.lexsort((score, index * tables.shape[1] + cell))
    index, cell, score = index[order], cell[order], score[order]
    first = np.ones(len(index), dtype=bool)
    first[1:] = (index[1:] != index[:-1]) | (cell[1:] != cell[:-1])
    tables[index[first], cell[first]] = scored(score[first])
    changed[index] = True


def cells_of(states: States, index: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Where nodes belong in the tables of others, ``row * 2**b + col``: int64."""
    node, other, b = states.known.take(states.own[index]), states.known.take(position), states.b
    row = ids.shared_digits_np(node.hi, node.lo, other.hi, other.lo, b)
    return row * 2**b + ids.digit_at_np(other.hi, other.lo, row, b)


def scores(known: Ring, kernel: Kernel, node: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Numbers that sort others by (delay from a node, nodeId); both are positions in `known`."""
    return kernel.delays(known.router[node], known.router[other]) << _POSITION | other


def scored(score: np.ndarray) -> np.ndarray:
    """The other nodes that have some scores, as positions."""
    return score & (2**_POSITION - 1)
