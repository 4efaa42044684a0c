"""The hash table that every host can ask, cut into the buckets of a ring of hosts.

A bucket answers for the keys from its first host's id up to that of the next bucket's first host.
Of the hosts of other buckets it needs the two before and the two after its own: they own its first
and its last keys, and their keysets end in others' ids.

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

#: Hosts of each end of a bucket that others need: a keyset's ends are made of two ids each.
_EACH_END = 2

#: Hosts of a bucket, about.
_HOSTS = 2**15


@dataclass(frozen=True)
class HashTable:
    """The keysets of hosts that are known by their positions on a ring.

    Attributes
    ----------
    facts : KnowsRing
        All hosts, in the order of their ids.
    bounds : ndarray of int64, shape (B + 1,)
        See `engine.Program`.
    tree : ReferenceTree
    assignment : str
        ``chord`` or ``pastry``.
    """

    facts: KnowsRing
    bounds: np.ndarray
    tree: ReferenceTree
    assignment: str

    def at(self, key: Numbers) -> np.ndarray:
        """Return the first position of the bucket that answers for each key: int64."""
        starts = np.unique(self.bounds[:-1])
        starts = starts[starts < self.bounds[-1]]
        before = self.facts.ring.take(starts).count_upto(*halves_of(key))
        return starts[np.maximum(before - 1, 0)]

    def range(self, bucket: int) -> tuple[Numbers, Numbers]:
        """Return the first and the last key for which a bucket with hosts answers."""
        first, last = self.bounds[bucket : bucket + 2]
        begin = self._id(first) if first else 0
        end = 2**self.tree.bits if last == self.bounds[-1] else self._id(last)
        return self.tree.number(begin), self.tree.number(end - 1)

    def _id(self, position: int) -> int:
        known = self.facts.ring
        return int(known.hi[position]) << 64 | int(known.lo[position])

    def rings(self, bucket: int, live: np.ndarray | None = None) -> Rings:
        """Return the keysets of the hosts that own keys of a bucket, which has hosts.

        Parameters
        ----------
        live : ndarray of int64, optional
            The positions of the hosts that are there, ascending; by default all are.
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
    """Return the hash table of hosts, and its distributed arrays, which are to be released.

    Parameters
    ----------
    nodes : DataFrame
        ``node, id_hi, id_lo``.
    buckets : int, optional
        In how many buckets the hosts are.

    Raises
    ------
    InputError
        An unknown assignment, no hosts, more hosts than keys, ids that are equal or too large.
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
    """Refuse hosts whose ids cannot be."""
    count, bits = len(ring), tree.bits
    if not count:
        raise InputError("nodes", count, "must be at least 1")
    if count > 2**bits:
        raise InputError("nodes", count, f"keys of {bits} bits are {2**bits}")
    greatest = int(ring.hi[-1]) << 64 | int(ring.lo[-1])
    if greatest >= 2**bits:
        raise InputError("id", greatest, f"must be less than 2**{bits}, the number of keys")
    again = (ring.hi[1:] == ring.hi[:-1]) & (ring.lo[1:] == ring.lo[:-1])
    if again.any():
        first = np.argmax(again)
        twice = int(ring.hi[first]) << 64 | int(ring.lo[first])
        raise InputError("id", twice, "is the id of two hosts; ids must be unique")
