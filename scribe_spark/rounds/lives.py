"""The lives of nodes: which are alive, when a node died, and when its death is detected.

A message to a dead node is lost, and its sender notices the missing acknowledgement.  The members
of a leaf set detect a death by missing keep-alives.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section III.A.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The round of death of a node that is alive or never was.
NEVER = -1


def is_node(position: np.ndarray) -> np.ndarray:
    """Return True for positions that are not NONE, in an overlay without dead nodes."""
    return position >= 0


class KnowsLives:
    """The lives of all K nodes, as arrays of shape (K,)."""

    alive: np.ndarray  # bool
    died: np.ndarray  # the round of death, or NEVER
    wait: np.ndarray  # rounds until the leaf set detects a death; 0 if the node left
    entered: np.ndarray  # the rank of entrance, from 1; 0 for nodes of the start and new nodes

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in ("alive", "died", "wait", "entered")}

    def live(self) -> np.ndarray:
        """Return the positions of the live nodes, ascending (the order of nodeIds)."""
        return np.flatnonzero(self.alive)

    def count_entered(self) -> int:
        """Return the number of nodes that are alive or have died."""
        return int(np.count_nonzero(self.alive | (self.died != NEVER)))

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Return True for positions of live nodes; NONE is False."""
        return (positions >= 0) & self.alive[positions]

    def known_dead(self, number: int) -> np.ndarray:
        """Return True for nodes whose death is detected in a round: shape (K,)."""
        return (self.died >= 0) & (self.died + self.wait <= number)


@dataclass
class Lives(KnowsLives):
    """The lives of nodes in arrays of this process, with a counter of changes."""

    changes = 0

    alive: np.ndarray
    died: np.ndarray
    wait: np.ndarray
    entered: np.ndarray

    @classmethod
    def of(cls, nodes: int, live: np.ndarray, entered: np.ndarray | int = 0) -> Lives:
        """Return the lives of K nodes before any death; `entered` ranks the live ones."""
        alive = np.zeros(nodes, dtype=bool)
        alive[live] = True
        order = np.zeros(nodes, dtype=np.int64)
        order[live] = entered
        return cls(alive, np.full(nodes, NEVER), np.zeros(nodes, dtype=np.int64), order)

    def exit(self, nodes: np.ndarray, number: int, wait: int) -> None:
        """Mark nodes as dead."""
        self.alive[nodes] = False
        self.died[nodes], self.wait[nodes] = number, wait
        self.changes += bool(len(nodes))

    def enter(self, nodes: np.ndarray) -> None:
        """Mark nodes as alive; they enter in the given order."""
        self.alive[nodes] = True
        self.died[nodes], self.wait[nodes] = NEVER, 0
        self.entered[nodes] = self.entered.max(initial=0) + 1 + np.arange(len(nodes))
        self.changes += bool(len(nodes))
