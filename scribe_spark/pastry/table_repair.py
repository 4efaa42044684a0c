"""Dead entries of routing tables: dropped where they are found, and repaired.

References
----------
Pastry 2001 (Rowstron and Druschel), Section 3: a node asks the entries of the same row for their
entry of the cell, then those of the next row.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import distinct
from scribe_spark.pastry.arrivals.cell_offers import cells_of, take_cells
from scribe_spark.pastry.arrivals.routes import Found
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import Tally
from scribe_spark.pastry.traffic import both_ways
from scribe_spark.underlay.protocol import Kernel

__all__ = ["drop_and_repair", "find_all_dead"]

_ROWS = 2**14  # nodes whose tables are searched together


def drop_and_repair(
    state: OverlayState, found: Found, rules: WorldRules, kernel: Kernel, tally: Tally
) -> None:
    """Drop entries that were found dead, then repair their cells; writes `States.cells`.

    All repairs read the tables after all drops and before any repair.
    """
    if not len(found.node):
        return
    states, base = state.states, 2**state.states.b
    node, dead = np.divmod(distinct(found.node * len(states.known) + found.dead), len(states.known))
    row, column = np.divmod(cells_of(states, node, dead), base)
    there = states.cells[node, row, column] == dead
    node, row, column = node[there], row[there], column[there]
    states.cells[node, row, column] = -1
    if rules.repair == "none":
        return
    # 1. the live entries of the row are asked, and where that does not help those of the next
    helped, hole, answer = _ask_row(state, node, row, column, row, tally)
    deeper = np.flatnonzero(~helped & (row + 1 < states.cells.shape[1]))
    _, second, more = _ask_row(
        state, node[deeper], row[deeper], column[deeper], row[deeper] + 1, tally
    )
    # 2. cells take the nearest answer
    hole, answer = np.r_[hole, deeper[second]], np.r_[answer, more]
    take_cells(states, kernel, node[hole], answer, (row * base + column)[hole])


def _ask_row(
    state: OverlayState,
    node: np.ndarray,
    row: np.ndarray,
    column: np.ndarray,
    asked_row: np.ndarray,
    tally: Tally,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ask the live entries of a row for their entry of a cell.

    Returns
    -------
    helped : ndarray of bool, shape (h,)
        Whether a live node was named.
    hole, answer : ndarray of int64
        The live nodes that were named, and the index of the cell that they are for.
    """
    cells = state.states.cells
    entries = cells[node, asked_row]
    hole, place = np.nonzero(state.is_alive(entries))
    tally.add(  # questions and answers
        "repair",
        2 * len(hole),
        between=lambda: both_ways(node[hole], entries[hole, place]),
    )
    answer = cells[entries[hole, place], row[hole], column[hole]].astype(np.int64)
    named = (answer >= 0) & (answer != node[hole])
    hole, answer = hole[named], answer[named]
    checked = node[hole], answer
    tally.add("check", len(hole), between=lambda: checked)
    alive = state.alive[answer]
    hole, answer = hole[alive], answer[alive]
    helped = np.zeros(len(node), dtype=bool)
    helped[hole] = True
    return helped, hole, answer


def find_all_dead(
    state: OverlayState, number: int, rules: WorldRules, kernel: Kernel, tally: Tally
) -> None:
    """``eager``: drop and repair every entry that has been dead for a round after detection."""
    old = state.known_dead(number - 1)
    if not old.any():
        return
    found = Found.nothing()
    live, width = state.live(), state.states.cells.shape[2]
    for start in range(0, len(live), _ROWS):
        some = live[start : start + _ROWS]
        cells = state.states.cells[some].reshape(len(some), -1, width)
        at, row, column = np.nonzero((cells >= 0) & old[cells])
        found = found.and_also(some[at], cells[at, row, column].astype(np.int64))
    drop_and_repair(state, found, rules, kernel, tally)
