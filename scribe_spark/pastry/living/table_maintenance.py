"""Maintenance of routing tables in an overlay with dead nodes.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section II.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.pastry.arrivals.cell_offers import take_cells
from scribe_spark.pastry.arrivals.maintenance import questions
from scribe_spark.pastry.living.overlay_state import OverlayState
from scribe_spark.pastry.living.rules import WorldRules
from scribe_spark.pastry.living.table_repair import Found, drop_and_repair
from scribe_spark.pastry.living.tally import Tally
from scribe_spark.underlay.protocol import Kernel

__all__ = ["maintain_tables", "row_bits"]


def row_bits(seed: int, purpose: str, number: int, row: int, nodes: int) -> np.ndarray:
    """Random bits for the questions of nodes 0 to `nodes` - 1 about one row: uint64, (nodes,)."""
    return draws.stream(seed, f"{purpose} row {row}", number).random_raw(nodes)


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
    # 1. questions
    numbers, most = states.known.node[live], int(states.known.node.max()) + 1
    drawn = [
        row_bits(rules.seed, purpose, number, row, most)[numbers]
        for row in range(states.cells.shape[1])
    ]
    asked = questions(states, live, np.stack(drawn, axis=1))
    index, row = np.nonzero(asked >= 0)
    node, other = live[index], asked[index, row]
    arrives = state.alive[other]
    tally.send("maintenance", arrives)
    tally.add("maintenance", np.count_nonzero(arrives))  # the answers
    # 2. answers, as they are now
    answers = states.cells[other[arrives], row[arrives]]
    at, place = np.nonzero(state.is_alive(answers))
    offered = answers[at, place].astype(np.int64)
    drop_and_repair(state, Found(node[~arrives], other[~arrives]), rules, kernel, tally)
    take_cells(states, kernel, node[arrives][at], offered)
