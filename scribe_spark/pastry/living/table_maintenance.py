"""Maintenance of routing tables in an overlay with dead nodes.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.pastry.arrivals.cell_offers import cells_of, take_cells
from scribe_spark.pastry.arrivals.maintenance import questions, row_bits
from scribe_spark.pastry.arrivals.routes import Found
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.living.table_repair import drop_and_repair
from scribe_spark.pastry.living.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["maintain_tables"]


def maintain_tables(
    state: OverlayState,
    purpose: str,
    number: int,
    rules: WorldRules,
    kernel: Kernel,
    tally: Tally,
) -> None:
    """Each live node asks one drawn entry of each row for its row; writes `States.cells`.

    All answers are rows from before it.  An entry that is dead is dropped, and repaired by the rule
    in force, before the answers are taken.

    Parameters
    ----------
    purpose, number : str, int
        Key of the draws.
    """
    states, live = state.states, state.live()
    # 1. questions, row by row
    lost, answers = [], []
    for row in range(states.cells.shape[1]):
        bits = row_bits(rules.seed, purpose, number, row, states.known.node[live])
        this_row = replace(states, cells=states.cells[:, row : row + 1])
        asked = questions(this_row, live, bits[:, None])[:, 0]
        node, asked = live[asked >= 0], asked[asked >= 0]
        arrives = state.alive[asked]
        tally.send("maintenance", arrives, node, asked)
        lost.append((node[~arrives], asked[~arrives]))
        node, asked, arrives = node[arrives], asked[arrives], arrives[arrives]
        tally.send("maintenance", arrives, asked, node)  # the answers
        answers.append(_answers(state, row, node, asked))
    # 2. answers, which are rows as they were before
    found = Found(*(np.concatenate(part) for part in zip(*lost, strict=True)))
    drop_and_repair(state, found, rules, kernel, tally)
    node, offered, cell = (np.concatenate(part) for part in zip(*answers, strict=True))
    take_cells(states, kernel, node, offered, cell)


def _answers(
    state: OverlayState, row: int, node: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The live entries that nodes hear of and do not have, and the cells for them.

    Node and asked share the row's digits, so that its entries belong in the same row of the node;
    but those with the node's own digit share more, and belong deeper.
    """
    states, base = state.states, 2**state.states.b
    entries = states.cells[asked, row]
    is_other = (entries != states.cells[node, row]) & (entries != node[:, None])
    at, column = np.nonzero(is_other & state.is_alive(entries))
    offered, cell = entries[at, column].astype(np.int64), row * base + column
    known = states.known.take(node)
    deeper = np.flatnonzero(column == ids.digit_np(known.hi, known.lo, row, states.b)[at])
    cell[deeper] = cells_of(states, node[at[deeper]], offered[deeper])
    return node[at], offered, cell
