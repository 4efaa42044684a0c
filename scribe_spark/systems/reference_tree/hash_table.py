"""The hash table: the keys that belong to each host, whole for many rings or cut into buckets.

A *keyset* is an interval of keys.  The hosts are sorted by the last keys of their keysets; a binary
search in these last keys finds the owner of a key.  A bucket of a ring answers look-ups of the keys
from the id of its first host up to the id of the next bucket's first host (exclusive).

Costa and Frey, Section 3 (the three properties of the hash table) and Definition 1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.core.errors import InputError, listed
from scribe_spark.core.u128 import (
    Numbers,
    Wide,
    divide,
    from_halves,
    halves_of,
    lexsort,
    number,
    where,
)
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.facts import Facts, KnowsRing, Ring, distribute_facts
from scribe_spark.systems.reference_tree.tree import ReferenceTree, topmost_keys

#: The assignments of keys to hosts.  `chord`: a host has the keys after its predecessor's id, up to
#: its own id.  `pastry`: a host has the keys that are numerically closest to its id.
ASSIGNMENTS = CHORD, PASTRY = ("chord", "pastry")

#: The table with the keysets of the hosts that own keys of a bucket.
KEYSETS = "reference tree keysets"

#: The number of adjacent hosts that a bucket needs at each end: they own its first and last keys,
#: and the end of a keyset depends on two ids.
_EACH_END = 2

#: The approximate number of hosts in a bucket.
_HOSTS = 2**15


# --- keysets


def last_keys(tree: ReferenceTree, assignment: str, own: Numbers, following: Numbers) -> Numbers:
    """Return the last key of each host, from its id and the id of the next host clockwise."""
    if assignment == CHORD:
        return own
    one = number(np.ones(len(own)), own)
    # If two hosts are equally close to a key, the host with the smaller id has it.  This is the
    # following host where the ring wraps around 0 between them.
    gap = (following - own) & tree.greatest
    wraps = following <= own
    half, _ = divide(where(wraps, (gap - one) & tree.greatest, gap), 2)
    single = following == own
    half = where(single, half + one, half)  # (2**bits - 1) / 2 rounded down, and one
    return (own + half) & tree.greatest


def contains(first: Numbers, last: Numbers, key: Numbers) -> np.ndarray:
    """Return whether the keyset from `first` to `last` has the key; it may wrap around 0."""
    after, before = first <= key, key <= last
    return np.where(last < first, after | before, after & before)


@dataclass(frozen=True)
class Rings:
    """The keysets of hosts, sorted by ring and last key."""

    #: int64, shape (R + 1,): the rows of ring i are from ``starts[i]`` up to ``starts[i + 1] - 1``.
    starts: np.ndarray
    #: int64, shape (R,): the row of the host that owns the keys after the last row's last key.
    beyond: np.ndarray
    #: shape (n,): the first and the last key of each keyset, and its topmost key.
    first: Numbers
    last: Numbers
    topmost: Numbers
    #: int64, shape (n,): the depth of the topmost key.
    depth: np.ndarray
    #: int64, shape (n,): the numbers of the hosts.
    node: np.ndarray
    #: The first and the last key of the interval in which all owners are known; None for all keys.
    answers: tuple[Numbers, Numbers] | None = None

    @classmethod
    def of(
        cls,
        tree: ReferenceTree,
        assignment: str,
        ids: Numbers,
        ring: np.ndarray,
        node: np.ndarray,
        rings: int,
    ) -> Rings:
        """Return the keysets of hosts, from the id, the ring and the number of each host."""
        order = lexsort(ids, ring)
        ids, ring, node = ids[order], ring[order], node[order]
        starts = np.searchsorted(ring, np.arange(rings + 1))
        row = np.arange(len(ring))
        # (each ring wraps around)
        following = np.where(row + 1 == starts[ring + 1], starts[ring], row + 1)
        own = last_keys(tree, assignment, ids, ids[following])
        order = lexsort(own, ring)  # the last key of the last host may have wrapped around 0
        last, node = own[order], node[order]
        preceding = np.where(row == starts[ring], starts[ring + 1], row) - 1
        first = (last[preceding] + number(np.ones(len(ring)), last)) & tree.greatest
        found = topmost_keys(tree, first, last)
        return cls(starts, starts[:-1], first, last, found.key, found.depth, node)

    @classmethod
    def of_bucket(cls, columns: Mapping[str, Any], answers: tuple[Numbers, Numbers]) -> Rings:
        """Return the keysets of hosts of one ring, which answer for the interval `answers`."""
        starts = np.array([0, len(columns["node"]) - 1])
        return cls(starts, starts[1:], **columns, answers=answers)

    def __len__(self) -> int:
        return len(self.node)

    def columns(self, rows: np.ndarray | slice = slice(None)) -> dict[str, Any]:
        """Return the columns ``first, last, topmost, depth, node`` of the hosts in some rows."""
        names = ("first", "last", "topmost", "depth", "node")
        return {name: getattr(self, name)[rows] for name in names}

    def within(self, first: Numbers, last: Numbers) -> Rings:
        """Return only the hosts of one ring that own keys of an interval that does not wrap."""
        inside = np.flatnonzero((self.last >= first) & (self.last <= last))
        # the owner of the last key also owns the keys after all other hosts' last keys
        end = number(np.zeros(1, dtype=np.uint64), self.last) + last
        rows = np.append(inside, self.owner(np.zeros(1, int), end))
        return Rings.of_bucket(self.columns(rows), (first, last))

    def ring_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the ring of the host in each row: int64."""
        return np.searchsorted(self.starts[1:-1], rows, side="right")

    def find(self, node: np.ndarray) -> np.ndarray:
        """Return the first row of each host, given by its number; `NONE` without one: int64."""
        number, row = self._first_rows
        at = find_sorted(number, node)
        return np.where(at >= 0, row[at], NONE)

    @functools.cached_property
    def _first_rows(self) -> tuple[np.ndarray, ...]:
        return np.unique(self.node, return_index=True)

    def is_known(self, key: Numbers) -> np.ndarray:
        """Return whether these keysets tell the owner of each key: bool."""
        if self.answers is None:
            return np.ones(len(key), dtype=bool)
        return (self.answers[0] <= key) & (key <= self.answers[1])

    def owner(self, ring: np.ndarray, key: Numbers) -> np.ndarray:
        """Return the row of each key's owner: int64."""
        low, high = self.starts[ring], self.starts[ring + 1]
        end = high
        if len(self.starts) == 2 and isinstance(key, Wide):
            known = self.last.hi[: self.starts[1]]
            low = np.searchsorted(known, key.hi, side="left")
            high = np.searchsorted(known, key.hi, side="right")
        elif len(self.starts) == 2:
            low = high = np.searchsorted(self.last[: self.starts[1]], key)
        last = len(self.node) - 1
        while (low < high).any():
            middle = (low + high) >> 1
            before = (self.last[np.minimum(middle, last)] < key) & (low < high)
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return np.where(low == end, self.beyond[ring], low)


