"""Points of nodes in the space of a CAN: drawn ones, and landmarks (docs/rules.md, C2 to C4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.underlay.protocol import Kernel

#: The number of the group that is all nodes, in draws.
ALL_NODES = -1


@dataclass(frozen=True)
class Landmarks:
    """Routers to which nodes measure their delay (distributed binning).

    Attributes
    ----------
    routers : ndarray of int64, shape (m,)
        Indices, ascending.
    """

    routers: np.ndarray

    @classmethod
    def drawn(cls, seed: int, count: int, routers: int) -> Landmarks:
        """Return `count` of so many routers."""
        return cls(draws.distinct_below(routers, count, seed, "can landmarks", 0))

    def bins(self, kernel: Kernel, router: np.ndarray) -> np.ndarray:
        """Return which of the orders of the landmarks by delay is that of each router: int64.

        Orders are numbered from 0, lexicographically.
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
    """Return the points of nodes in the CANs of their groups: int64, of `bits` bits.

    Parameters
    ----------
    group : ndarray of int64, or int
        Numbers of groups, or `ALL_NODES`.
    node : ndarray of int64
        Numbers of nodes.
    bins : tuple of ndarray and int, optional
        Which order of the landmarks each node has, and how many landmarks there are.
    """
    drawn = draws.bits_np(seed, "can point", group, node)
    if bins is not None and bins[1] > 1:  # one landmark has one order
        order, landmarks = bins
        width = np.uint64(2**64 // math.factorial(landmarks))
        drawn = order.astype(np.uint64) * width + drawn % width
    return (drawn >> np.uint64(64 - bits)).astype(np.int64)


def join_order(
    seed: int, can: np.ndarray, number: np.ndarray, node: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """Return nodes in the order in which they join their CANs.

    Parameters
    ----------
    can : ndarray of int64, shape (n,)
        Indices of CANs.
    number, node : ndarray of int64, shape (n,)
        Numbers of groups and nodes.
    position : ndarray of int64, shape (n,)
        Places of the nodes in the order of nodeIds.

    Returns
    -------
    ndarray of int64, shape (n,)
        Rows, CAN by CAN.
    """
    return np.lexsort((position, draws.bits_np(seed, "can order", number, node), can))
