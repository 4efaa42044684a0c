"""The ring, and the facts of all nodes that every bucket may read: nodeId, router and number.

These facts are the simulator's environment (names of nodes and the network below).  They contain no
leaf set, routing table or other state of a node.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from scribe_spark.core.arrays import Rows, find_sorted, index_sorted
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Ring(Rows):
    """K nodes as arrays (`hi` and `lo`: halves of nodeIds, uint64); a position is an index of them.

    If the nodes are sorted by nodeId they are the ring, or a part of it.
    """

    hi: np.ndarray
    lo: np.ndarray
    node: np.ndarray
    router: np.ndarray

    def in_order(self) -> Ring:
        """Return the nodes sorted by nodeId."""
        return self.take(self.by_rank)

    def positions(self, node: np.ndarray) -> np.ndarray:
        """Return the index of each node, given by number; each must occur exactly once: int64."""
        if not len(node):  # all nodes need not be sorted
            return np.empty(0, dtype=np.int64)
        order, numbers = self._by_number
        return order[index_sorted(numbers, node)]

    @functools.cached_property
    def _by_number(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the nodes in the order of their numbers, and the numbers in this order."""
        order = np.argsort(self.node)
        return order, self.node[order]

    @functools.cached_property
    def by_rank(self) -> np.ndarray:
        """The index of the node at each rank in the order of nodeIds: int64, shape (K,)."""
        return np.lexsort((self.lo, self.hi))

    def count_upto(self, hi: np.ndarray, lo: np.ndarray) -> np.ndarray:
        """Return how many nodes of a sorted ring have a nodeId of at most each key: int64."""
        count = np.searchsorted(self.hi, hi)
        while True:  # nodeIds with equal upper halves are neighbours, and rare
            at = np.minimum(count, len(self) - 1)
            more = (count < len(self)) & (self.hi[at] == hi) & (self.lo[at] <= lo)
            if not more.any():
                return count
            count = count + more


def ring_of(rows: pa.Table, kernel: Kernel | None, *more: str) -> tuple[Ring, list[np.ndarray]]:
    """Return the nodes of a table as a ring, with a kernel's routers, and more columns."""
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
        """Return the nodeIds of the nodes at some positions as keys."""
        return cls(known.hi[position], known.lo[position])


#: The columns of nodes that are facts.
_COLUMNS = ("node", "id_hi", "id_lo", "router")


class KnowsRing(Protocol):
    """An object with the ring: all nodes in the order of nodeIds; routers are indices."""

    @property
    def ring(self) -> Ring: ...


@dataclass(frozen=True)
class RingInMemory:
    """The ring of all nodes in the memory of this process, for play without Spark."""

    ring: Ring

    def positions(self, number: np.ndarray) -> np.ndarray:
        """Return the ring positions of nodes given by their numbers: int64."""
        return self.ring.positions(number)

    def find(self, number: np.ndarray) -> np.ndarray:
        """Return the ring positions of nodes given by number, -1 for unknown numbers: int64."""
        order = np.argsort(self.ring.node)
        found = find_sorted(self.ring.node[order], number)
        return np.where(found >= 0, order[found], -1)


@dataclass(frozen=True)
class Facts:
    """The ring of all nodes in arrays that all tasks of a machine share; picklable.

    `names` are those of the arrays hi, lo, node, router, and of the positions sorted by node
    number; `dense` is True if the numbers of the K nodes are 0 to K - 1.
    """

    names: tuple[str, ...]
    dense: bool

    @property
    def ring(self) -> Ring:
        """The ring of K nodes; routers are indices of the underlay's kernel."""
        return _open_ring(self.names)

    def positions(self, number: np.ndarray) -> np.ndarray:
        """Return the ring positions of nodes given by their numbers, which must exist: int64."""
        found = self.find(number)
        if found.min(initial=0) < 0:
            raise LookupError(f"{number[found < 0][0]} is no number of a node")
        return found

    def find(self, number: np.ndarray) -> np.ndarray:
        by_number, ring = open_array(self.names[4]), self.ring
        if self.dense:
            there = (number >= 0) & (number < len(by_number))
            return np.where(there, by_number[np.where(there, number, 0)], -1).astype(np.int64)
        place = np.searchsorted(ring.node, number, sorter=by_number)
        position = by_number[np.minimum(place, len(by_number) - 1)].astype(np.int64)
        return np.where(ring.node[position] == number, position, -1)

    def release(self) -> None:
        discard_arrays(*self.names)


@functools.lru_cache(maxsize=4)
def _open_ring(names: tuple[str, ...]) -> Ring:
    hi, lo, node, router = (open_array(name) for name in names[:4])
    return Ring(hi, lo, node, router)


def distribute_facts(nodes: Table, kernel: Kernel | None = None) -> Facts:
    """Distribute the facts of `schemas.NODES` to executors; the caller calls ``release``."""
    table = Batches.of(nodes, _COLUMNS)
    ring, _ = ring_of(table.select(_COLUMNS).to_arrow(), kernel)
    columns = {"hi": ring.hi, "lo": ring.lo, "node": ring.node, "router": ring.router}
    by_number = np.argsort(ring.node).astype(np.int32)
    names = distribute_arrays(table.session, **columns, by_number=by_number)
    number, count = ring.node, len(ring)
    dense = count > 0 and int(number.min()) == 0 and int(number.max()) == count - 1
    return Facts(tuple(names), dense)


def bucket_bounds(ring: Ring, buckets: int, bits: int) -> np.ndarray:
    """Return the bounds (B + 1,) of buckets; nodes with equal first `bits` bits stay together."""
    first = [-(-bucket * 2**bits // buckets) for bucket in range(1, buckets)]
    keys = np.array([min(prefix << (64 - bits), 2**64 - 1) for prefix in first], dtype=np.uint64)
    start = np.searchsorted(ring.hi, keys)
    start[np.array(first, dtype=object) == 2**bits] = len(ring)  # beyond the last prefix
    return np.r_[0, start, len(ring)].astype(np.int64)