# --- keys as columns that messages and tables have: ``NAME_hi, NAME_lo``


def packed(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return columns in which two int64 columns (halves) replace each column of keys."""
    found: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        if isinstance(column, Wide) or column.dtype == np.uint64:
            hi, lo = halves_of(column)
            found |= {f"{name}_hi": hi.view(np.int64), f"{name}_lo": lo.view(np.int64)}
        else:
            found[name] = column
    return found


def unpacked(columns: Columns, bits: int) -> dict[str, Any]:
    """Return the columns that :func:`packed` had; keys have `bits` bits."""
    keys = [name.removesuffix("_hi") for name in columns if name.endswith("_hi")]
    found: dict[str, Any] = {n: of for n, of in columns.items() if n[-3:] not in ("_hi", "_lo")}
    for name in keys:
        found[name] = from_halves(columns[f"{name}_hi"], columns[f"{name}_lo"], bits)
    return found


# --- the hash table in buckets


@dataclass(frozen=True)
class OneBucket:
    """A hash table of many rings in one bucket; `here` is true for the present hosts."""

    tree: ReferenceTree
    rings: Rings
    here: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        """See `HashTable`; the same holds for all other members."""
        return np.array([0, len(self.here)])

    def at(self, key: Numbers) -> np.ndarray:
        return np.zeros(len(key), dtype=np.int64)

    def keysets(self, bucket: int, tables: Tables) -> Rings:
        return self.rings

    def is_here(self, host: np.ndarray) -> np.ndarray:
        return self.here[host]


@dataclass(frozen=True)
class HashTable:
    """The hash table of one ring in several buckets; hosts are positions on the ring."""

    facts: KnowsRing
    #: The first host of each bucket, and the number of all hosts.
    bounds: np.ndarray
    tree: ReferenceTree
    assignment: str

    def at(self, key: Numbers) -> np.ndarray:
        """Return, for each key, the position of the host to which searches are sent: int64."""
        starts = np.unique(self.bounds[:-1])
        starts = starts[starts < self.bounds[-1]]
        before = self.facts.ring.take(starts).count_upto(*halves_of(key))
        return starts[np.maximum(before - 1, 0)]

    def live(self) -> np.ndarray:
        """Return the present hosts, ascending."""
        return np.arange(self.bounds[-1])

    def is_here(self, host: np.ndarray) -> np.ndarray:
        """Return whether each host is present: bool."""
        return np.ones(len(host), dtype=bool)

    def keysets(self, bucket: int, tables: Tables) -> Rings:
        """Return the keysets of the hosts that own keys of a bucket, which must have a host."""
        if KEYSETS not in tables:
            self.assign(bucket, tables)
        columns = unpacked(tables[KEYSETS], self.tree.bits)
        return Rings.of_bucket(columns, self._range(bucket))

    def assign(self, bucket: int, tables: Tables) -> Rings:
        """Compute the keysets of a bucket that has hosts, and store them in its tables."""
        ring, live = self.facts.ring, self.live()
        first, last = np.searchsorted(live, self.bounds[bucket : bucket + 2])
        host = live[np.unique(np.arange(first - _EACH_END, last + _EACH_END) % len(live))]
        ids = from_halves(ring.hi[host], ring.lo[host], self.tree.bits)
        one_ring = np.zeros(len(host), dtype=np.int64)
        rings = Rings.of(self.tree, self.assignment, ids, one_ring, host, 1)
        rings = rings.within(*self._range(bucket))
        tables[KEYSETS] = packed(rings.columns())
        return rings

    def _range(self, bucket: int) -> tuple[Numbers, Numbers]:
        """Return the first and the last key of a bucket that has hosts."""
        first, last = self.bounds[bucket : bucket + 2]
        start = _id(self.facts.ring, first) if first else 0
        end = 2**self.tree.bits if last == self.bounds[-1] else _id(self.facts.ring, last)
        return self.tree.number(start), self.tree.number(end - 1)


#: A hash table in buckets, in the part that each bucket knows.
Dht = OneBucket | HashTable


def table_of_hosts(
    nodes: DataFrame, tree: ReferenceTree, assignment: str, buckets: int | None
) -> tuple[Facts, HashTable]:
    """Return the facts of hosts, which the caller releases, and their hash table."""
    if assignment not in ASSIGNMENTS:
        raise InputError("assignment", assignment, f"is unknown; give one of {listed(ASSIGNMENTS)}")
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


def _id(ring: Ring, position: int) -> int:
    return int(ring.hi[position]) << 64 | int(ring.lo[position])


def _check_ids(ring: Ring, tree: ReferenceTree) -> None:
    """Raise InputError if ids of a ring are equal or too large, or if there are no hosts."""
    count, bits = len(ring), tree.bits
    if not count:
        raise InputError("nodes", count, "must be at least 1")
    if count > 2**bits:
        raise InputError(
            "nodes", count, f"must be at most {2**bits}, the number of keys of {bits} bits"
        )
    if _id(ring, -1) >= 2**bits:
        raise InputError("id", _id(ring, -1), f"must be less than 2**{bits}, the number of keys")
    again = np.flatnonzero((ring.hi[1:] == ring.hi[:-1]) & (ring.lo[1:] == ring.lo[:-1]))
    if len(again):
        raise InputError("id", _id(ring, again[0]), "is the id of two hosts; ids must be unique")
