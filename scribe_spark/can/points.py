"""Points of nodes in the space of a CAN: uniform, or by landmarks (docs/rules.md, C2 to C4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.underlay.protocol import Kernel

#: The number that stands for the group of all nodes in random draws.
ALL_NODES = -1


@dataclass(frozen=True)
class Landmarks:
    """Routers to which nodes measure their delay (distributed binning)."""

    routers: np.ndarray  # (m,): the indices of the landmarks, ascending

    @classmethod
    def drawn(cls, seed: int, count: int, routers: int) -> Landmarks:
        """Draw `count` landmarks among `routers` routers."""
        return cls(draws.distinct_below(routers, count, seed, "can landmarks", 0))

    def bins(self, kernel: Kernel, router: np.ndarray) -> np.ndarray:
        """Return the bin of each router: its order of the landmarks by delay, as a number: int64.

        The orders (permutations) are numbered from 0, lexicographically.
        """
        asked, of = np.unique(router, return_inverse=True)
        many = len(self.routers)
        delay = np.stack(
            [kernel.delays(asked, np.full(len(asked), one)) for one in self.routers], axis=1
        )
        order = np.argsort(delay, axis=1, kind="stable")
        found = np.zeros(len(asked), dtype=np.int64)
        for place in range(many):
            less = (order[:, place + 1 :] < order[:, [place]]).sum(axis=1)
            found = found * (many - place) + less
        return found[of]


def draw_points(
    seed: int,
    group: np.ndarray | int,
    node: np.ndarray,
    bits: int,
    bins: tuple[np.ndarray, int] | None = None,
) -> np.ndarray:
    """Draw the points of nodes (numbers) in the CANs of their groups: int64, with `bits` bits.

    `bins` has the bin of each node, and the number of landmarks.
    """
    drawn = draws.bits_np(seed, "can point", group, node)
    if bins is not None and bins[1] > 1:  # a single landmark has a single order
        order, landmarks = bins
        width = np.uint64(2**64 // math.factorial(landmarks))
        drawn = order.astype(np.uint64) * width + drawn % width
    return (drawn >> np.uint64(64 - bits)).astype(np.int64)


def join_order(
    seed: int, can: np.ndarray, number: np.ndarray, node: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """Return the rows, CAN by CAN, in the order in which nodes join their CANs."""
    return np.lexsort((position, draws.bits_np(seed, "can order", number, node), can))
