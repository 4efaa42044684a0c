"""The hash table of all hosts, cut into the buckets of a ring of hosts.

A bucket answers look-ups of the keys from the id of its first host up to the id of the next
bucket's first host (exclusive).  It also needs the ids of two hosts before and two after its own:
these own its first and last keys, and each end of a keyset depends on two ids.

References
----------
Costa and Frey, Section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.u128 import Numbers, from_halves, halves_of
from scribe_spark.engine.facts import Facts, KnowsRing, distribute_facts
from scribe_spark.engine.ring import Ring
from scribe_spark.errors import InputError
from scribe_spark.reference_tree.rings import Rings, check_assignment
from scribe_spark.reference_tree.tree import ReferenceTree

#: The number of adjacent hosts that a bucket needs at each end: the end of a keyset depends on two
#: ids.
_EACH_END = 2

#: The approximate number of hosts in a bucket.
_HOSTS = 2**15


@dataclass(frozen=True)
class HashTable:
    """The keysets of hosts, which are identified by their positions on the ring."""

    facts: KnowsRing
    bounds: np.ndarray
    tree: ReferenceTree
    assignment: str

    def at(self, key: Numbers) -> np.ndarray:
        """Return the position of the first host of the bucket that answers for each key: int64."""
        starts = np.unique(self.bounds[:-1])
        starts = starts[starts < self.bounds[-1]]
        before = self.facts.ring.take(starts).count_upto(*halves_of(key))
        return starts[np.maximum(before - 1, 0)]

    def range(self, bucket: int) -> tuple[Numbers, Numbers]:
        """Return the first and the last key of a bucket that has hosts."""
        first, last = self.bounds[bucket : bucket + 2]
        begin = self._id(first) if first else 0
        end = 2**self.tree.bits if last == self.bounds[-1] else self._id(last)
        return self.tree.number(begin), self.tree.number(end - 1)

    def _id(self, position: int) -> int:
        known = self.facts.ring
        return int(known.hi[position]) << 64 | int(known.lo[position])

    def rings(self, bucket: int, live: np.ndarray | None = None) -> Rings:
        """Return the keysets of the hosts that own keys of a bucket, which must have hosts.

        `live` has the ascending positions of the hosts that are present; by default all are.
        """
        known, count = self.facts.ring, int(self.bounds[-1])
        first, last = self.bounds[bucket : bucket + 2]
        if live is not None:
            first, last = np.searchsorted(live, (first, last))
            count = len(live)
        some = np.unique(np.arange(first - _EACH_END, last + _EACH_END) % count)
        host = some if live is None else live[some]
        ids = from_halves(known.hi[host], known.lo[host], self.tree.bits)
        ring = np.zeros(len(host), dtype=np.int64)
        return Rings.of(self.tree, self.assignment, ids, ring, host, 1).within(*self.range(bucket))


def table_of_hosts(
    nodes: DataFrame, tree: ReferenceTree, assignment: str, buckets: int | None
) -> tuple[Facts, HashTable]:
    """Return the distributed facts of hosts, and their hash table.  The caller releases the facts.

    `nodes` has ``node, id_hi, id_lo``.
    """
    check_assignment(assignment)
    router = F.lit(0).cast("bigint").alias("router")
    facts = distribute_facts(nodes.select("node", "id_hi", "id_lo", router))
    try:
        _check_ids(facts.ring, tree)
    except InputError:
        facts.release()
        raise
    count = len(facts.ring)
    wanted = -(-count // _HOSTS) if buckets is None else buckets
    bounds = np.linspace(0, count, min(wanted, count) + 1).astype(np.int64)
    return facts, HashTable(facts, bounds, tree, assignment)


def _check_ids(ring: Ring, tree: ReferenceTree) -> None:
    """Raise InputError if ids are equal or too large, or if there are no hosts."""
    count, bits = len(ring), tree.bits
    if not count:
        raise InputError("nodes", count, "must be at least 1")
    if count > 2**bits:
        raise InputError(
            "nodes", count, f"must be at most {2**bits}, the number of keys of {bits} bits"
        )
    greatest = int(ring.hi[-1]) << 64 | int(ring.lo[-1])
    if greatest >= 2**bits:
        raise InputError("id", greatest, f"must be less than 2**{bits}, the number of keys")
    again = (ring.hi[1:] == ring.hi[:-1]) & (ring.lo[1:] == ring.lo[:-1])
    if again.any():
        first = np.argmax(again)
        twice = int(ring.hi[first]) << 64 | int(ring.lo[first])
        raise InputError("id", twice, "is the id of two hosts; ids must be unique")
