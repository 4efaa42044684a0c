"""The paper's experiment: connections, disconnections and measures, on many rings at once.

All rings are independent repetitions with the same number of hosts.  Events happen one after the
other on a ring, and at the same time on all rings of a task.  The random draws of a ring depend
only on the ring's own number, so that the tasks do not affect the results.

Costa and Frey, Section 4 (256 keys, 10 to 120 hosts, a connection and then a disconnection), and
Sections 4.2.1 and 4.2.2 (the reconfiguration area).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark.core import arrays, draws
from scribe_spark.core.arrays import NONE, distinct
from scribe_spark.core.u128 import Numbers, from_halves, halves_of, lexsort
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.systems.reference_tree.hash_table import HashTable
from scribe_spark.systems.reference_tree.reconfiguration import (
    HostLinks,
    all_parents,
    costs_by_ring,
    first_to_compute,
    reconfigure,
)
from scribe_spark.systems.reference_tree.tree import ReferenceTree

CONNECTION, DISCONNECTION = "connection", "disconnection"

#: The approximate number of hosts on all rings of a task; their columns fit into the processor's
#: cache.
_HOSTS_AT_ONCE = 2**14

#: With at most this many bits, a new id is drawn among the free keys.  With more, an id that is
#: already used is so improbable that it is an error.
_COUNTED_BITS = 32

#: (event, measure, value) -> number of times that this value was measured.
Histograms = Counter[tuple[str, str, int]]


def play_in_tasks(
    spark: SparkSession,
    tree: ReferenceTree,
    assignment: str,
    hosts: int,
    *,
    events: int,
    pairs: int,
    seed: int,
) -> Histograms:
    """Return :func:`repeat_events` of `events` connections, played in tasks."""
    rings = -(-events // pairs)
    step = max(1, _HOSTS_AT_ONCE // (hosts + 1))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in batch.column("id").to_pylist():
                numbers = np.arange(first, min(first + step, rings))
                found = repeat_events(tree, assignment, hosts, pairs, numbers, seed)
                columns = zip(*[(*key, count) for key, count in found.items()], strict=True)
                yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=names)

    names = ["event", "measure", "value", "count"]
    blocks = spark.range(0, rings, step, min(-(-rings // step), 16 * parallelism(spark)))
    total = Histograms()
    schema = "event string, measure string, value bigint, count bigint"
    for event, measure, value, count in blocks.mapInArrow(run, schema).collect():
        total[event, measure, value] += count
    return total


def repeat_events(
    tree: ReferenceTree, assignment: str, hosts: int, pairs: int, rings: np.ndarray, seed: int
) -> Histograms:
    """Play connections, each followed by a disconnection, on rings of `hosts` hosts.

    The result has histograms for each kind of event.  After each event, for all hosts: ``degree``
    and ``depth`` in the tree of hosts.  For each event: ``area`` and ``area_without`` (with and
    without the host that joined or left), ``links`` (removed or created), ``hosts`` (that computed
    anew), ``computations``, ``notices``, ``rounds``, ``parent_lookups``, ``child_lookups``, and
    ``faults``: 1 if the links are no tree, or another tree than the one computed from nothing.
    """
    networks = _Networks(tree, assignment, hosts, pairs, rings, seed)
    for pair in range(pairs):
        networks.connect(pair)
        networks.disconnect(pair)
    return networks.found


class _Networks:
    """The hosts and links of all rings between two events, and the values measured so far."""

    def __init__(
        self,
        tree: ReferenceTree,
        assignment: str,
        hosts: int,
        pairs: int,
        rings: np.ndarray,
        seed: int,
    ) -> None:
        self.tree, self.assignment, self.found = tree, assignment, Histograms()
        # a ring has one slot more than hosts; all arrays of slots have the shape (R * slots,)
        self.slots, self.count = hosts + 1, len(rings)
        self.ring_of = np.repeat(np.arange(len(rings)), self.slots)
        purpose = f"reference tree of {hosts} hosts"
        hi, lo = np.zeros((2, len(rings), self.slots), dtype=np.uint64)
        # uint64, shape (R, pairs, 4): the random bits of each ring's events
        self.raw = np.empty((len(rings), pairs, 4), dtype=np.uint64)
        for row, ring in enumerate(rings.tolist()):
            hi[row, :hosts], lo[row, :hosts] = _first_ids(tree.bits, hosts, seed, purpose, ring)
            bits = draws.stream(seed, f"{purpose}: events", ring)
            self.raw[row] = bits.random_raw(pairs * 4).reshape(pairs, 4)
        # the id of the host in each slot, and whether the slot has a host
        self.ids = from_halves(hi.reshape(-1), lo.reshape(-1), tree.bits)
        self.here = np.tile(np.arange(self.slots) < hosts, len(rings))
        # the hash table, the links that hosts know, and the parent of the host in each slot
        self.table = self._hash_table()
        self.parent = all_parents(self.table, len(self.here))
        self.links = HostLinks.of_parents(self.parent)

    def _hash_table(self) -> HashTable:
        there = np.flatnonzero(self.here)
        there = there[lexsort(self.ids[there], self.ring_of[there])]
        of = self.ids[there], self.ring_of[there], there, self.count
        return HashTable.of(self.tree, self.assignment, *of)

    def connect(self, pair: int) -> None:
        """Let a new host join each ring: the first event of pair number `pair`."""
        free, there = np.flatnonzero(~self.here), np.flatnonzero(self.here)
        hi, lo = (half[there].reshape(self.count, -1) for half in halves_of(self.ids))
        order = np.lexsort((lo, hi), axis=1)
        ids = np.take_along_axis(hi, order, 1), np.take_along_axis(lo, order, 1)
        self.ids[free] = _free_key(self.tree, ids, self.raw[:, pair, :2])
        self.here[free] = True
        self._settle(CONNECTION)

    def disconnect(self, pair: int) -> None:
        """Let a random host leave each ring: the second event of pair number `pair`."""
        slot = (self.raw[:, pair, 2] % np.uint64(self.slots)).astype(np.int64)
        self.here[np.arange(self.count) * self.slots + slot] = False
        self._settle(DISCONNECTION)

    def _settle(self, event: str) -> None:
        """Play the rounds after an event, check the new tree, and count costs and areas."""
        table, n, there, before = self._hash_table(), self.count, self.here, self.parent
        first = first_to_compute(self.table, table, self.links, there)
        done = reconfigure(table, self.links, first, there)
        self.table, self.links = table, done.links
        self.parent = all_parents(table, len(there))
        links = HostLinks.of_parents(self.parent)
        depth = depths(self.parent, there)
        roots = np.bincount(self.ring_of[there & (self.parent == NONE)], minlength=n)
        same = np.setxor1d(links.pairs, self.links.pairs, assume_unique=True) // len(there)
        wrong = roots != 1
        wrong[self.ring_of[there & (depth < 0)]] = wrong[self.ring_of[same]] = True
        degree = np.bincount(self.links.host, minlength=len(there))
        # the area is counted in the tree that has the host that joined or left: all slots have one
        ends = links_changed(before, self.parent)
        whole = self.parent if event == CONNECTION else before
        area = areas(whole, depths(whole, np.ones_like(there)), ends.ravel(), self.ring_of, n)
        values = {
            "faults": wrong.astype(np.int64),
            "degree": degree[there],
            "depth": depth[there],
            "links": np.bincount(self.ring_of[ends[:, 0]], minlength=n),
            "area": area,
            "area_without": area - 1,  # the host always has a changed link
            **costs_by_ring(done, self.ring_of, n),
        }
        for measure, numbers in values.items():
            for value, count in zip(*np.unique(numbers, return_counts=True), strict=True):
                self.found[event, measure, int(value)] += int(count)


def _first_ids(
    bits: int, hosts: int, seed: int, purpose: str, ring: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return `hosts` different keys of `bits` bits, drawn for a ring: upper and lower halves."""
    if bits <= _COUNTED_BITS:
        keys = draws.distinct_below(2**bits, hosts, seed, purpose, ring).astype(np.uint64)
        return np.zeros_like(keys), keys
    raw = draws.stream(seed, purpose, ring)
    found: np.ndarray = np.zeros((0, 2), dtype=np.uint64)
    while len(found) < hosts:
        more = np.stack(_cut(bits, raw.random_raw(2 * hosts).reshape(2, -1)), axis=1)
        both = np.concatenate([found, more])
        _, first = np.unique(both, axis=0, return_index=True)
        found = both[np.sort(first)]
    return found[:hosts, 0], found[:hosts, 1]


