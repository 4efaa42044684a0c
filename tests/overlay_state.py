"""The state of an overlay between two rounds: tables of nodes, and which nodes are alive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.engine.facts import Ring
from scribe_spark.pastry.perfect_tables import nearest_entries
from scribe_spark.pastry.states import NONE, States, ring_leaves
from scribe_spark.rounds.events import KnowsLives, Lives
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class OverlayState(KnowsLives):
    """The tables and lives of all nodes, dead ones included; kernels change the arrays.

    The states of all nodes have every position, so an index is a position.  A dead node keeps its
    tables, because it may recover; a node that has not arrived yet has empty tables.
    """

    states: States
    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray

    @classmethod
    def of(cls, states: States, live: np.ndarray, entered: np.ndarray | int = 0) -> OverlayState:
        """Return the state of an overlay before any death; `entered` ranks the live nodes."""
        lives = Lives.of(len(states.known), live, entered)
        return cls(states, lives.alive, lives.died, lives.wait, lives.entered)

    @property
    def lives(self) -> Lives:
        """The lives of the nodes, with the same arrays."""
        return Lives(self.alive, self.died, self.wait, self.entered)


def perfect_start(
    known: Ring, live: np.ndarray, leaf_set: int, b: int, kernel: Kernel
) -> OverlayState:
    """Return the overlay with perfect tables; see :func:`perfect_states`."""
    return OverlayState.of(perfect_states(known, live, leaf_set, b, kernel), live)


def perfect_states(known: Ring, live: np.ndarray, leaf_set: int, b: int, kernel: Kernel) -> States:
    """Return the states of all nodes; the `live` ones (ascending) have perfect tables."""
    states = States.empty(known, np.arange(len(known)), leaf_set, b)
    named = np.append(live, NONE)  # index NONE yields NONE
    leaves = ring_leaves(np.arange(len(live)), leaf_set // 2, len(live))
    states.leaves[live] = named[leaves]
    cells = nearest_entries(known.take(live), kernel, b)
    states.cells[live, : cells.shape[1]] = named[cells]
    return states
