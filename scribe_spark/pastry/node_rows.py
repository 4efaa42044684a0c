"""An overlay between two rounds as flat arrays, one row a node: to be written to a table.

Rows name nodes by their numbers, so that they can be read in any order, and together with rows of
nodes that are new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import offsets_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.lives import NEVER, KnowsLives
from scribe_spark.pastry.overlay_state import OverlayState

__all__ = ["NodeRows", "from_rows", "to_rows"]


@dataclass(frozen=True)
class NodeRows:
    """Everything that a world has to keep of n nodes from round to round.

    Attributes
    ----------
    hi, lo : ndarray of uint64, shape (n,)
        Halves of the nodeIds.
    node, router : ndarray of int64, shape (n,)
        Numbers of the nodes, without large gaps; indices of their routers.
    alive : ndarray of bool, shape (n,)
    died, wait, entered : ndarray of int64, shape (n,)
        See :class:`OverlayState`.
    leaves : ndarray of int32, shape (n, l)
        Numbers of nodes as in `States.leaves`.
    offsets : ndarray of int64, shape (n + 1,)
        Where each node's entries begin in the other two.
    cell, entry : ndarray of int32
        Filled cells, ``row * 2**b + col``, and the numbers of the nodes in them.
    """

    hi: np.ndarray
    lo: np.ndarray
    node: np.ndarray
    router: np.ndarray
    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray
    leaves: np.ndarray
    offsets: np.ndarray
    cell: np.ndarray
    entry: np.ndarray

    @classmethod
    def of_new(cls, nodes: Ring, leaf_set: int) -> NodeRows:
        """Nodes that have not been there yet."""
        n, none = len(nodes), np.empty(0, dtype=np.int32)
        return cls(
            nodes.hi,
            nodes.lo,
            nodes.node,
            nodes.router,
            np.zeros(n, dtype=bool),
            np.full(n, NEVER, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.full((n, leaf_set), NONE, dtype=np.int32),
            np.zeros(n + 1, dtype=np.int64),
            none,
            none,
        )

    @staticmethod
    def join(*parts: NodeRows) -> NodeRows:
        """The rows of several, one after the other; each node once."""
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in NodeRows.__dataclass_fields__
            if name != "offsets"
        }
        return NodeRows(**columns, offsets=offsets_of(lengths))


def to_rows(states: States, lives: KnowsLives) -> NodeRows:
    """The nodes of an overlay, or of a bucket of it, as rows in the order of nodeIds."""
    known, own = states.known, slice(states.first, states.first + len(states.own))
    number = np.r_[known.node, NONE].astype(np.int32)  # what NONE indexes is NONE
    tables = states.cells.reshape(len(states.own), -1)
    filled = tables >= 0
    cells = np.arange(tables.shape[1], dtype=np.int32)
    return NodeRows(
        known.hi[own],
        known.lo[own],
        known.node[own],
        known.router[own],
        np.array(lives.alive[own]),
        lives.died[own].astype(np.int64),
        lives.wait[own].astype(np.int64),
        lives.entered[own].astype(np.int64),
        number[states.leaves],
        offsets_of(np.count_nonzero(filled, axis=1)),
        np.broadcast_to(cells, tables.shape)[filled],
        number[tables[filled]],
    )


def from_rows(rows: NodeRows, b: int) -> OverlayState:
    """The overlay of some rows; they may come in any order.

    Parameters
    ----------
    rows : NodeRows
        Of all nodes that any of them names, each once.
    b : int
        Digits are base 2**b.
    """
    order = np.lexsort((rows.lo, rows.hi))
    known = Ring(rows.hi, rows.lo, rows.node, rows.router).take(order)
    states = States.empty(known, np.arange(len(known)), rows.leaves.shape[1], b)
    place = np.empty(int(known.node.max(initial=0)) + 1, dtype=np.int32)  # of each number
    place[known.node] = np.arange(len(known))
    leaves = rows.leaves[order]
    states.leaves[:] = np.where(leaves >= 0, place[leaves], NONE)
    width = states.cells[:1].size
    cell = np.repeat(place[rows.node].astype(np.int64) * width, np.diff(rows.offsets))
    cell += rows.cell
    states.cells.reshape(-1)[cell] = place[rows.entry]
    kept = (rows.alive, rows.died, rows.wait, rows.entered)
    return OverlayState(states, *[column[order] for column in kept])
