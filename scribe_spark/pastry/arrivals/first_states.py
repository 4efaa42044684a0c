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
from scribe_spark.pastry.arrivals.states import IsAlive, States, live_only
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
    states: States,
    kernel: Kernel,
    routes: np.ndarray,
    present: np.ndarray,
    arriving: np.ndarray,
    rows: str,
    is_alive: IsAlive,
) -> np.ndarray:
    """Fill leaf sets and tables of nodes that arrive, from what the nodes on their routes know.

    Parameters
    ----------
    states : States
        Of all known nodes; the arriving ones know nobody yet.
    routes : ndarray of int64, shape (longest route, w)
        The nodes of each route, :data:`NONE` after its end.
    present : ndarray of bool, shape (longest route, w)
        Where there is a node that has not been on the route before.
    arriving : ndarray of int64, shape (w,)
    rows : str
        See :func:`rows_supplied`.
    is_alive : callable

    Returns
    -------
    ndarray of bool, shape (longest route, w)
        Which nodes of the routes send rows.
    """
    known = states.known
    node, key = known.take(routes), known.take(arriving)
    shared = ids.shared_digits_np(node.hi, node.lo, key.hi, key.lo, states.b)
    first = rows_supplied(shared, present, rows)
    place = np.arange(states.cells.shape[1])
    offers = []
    for at, lowest, highest, there in zip(routes, first, shared, present, strict=True):
        message = np.flatnonzero(there)
        offers.append((message, at[message]))  # the nodes on the route themselves
        sends = (place >= lowest[message, None]) & (place <= highest[message, None])
        one, row = np.nonzero(sends)
        entries = states.cells[at[message[one]], row]
        block, column = np.nonzero(is_alive(entries))
        offers.append((message[one[block]], entries[block, column].astype(np.int64)))
    last = routes[(routes >= 0).sum(axis=0) - 1, np.arange(len(arriving))]
    around = live_only(is_alive, np.c_[states.leaves[last], last])
    message, column = np.nonzero(around >= 0)
    offers.append((message, around[message, column].astype(np.int64)))
    take_leaves(states, arriving, around)
    message, entry = (np.concatenate(part) for part in zip(*offers, strict=True))
    take_cells(states, kernel, arriving[message], entry)
    return present & (first <= shared)
