"""Announcements: an arrived node tells those that it knows of itself, and of one another.

References
----------
JSAC 2002, Section II.B: "it transmits a copy of its resulting state to each of the nodes found in
its ... leaf set, and routing table".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import distinct
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.underlay.protocol import Kernel

__all__ = ["Told", "announced_rows", "tell_tables", "told_nodes"]

_CELLS = 2**20  # offers made at once


@dataclass(frozen=True)
class Told:
    """Announcements, one for each pair of an arrived node and a node that it knows.

    Attributes
    ----------
    arrived : ndarray of int64, shape (m,)
        The sender, as an index into `States.own`.
    to : ndarray of int64, shape (m,)
        The receiver, as a position in `States.known`.
    """

    arrived: np.ndarray
    to: np.ndarray


def told_nodes(states: States, arrived: np.ndarray) -> Told:
    """The nodes in the leaf set or the routing table of some nodes, each once."""
    tables = states.cells[arrived].reshape(len(arrived), -1)
    everybody = np.concatenate([states.leaves[arrived], tables], axis=1)
    row, _ = np.nonzero(everybody >= 0)
    size = len(states.known)
    pairs = distinct(row * size + everybody[everybody >= 0])
    return Told(arrived[pairs // size], pairs % size)


def announced_rows(
    states: States, arrived: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """What arrived nodes tell the nodes of each row about the others of it, and themselves.

    Parameters
    ----------
    arrived : ndarray of int64, shape (w,)
        Indices into `States.own`.

    Yields
    ------
    to, position, cell : ndarray of int64, shape (m,)
        Positions in `States.known` of who is told and of whom, and where the latter belongs in the
        former's table: they share the row's digits and no more.
    """
    base, known = 2**states.b, states.known
    nodes = known.take(states.own[arrived])
    at_once = max(1, _CELLS // base**2)
    for row in range(states.cells.shape[1]):
        digit = ids.digit_np(nodes.hi, nodes.lo, row, states.b)
        for start in range(0, len(arrived), at_once):
            some = slice(start, start + at_once)
            entries = states.cells[arrived[some], row].astype(np.int64)
            told = entries >= 0
            # its own column is empty: there the node tells of itself
            entries[np.arange(len(entries)), digit[some]] = states.own[arrived[some]]
            pairs = told[:, :, None] & (entries >= 0)[:, None, :] & ~np.eye(base, dtype=bool)
            node, column, of = np.nonzero(pairs)
            yield entries[node, column], entries[node, of], row * base + of


def tell_tables(
    states: States, kernel: Kernel, told: Told, arrived: np.ndarray, announce: str
) -> None:
    """Routing tables take what arrived nodes announce, in an overlay that one task has.

    Parameters
    ----------
    told : Told
        Of the nodes `arrived`.
    announce : str
        ``row`` or ``self``: rows and themselves, or only themselves.
    """
    if announce == "row":
        for to, position, cell in announced_rows(states, arrived):
            take_cells(states, kernel, to, position, cell)
    take_cells(states, kernel, told.to, told.arrived)
