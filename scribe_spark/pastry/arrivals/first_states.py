"""What an arriving node makes of the answers to its join message.

References
----------
JSAC 2002, Section II.B: the nodes on the route send rows of their routing tables, the last one, Z,
its leaf set.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.leaf_offers import take_leaves
from scribe_spark.pastry.arrivals.states import IsAlive, States, live_only
from scribe_spark.underlay.protocol import Kernel

__all__ = ["fill_first_states", "rows_of_routes", "rows_supplied", "supplied_entries"]


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


def rows_of_routes(
    states: States, routes: np.ndarray, present: np.ndarray, arriving: np.ndarray, rows: str
) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last row that each node on each route sends: int64, as `routes`.

    Parameters are those of :func:`fill_first_states`.
    """
    node, key = states.known.take(routes), states.known.take(arriving)
    shared = ids.shared_digits_np(node.hi, node.lo, key.hi, key.lo, states.b)
    return rows_supplied(shared, present, rows), shared


def supplied_entries(
    states: States, at: np.ndarray, first: np.ndarray, last: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that nodes send which are at the same place of their routes.

    Parameters
    ----------
    at, first, last, present : ndarray, shape (w,)
        The node of each route, the rows that it sends, and whether there is one.

    Returns
    -------
    message : ndarray of int64, shape (m,)
        The route that each row is for.
    entries : ndarray of int32, shape (m, 2**b)
    """
    message, place = np.flatnonzero(present), np.arange(states.cells.shape[1])
    sends = (place >= first[message, None]) & (place <= last[message, None])
    one, row = np.nonzero(sends)
    return message[one], states.cells[at[message[one]], row]


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
    first, last = rows_of_routes(states, routes, present, arriving, rows)
    offers = []
    for at, lowest, highest, there in zip(routes, first, last, present, strict=True):
        offers.append((np.flatnonzero(there), at[there]))  # the nodes on the route themselves
        message, entries = supplied_entries(states, at, lowest, highest, there)
        block, column = np.nonzero(is_alive(entries))
        offers.append((message[block], entries[block, column].astype(np.int64)))
    end = routes[(routes >= 0).sum(axis=0) - 1, np.arange(len(arriving))]
    around = live_only(is_alive, np.c_[states.leaves[end], end])
    message, column = np.nonzero(around >= 0)
    offers.append((message, around[message, column].astype(np.int64)))
    take_leaves(states, arriving, around)
    message, entry = (np.concatenate(part) for part in zip(*offers, strict=True))
    take_cells(states, kernel, arriving[message], entry)
    return present & (first <= last)
