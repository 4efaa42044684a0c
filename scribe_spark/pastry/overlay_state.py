"""The state of an overlay between two rounds: the knowledge of nodes, and the live nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry.lives import NEVER, KnowsLives, Lives
from scribe_spark.pastry.states import States

__all__ = ["NEVER", "OverlayState"]


@dataclass(frozen=True)
class OverlayState(KnowsLives):
    """All nodes, dead ones too; kernels write into the arrays.

    Attributes
    ----------
    states : States
        Of all known nodes: ``own`` is every position, so that an index is a position.  A dead node
        keeps what it knew, because it may recover; one that has not arrived yet knows nobody.
    alive, died, wait, entered
        See `KnowsLives`.
    """

    states: States
    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray

    @classmethod
    def of(cls, states: States, live: np.ndarray, entered: np.ndarray | int = 0) -> OverlayState:
        """An overlay in which nobody has died yet.

        Parameters
        ----------
        live : ndarray of int64
            Positions of the live nodes.
        entered : ndarray of int64 or int
            Their places in the order in which they entered.
        """
        lives = Lives.of(len(states.known), live, entered)
        return cls(states, lives.alive, lives.died, lives.wait, lives.entered)

    @property
    def lives(self) -> Lives:
        """The lives of the nodes; the same arrays."""
        return Lives(self.alive, self.died, self.wait, self.entered)
