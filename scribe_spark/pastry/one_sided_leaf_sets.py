"""Repair of a few sides of leaf sets, node by node.

A node that has no live leaf left on a side takes far ones, and finds the near ones by going around
the whole ring, one node a question: at 100,000 nodes that is as many rounds, with nobody else.  For
so few sides arrays cost more than what is done with them.

References
----------
NGC 2001, Section 2.2; JSAC 2002, Section III.A.2.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.pastry.arrivals.leaf_offers import SIDES
from scribe_spark.pastry.arrivals.states import NONE
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.tally import Tally

__all__ = ["OneSidedLeafSets"]

LARGER = SIDES[0]


class OneSidedLeafSets:
    """The questions of a few sides, as in `leaf_repair.repair_leaf_sets`; counts them."""

    def __init__(self, state: OverlayState) -> None:
        self.leaves, self.alive = state.states.leaves, state.alive
        self.half, self.size = state.states.half, len(state.alive)
        self.repair, self.lost, self.check = 0, 0, 0
        # sender and receiver of each, if somebody wants them
        self.repairs: list[tuple[int, int]] | None = None
        self.checks: list[tuple[int, int]] | None = None

    def repair_all(self, node: np.ndarray, side: np.ndarray, tally: Tally) -> int:
        """Ask until nothing changes; writes `States.leaves`, and returns the rounds."""
        if tally.traffic is not None:
            self.repairs, self.checks = [], []
        sides, rounds = list(zip(node.tolist(), side.tolist(), strict=True)), 0
        while sides:
            rounds += 1
            filled = [(one, self._ask(*one)) for one in sides]
            sides = []
            for (at, which), leaves in filled:
                columns = slice(which * self.half, (which + 1) * self.half)
                if leaves != self.leaves[at, columns].tolist():
                    self.leaves[at, columns] = leaves
                    sides.append((at, which))
        tally.add("repair", self.repair, self.lost, between=lambda: _columns(self.repairs))
        tally.add("check", self.check, between=lambda: _columns(self.checks))
        return rounds

    def _ask(self, node: int, side: int) -> list[int]:
        """A side after its question: the leaves that the node takes, nearest first."""
        both = self.leaves[node].tolist()
        larger, smaller = both[: self.half], both[self.half :]
        held, other = (larger, smaller) if side == LARGER else (smaller, larger)
        for place, leaf in enumerate(held[::-1] + other[::-1]):
            if leaf < 0:
                continue
            self.repair += 1
            if self.repairs is not None:
                self.repairs += [(node, leaf), (leaf, node)][: 1 + int(self.alive[leaf])]
            if self.alive[leaf]:
                self.repair += 1  # the answer
                return self._fill(node, side, held, self._offers(node, side, leaf, place))
            self.lost += 1
        return self._fill(node, side, held, [])

    def _offers(self, node: int, side: int, asked: int, place: int) -> list[int]:
        """Return what the node takes of the leaf set of the one it asked."""
        leaves = self.leaves[asked].tolist()
        if place >= self.half:  # of the other side
            return [leaf for leaf in leaves if leaf >= 0 and leaf != node]
        limit = self._out(node, side, asked)
        return [
            leaf
            for column, leaf in enumerate(leaves)
            if leaf >= 0
            and leaf != node
            and (column // self.half == side or self._out(node, side, leaf) < limit)
        ]

    def _fill(self, node: int, side: int, held: list[int], offers: list[int]) -> list[int]:
        """The side with what it takes of the offers, which are checked until it is full."""
        there = {self._out(node, side, leaf): leaf for leaf in held if leaf >= 0}
        new = {self._out(node, side, leaf): leaf for leaf in offers}
        filled: list[int] = []
        for out in sorted({**there, **new}):
            if len(filled) == self.half:
                break
            if out not in there:
                self.check += 1
                if self.checks is not None:
                    self.checks.append((node, new[out]))
                if not self.alive[new[out]]:
                    continue
            filled.append(there.get(out, new.get(out, NONE)))
        return filled + [NONE] * (self.half - len(filled))

    def _out(self, node: int, side: int, leaf: int) -> int:
        """How many places a leaf lies out from a node on a side."""
        return (leaf - node if side == LARGER else node - leaf) % self.size


def _columns(pairs: list[tuple[int, int]] | None) -> tuple[np.ndarray, np.ndarray]:
    """Senders and receivers."""
    sender, to = np.array(pairs or [], dtype=np.int64).reshape(-1, 2).T
    return sender, to
