"""What there is of an overlay between two rounds: what nodes know, and who is alive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.pastry.arrivals.states import States

__all__ = ["NEVER", "OverlayState"]

#: The round of death of a node that is alive or has never been there.
NEVER = -1


@dataclass(frozen=True)
class OverlayState:
    """All nodes that there are or were; kernels write into the arrays.

    Attributes
    ----------
    states : States
        Of all known nodes: ``own`` is every position, so that an index is a position.  A dead node
        keeps what it knew, because it may recover; one that has not arrived yet knows nobody.
    alive : ndarray of bool, shape (K,)
    died : ndarray of int64, shape (K,)
        The round of death, or :data:`NEVER`.
    wait : ndarray of int64, shape (K,)
        After how many rounds the members of a dead node's leaf set know: 0 if it said goodbye.
    """

    states: States
    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray

    @classmethod
    def of(cls, states: States, live: np.ndarray) -> OverlayState:
        """An overlay in which nobody has died yet.

        Parameters
        ----------
        live : ndarray of int64
            Positions of the live nodes.
        """
        alive = np.zeros(len(states.known), dtype=bool)
        alive[live] = True
        died = np.full(len(alive), NEVER, dtype=np.int64)
        return cls(states, alive, died, np.zeros(len(alive), dtype=np.int64))

    def live(self) -> np.ndarray:
        """Positions of the live nodes, ascending, and so in the order of nodeIds."""
        return np.flatnonzero(self.alive)

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Whether each position is a live node's; False for no position."""
        return (positions >= 0) & self.alive[positions]

    def known_dead(self, number: int) -> np.ndarray:
        """Return the nodes whose leaf set knows of their death in a round: bool, shape (K,)."""
        return (self.died >= 0) & (self.died + self.wait <= number)

    def exit(self, nodes: np.ndarray, number: int, wait: int) -> None:
        """Nodes are dead from now on."""
        self.alive[nodes] = False
        self.died[nodes], self.wait[nodes] = number, wait

    def enter(self, nodes: np.ndarray) -> None:
        """Nodes are alive from now on."""
        self.alive[nodes] = True
        self.died[nodes], self.wait[nodes] = NEVER, 0
