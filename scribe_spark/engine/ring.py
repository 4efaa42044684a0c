"""Nodes with their nodeIds and routers, as parallel arrays.

References
----------
JSAC 2002, Section II: nodeIds are points on a circular space, the ring.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import Rows, index_sorted
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Ring(Rows):
    """K nodes as arrays; leaf sets and routing tables refer to nodes by their index here.

    If the nodes are sorted by nodeId they are the ring, or a part of it.  Otherwise a node may
    occur several times.  `hi` and `lo` are the halves of the nodeIds (uint64).
    """

    hi: np.ndarray
    lo: np.ndarray
    node: np.ndarray
    router: np.ndarray

    def in_order(self) -> Ring:
        """Return the nodes sorted by nodeId."""
        return self.take(self.by_rank)

    def positions(self, node: np.ndarray) -> np.ndarray:
        """Return the indices of nodes given by their numbers; each must occur once: int64."""
        if not len(node):  # all nodes need not be sorted
            return np.empty(0, dtype=np.int64)
        order, numbers = self._by_number
        return order[index_sorted(numbers, node)]

    @functools.cached_property
    def _by_number(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the nodes sorted by number, and the sorted numbers."""
        order = np.argsort(self.node)
        return order, self.node[order]

    @functools.cached_property
    def by_rank(self) -> np.ndarray:
        """The index of the node at each rank: int64, shape (K,)."""
        return np.lexsort((self.lo, self.hi))

    def count_upto(self, hi: np.ndarray, lo: np.ndarray) -> np.ndarray:
        """Count the nodes whose nodeId is at most each key; the nodes must be sorted: int64."""
        count = np.searchsorted(self.hi, hi)
        while True:  # nodeIds with equal upper halves are neighbours, and rare
            at = np.minimum(count, len(self) - 1)
            more = (count < len(self)) & (self.hi[at] == hi) & (self.lo[at] <= lo)
            if not more.any():
                return count
            count = count + more


def ring_of(rows: pa.Table, kernel: Kernel | None, *more: str) -> tuple[Ring, list[np.ndarray]]:
    """Return the nodes of a table sorted by nodeId, and more columns in the same order."""
    names = ("id_hi", "id_lo", "node", "router", *more)
    hi, lo, node, router, *others = (rows.column(name).to_numpy() for name in names)
    index = router if kernel is None else kernel.index(router).astype(np.int64)
    ring = Ring(hi.view(np.uint64), lo.view(np.uint64), node, index)
    return ring.in_order(), [column[ring.by_rank] for column in others]


@dataclass(frozen=True)
class Keys(Rows):
    """The keys of m messages, as upper and lower halves: uint64, shape (m,)."""

    hi: np.ndarray
    lo: np.ndarray

    @classmethod
    def of_nodes(cls, known: Ring, position: np.ndarray) -> Keys:
        """Return the nodeIds of nodes as keys."""
        return cls(known.hi[position], known.lo[position])
