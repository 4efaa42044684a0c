"""Introductions: the nodes of a wave learn of those of them that came earlier.

One after the other, a node would have found those before it in the tables that answer its join
message.  In a wave nobody knows them yet; once all have announced themselves, the same nodes do.

References
----------
JSAC 2002, Section II.B, whose nodes arrive one after the other; introductions are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.first_states import rows_of_routes, supplied_entries
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.underlay.protocol import Kernel

__all__ = [
    "LATER",
    "Introduced",
    "Introductions",
    "introduce",
    "is_earlier",
    "learn",
    "rows_told",
]

#: The place in a wave of nodes that are not of it.
LATER = np.int64(2**63 - 1)

_ROWS = 2**16  # rows that are told at once


@dataclass(frozen=True)
class Introduced:
    """Pairs of an arrived node and an earlier one of its wave, whom it tells of itself.

    Attributes
    ----------
    arrived : ndarray of int64, shape (m,)
        Which of the arrived nodes.
    to : ndarray of int64, shape (m,)
        The earlier node, as a position in `States.known`.
    row : ndarray of int64, shape (m,)
        The row of the arrived node's table that the earlier one is new in; -1 for a leaf that is
        not new in the table.
    """

    arrived: np.ndarray
    to: np.ndarray
    row: np.ndarray


@dataclass(frozen=True)
class Introductions:
    """Messages of this kind: arrays of int64, shape (m,).

    Attributes
    ----------
    cause : ndarray of int64
        Which of the arrived nodes a message is about.
    sender, to : ndarray of int64
        Positions in `States.known`.
    """

    cause: np.ndarray
    sender: np.ndarray
    to: np.ndarray


def introduce(
    states: States,
    kernel: Kernel,
    routes: np.ndarray,
    present: np.ndarray,
    arriving: np.ndarray,
    order: np.ndarray,
    rules: ArrivalRules,
) -> Introductions:
    """Introductions in an overlay that one task has; writes `states.cells`.

    Parameters
    ----------
    states : States
        Of all known nodes, after the announcements and the leaf set exchange.
    routes, present : ndarray, shape (longest route, w)
        Of the join messages, see :func:`~.first_states.fill_first_states`.
    arriving, order : ndarray of int64, shape (w,)
        Positions of the nodes of the wave, and numbers that are in the order of their arrival.

    Returns
    -------
    Introductions
        All that were sent.
    """
    if len(arriving) < 2:  # there is nobody to learn of
        return Introductions(*np.empty((3, 0), dtype=np.int64))
    place = np.full(len(states.known), LATER)
    place[arriving] = order
    # 1. the nodes on the route send who is in their rows now; all see the state before
    offers, told = [], []
    first, last = rows_of_routes(states, routes, present, arriving, rules.rows)
    for hop in zip(routes, first, last, present, strict=True):
        message, entries = supplied_entries(states, *hop)
        one, column = np.nonzero(is_earlier(place, entries, arriving[message]))
        offers.append((message[one], entries[one, column].astype(np.int64)))
        to = np.unique(message[one])
        told.append((to, hop[0][to], arriving[to]))
    message, entry = (np.concatenate(part) for part in zip(*offers, strict=True))
    introduced = learn(states, kernel, arriving, place, arriving[message], entry)
    # 2. who is new to a node is told, by the state after that
    cells, own = states.cells[arriving], states.own[arriving]
    take_cells(states, kernel, introduced.to, own[introduced.arrived])
    if rules.announce == "row":
        new = introduced.row >= 0
        pairs = introduced.arrived[new], introduced.to[new], introduced.row[new]
        for to, position, cell in rows_told(cells, *pairs):
            take_cells(states, kernel, to, position, cell)
    told.append((introduced.arrived, own[introduced.arrived], introduced.to))
    return Introductions(*(np.concatenate(part) for part in zip(*told, strict=True)))


def is_earlier(place: np.ndarray, entries: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Which entries are nodes of the same wave that came before a node.

    Parameters
    ----------
    place : ndarray of int64, shape (K,)
        Of each known node its place in the order of arrival; :data:`LATER` where it is not of the
        wave.
    entries : ndarray of int32, shape (m, k)
        Positions, or :data:`~.states.NONE`.
    node : ndarray of int64, shape (m,)
        Positions of nodes of the wave.
    """
    return (entries >= 0) & (place[entries] < place[node][:, None])


def learn(
    states: States,
    kernel: Kernel,
    arrived: np.ndarray,
    place: np.ndarray,
    index: np.ndarray,
    position: np.ndarray,
) -> Introduced:
    """Tables of arrived nodes take earlier nodes that they are sent, and such of their own leaves.

    Parameters
    ----------
    arrived : ndarray of int64, shape (w,)
        Indices into `States.own`, each once.
    place : ndarray of int64, shape (K,)
        See :func:`is_earlier`.
    index, position : ndarray of int64, shape (m,)
        Who is sent (an index into `States.own`) whom (a position in `States.known`).

    Returns
    -------
    Introduced
        Each pair once: entries that are new, and earlier leaves.
    """
    leaves = states.distinct_leaves(arrived)
    holder, column = np.nonzero(is_earlier(place, leaves, states.own[arrived]))
    leaf = leaves[holder, column].astype(np.int64)
    before = states.cells[arrived]
    take_cells(states, kernel, np.r_[index, arrived[holder]], np.r_[position, leaf])
    after = states.cells[arrived]
    taker, row, column = np.nonzero(after != before)
    new = after[taker, row, column].astype(np.int64)
    size = len(states.known)
    others = np.setdiff1d(holder * size + leaf, taker * size + new)
    return Introduced(
        np.r_[taker, others // size],
        np.r_[new, others % size],
        np.r_[row, np.full(len(others), -1)],
    )


def rows_told(
    cells: np.ndarray, sender: np.ndarray, to: np.ndarray, row: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What nodes are told that get the row of another's table in which they are.

    Parameters
    ----------
    cells : ndarray of int32, shape (w, rows, 2**b)
        Tables of senders, not written into meanwhile.
    sender, to, row : ndarray of int64, shape (m,)
        Indices into `cells`, positions of receivers, and rows.

    Yields
    ------
    to, position, cell : ndarray of int64
        Who is told of whom, and where the latter belongs in the former's table: both share the
        row's digits and no more.
    """
    for start in range(0, len(to), _ROWS):
        some = slice(start, start + _ROWS)
        entries = cells[sender[some], row[some]]
        told = (entries >= 0) & (entries != to[some, None])
        one, column = np.nonzero(told)
        cell = row[some][one] * cells.shape[2] + column
        yield to[some][one], entries[one, column].astype(np.int64), cell
