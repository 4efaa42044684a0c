"""Routing table maintenance: each node asks a drawn entry of each row for its row.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.arrivals.states import States
from scribe_spark.underlay.protocol import Kernel

__all__ = ["maintain_tables", "maintenance_draws", "questions", "row_bits"]


def row_bits(seed: int, purpose: str, number: int, row: int, nodes: np.ndarray) -> np.ndarray:
    """Random bits for the questions of some nodes (numbers) about one row: uint64, (nodes,)."""
    return draws.stream_at(seed, f"{purpose} row {row}", number, nodes)


def maintenance_draws(seed: int, wave: int, time: int, rows: int, nodes: np.ndarray) -> np.ndarray:
    """Random bits for the questions of some nodes (numbers): uint64, shape (nodes, rows).

    A node's bits do not depend on how many nodes there are, nor a row's on how many rows.
    """
    purpose = f"wave maintenance {time}"
    return np.stack([row_bits(seed, purpose, wave, row, nodes) for row in range(rows)], axis=1)


def questions(states: States, live: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Whom each node asks for each row of its table.

    Parameters
    ----------
    live : ndarray of int64, shape (n,)
        Indices into `States.own`.
    drawn : ndarray of uint64, shape (n, rows)
        Random bits: they choose among a row's entries by column.

    Returns
    -------
    ndarray of int64, shape (n, rows)
        Positions in `States.known`; -1 for an empty row.
    """
    cells = states.cells[live]
    filled = cells >= 0
    entries = filled.sum(axis=2)
    wanted = (drawn % np.maximum(entries, 1).astype(np.uint64)).astype(np.int64)
    # the column of the wanted-th entry: entries before and in it are one more
    chosen = (filled.cumsum(axis=2) > wanted[:, :, None]).argmax(axis=2)
    asked = np.take_along_axis(cells, chosen[:, :, None], axis=2)[:, :, 0].astype(np.int64)
    return np.where(entries > 0, asked, -1)


def maintain_tables(states: States, kernel: Kernel, live: np.ndarray, drawn: np.ndarray) -> None:
    """One maintenance in an overlay that one task has; writes `states.cells`.

    A world has its own: there, questions may meet dead nodes, and cells are repaired before any
    answer is taken.

    All answers are rows from before it.  Parameters are those of :func:`questions`.
    """
    asked = questions(states, live, drawn)
    node, row = np.nonzero(asked >= 0)
    answers = states.cells[asked[node, row], row]
    question, _ = np.nonzero(answers >= 0)
    take_cells(states, kernel, live[node[question]], answers[answers >= 0])
    states.messages[live, Kind.MAINTENANCE] += 2 * (asked >= 0).sum(axis=1)