def _cut(bits: int, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return keys of `bits` bits, as halves, from 128 random bits each: raw has shape (2, n)."""
    if bits <= 64:
        return np.zeros_like(raw[1]), raw[1] >> np.uint64(64 - bits)
    return raw[0] >> np.uint64(128 - bits), raw[1]


def _free_key(tree: ReferenceTree, ids: tuple[np.ndarray, np.ndarray], raw: np.ndarray) -> Numbers:
    """Return a random key for each of R rings that is no host's id."""
    hi, lo = ids
    if tree.bits <= _COUNTED_BITS:
        free = np.uint64(2**tree.bits - lo.shape[1])
        rank = (raw[:, 0] % free)[:, None]
        # the wanted key has `rank` free keys before it; it is `rank` plus the number of ids before
        # it, which are the ids with at most `rank` free keys before them
        passed = (lo - np.arange(lo.shape[1], dtype=np.uint64) <= rank).sum(axis=1)
        return from_halves(hi[:, 0], rank[:, 0] + passed.astype(np.uint64), tree.bits)
    key_hi, key_lo = _cut(tree.bits, raw.T)
    taken = ((hi == key_hi[:, None]) & (lo == key_lo[:, None])).any(axis=1)
    if taken.any():
        raise RuntimeError(f"a key of {tree.bits} bits was drawn twice: take another seed")
    return from_halves(key_hi, key_lo, tree.bits)


# --- trees of hosts on many rings


def depths(parent: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Return the number of links from each host up to the root of its tree."""
    # an absent host is its own parent: a circle, therefore depth -1
    return arrays.depths(np.where(here, parent, np.arange(len(parent))), circles=True)


def links_changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the links that exist in only one of two trees, as pairs of hosts."""
    child, hosts = np.flatnonzero(before != after), len(before)
    codes = []
    for parent in (before[child], after[child]):
        some = parent != NONE
        low, high = np.minimum(child, parent)[some], np.maximum(child, parent)[some]
        codes.append(low * hosts + high)
    changed = np.setxor1d(codes[0], codes[1], assume_unique=True)
    return np.stack([changed // hosts, changed % hosts], axis=1)


def areas(
    parent: np.ndarray, depth: np.ndarray, ends: np.ndarray, ring_of: np.ndarray, rings: int
) -> np.ndarray:
    """Return the number of hosts in the smallest subtree with the hosts `ends`, by ring."""
    ends = distinct(ends)
    total = np.bincount(ring_of[ends], minlength=rings)
    below = np.zeros(len(parent), dtype=np.int64)  # listed hosts in the subtree of each host
    below[ends] = 1
    for level in range(int(depth[ends].max(initial=0)), 0, -1):
        there = np.flatnonzero((depth == level) & (below > 0))
        np.add.at(below, parent[there], below[there])
    # A host is in the joining subtree if its own subtree contains some listed hosts but not all.
    # If it contains all, only the lowest such host counts.
    some = np.flatnonzero((below > 0) & (below < total[ring_of]))
    return np.bincount(ring_of[some], minlength=rings) + (total > 0)
