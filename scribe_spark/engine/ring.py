"""Nodes that are known, with their nodeIds and routers, as parallel arrays.

References
----------
JSAC 2002, Section II: nodeIds are points on a circular space, the ring.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import Rows
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Ring(Rows):
    """Known nodes, which leaf sets and routing tables name by their positions in it.

    Where nodes are in the order of their nodeIds, they are the ring or a part of it.  A node may be
    there more than once.

    Attributes
    ----------
    hi, lo : ndarray of uint64, shape (K,)
        Halves of the nodeIds.
    node : ndarray of int64, shape (K,)
        Numbers of the nodes.
    router : ndarray of int64, shape (K,)
        Their routers.
    """

    hi: np.ndarray
    lo: np.ndarray
    node: np.ndarray
    router: np.ndarray

    def in_order(self) -> Ring:
        """The nodes in the order of their nodeIds."""
        return self.take(self.by_rank)

    def positions(self, node: np.ndarray) -> np.ndarray:
        """Return the positions of nodes given by number; each has to be there, once: int64."""
        order, numbers = self._by_number
        return order[np.searchsorted(numbers, node)]

    @functools.cached_property
    def _by_number(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of the nodes in the order of their numbers, and those."""
        order = np.argsort(self.node)
        return order, self.node[order]

    @functools.cached_property
    def rank(self) -> np.ndarray:
        """The place of each node in the order of nodeIds: int32, shape (K,)."""
        rank = np.empty(len(self), dtype=np.int32)
        rank[self.by_rank] = np.arange(len(self), dtype=np.int32)
        return rank

    @functools.cached_property
    def by_rank(self) -> np.ndarray:
        """The position of the node of each rank: int64, shape (K,)."""
        return np.lexsort((self.lo, self.hi))

    def count_upto(self, hi: np.ndarray, lo: np.ndarray) -> np.ndarray:
        """Return how many nodes, of nodes in order, have a nodeId at or before each key: int64."""
        count = np.searchsorted(self.hi, hi)
        while True:  # nodeIds of the same high half are next to each other, and rare
            at = np.minimum(count, len(self) - 1)
            more = (count < len(self)) & (self.hi[at] == hi) & (self.lo[at] <= lo)
            if not more.any():
                return count
            count = count + more


def ring_of(rows: pa.Table, kernel: Kernel | None, *more: str) -> tuple[Ring, list[np.ndarray]]:
    """The nodes of a table in the order of their nodeIds, and more columns in the same order.

    Parameters
    ----------
    rows : pyarrow.Table
        ``node, id_hi, id_lo, router`` and the columns `more`.
    kernel : Kernel or None
        Of the underlay: routers become its indices.
    """
    names = ("id_hi", "id_lo", "node", "router", *more)
    hi, lo, node, router, *others = (rows.column(name).to_numpy() for name in names)
    index = router if kernel is None else kernel.index(router).astype(np.int64)
    ring = Ring(hi.view(np.uint64), lo.view(np.uint64), node, index)
    return ring.in_order(), [column[ring.by_rank] for column in others]
