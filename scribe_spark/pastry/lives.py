"""Lives of nodes, and deaths that are known: what all nodes may know of one another in a round.

A message to a dead node is lost, and its sender knows by the missing acknowledgement; members of a
leaf set learn of a death by the missing keep-alives.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section III.A.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The round of death of a node that is alive or has never been there.
NEVER = -1


class KnowsLives:
    """The lives of all K known nodes, as arrays.

    Attributes
    ----------
    alive : ndarray of bool, shape (K,)
    died : ndarray of int64, shape (K,)
        The round of death, or :data:`NEVER`.
    wait : ndarray of int64, shape (K,)
        After how many rounds the members of a dead node's leaf set know: 0 if it said goodbye.
    entered : ndarray of int64, shape (K,)
        The place of each node in the order in which nodes entered, from 1; 0 if it was there from
        the start with perfect tables, or has never been there.
    """

    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in ("alive", "died", "wait", "entered")}

    def live(self) -> np.ndarray:
        """Positions of the live nodes, ascending, and so in the order of nodeIds."""
        return np.flatnonzero(self.alive)

    def count_entered(self) -> int:
        """Return how many nodes are alive or have died."""
        return int(np.count_nonzero(self.alive | (self.died != NEVER)))

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Return whether each position is a live node's; False for no position."""
        return (positions >= 0) & self.alive[positions]

    def known_dead(self, number: int) -> np.ndarray:
        """Return the nodes whose leaf set knows of their death in a round: bool, shape (K,)."""
        return (self.died >= 0) & (self.died + self.wait <= number)

    def exit(self, nodes: np.ndarray, number: int, wait: int) -> None:
        """Nodes are dead from now on."""
        self.alive[nodes] = False
        self.died[nodes], self.wait[nodes] = number, wait

    def enter(self, nodes: np.ndarray) -> None:
        """Nodes are alive from now on; they enter in the order in which they are given."""
        self.alive[nodes] = True
        self.died[nodes], self.wait[nodes] = NEVER, 0
        self.entered[nodes] = self.entered.max(initial=0) + 1 + np.arange(len(nodes))


@dataclass
class Lives(KnowsLives):
    """The arrays of this process."""

    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray

    @classmethod
    def of(cls, nodes: int, live: np.ndarray, entered: np.ndarray | int = 0) -> Lives:
        """Return the lives of nodes of which nobody has died yet.

        Parameters
        ----------
        nodes : int
            K.
        live : ndarray of int64
            Positions of the live nodes.
        entered : ndarray of int64 or int
            Their places in the order in which they entered.
        """
        alive = np.zeros(nodes, dtype=bool)
        alive[live] = True
        order = np.zeros(nodes, dtype=np.int64)
        order[live] = entered
        return cls(alive, np.full(nodes, NEVER), np.zeros(nodes, dtype=np.int64), order)
