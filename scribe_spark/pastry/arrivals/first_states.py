"""What an arriving node makes of the answers to its join message.

References
----------
JSAC 2002, Section II.B: the nodes on the route send rows of their routing tables, the last one, Z,
its leaf set.
"""

from __future__ import annotations

import numpy as np

from scribe_spark import ids
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.leaf_offers import take_leaves
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.underlay.protocol import Kernel

__all__ = ["fill_first_states", "rows_supplied"]


def rows_supplied(shared: np.ndarray, present: np.ndarray, rows: str) -> np.ndarray:
    """The first row that each node of a route sends; the last is the digits that it shares.

    Row i comes from the first node that shares at least i digits, so that a hop which skips digits
    supplies several rows; with ``all``, every node sends all its rows from 0 on.

    Parameters
    ----------
    shared : ndarray of int64, shape (longest route, w)
        Digits that the nodes of each route share with the key.
    present : ndarray of bool, shape (longest route, w)
        Where there is a node; routes begin at the top.
    rows : str
        ``route`` or ``all``.

    Returns
    -------
    ndarray of int64, shape (longest route, w)
        Greater than `shared` where a node sends no row.
    """
    if rows == "all":
        return np.zeros_like(shared)
    first = np.zeros_like(shared)
    first[1:] = np.maximum.accumulate(np.where(present, shared, -1), axis=0)[:-1] + 1
    return first


def fill_first_states(
    states: States, kernel: Kernel, routes: np.ndarray, arriving: np.ndarray, rows: str
) -> None:
    """Fill leaf sets and tables of nodes that arrive, from what the nodes on their routes know.

    Parameters
    ----------
    states : States
        Of all known nodes; the arriving ones know nobody yet.
    routes : ndarray of int64, shape (longest route, w)
        See :func:`~scribe_spark.pastry.arrivals.routes.join_routes`.
    arriving : ndarray of int64, shape (w,)
    rows : str
        See :func:`rows_supplied`.
    """
    known, present = states.known, routes >= 0
    node, key = known.take(routes), known.take(arriving)
    shared = ids.shared_digits_np(node.hi, node.lo, key.hi, key.lo, states.b)
    first = rows_supplied(shared, present, rows)
    place = np.arange(states.cells.shape[1])
    offers = []
    for at, lowest, highest, there in zip(routes, first, shared, present, strict=True):
        sends = (place >= lowest[:, None]) & (place <= highest[:, None]) & there[:, None]
        entries = np.where(sends[:, :, None], states.cells[at], NONE)
        message, _, _ = np.nonzero(entries >= 0)
        offers.append((message, entries[entries >= 0]))
        offers.append((np.flatnonzero(there), at[there]))  # the nodes on the route themselves
    last = routes[present.sum(axis=0) - 1, np.arange(len(arriving))]
    around = np.concatenate([states.leaves[last], last[:, None].astype(np.int32)], axis=1)
    message, _ = np.nonzero(around >= 0)
    offers.append((message, around[around >= 0]))
    take_leaves(states, arriving[message], around[around >= 0])
    messages, entries = (np.concatenate(part) for part in zip(*offers, strict=True))
    take_cells(states, kernel, arriving[messages], entries)
    sending = present & (first <= shared)
    states.messages[arriving, Kind.JOIN] = present.sum(axis=0)
    states.messages[arriving, Kind.ROWS] = sending.sum(axis=0)
    states.messages[arriving, Kind.LEAF_SET] = 1
