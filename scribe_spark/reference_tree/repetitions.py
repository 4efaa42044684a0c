"""The paper's experiment on many rings at once: connections, disconnections and measures.

All rings are independent repetitions with the same number of hosts.  Events happen one after the
other on a ring, and at the same time on all rings.  The random draws of a ring depend only on the
ring's own number.

References
----------
Costa and Frey, Section 4.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core.arrays import NONE
from scribe_spark.core.u128 import Numbers, from_halves, halves_of
from scribe_spark.reference_tree.area import areas, depths, links_changed
from scribe_spark.reference_tree.in_memory import all_parents, costs_by_ring, reconfigure
from scribe_spark.reference_tree.links import Links
from scribe_spark.reference_tree.reconfiguration import first_to_compute
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.tree import ReferenceTree

CONNECTION, DISCONNECTION = "connection", "disconnection"

#: With at most this many bits, a new id is drawn among the free keys.  With more, an id that is
#: already used is so improbable that it is an error.
_COUNTED_BITS = 32

#: (event, measure, value) -> number of times that this value was measured.
Histograms = Counter


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
    world = _World.of(tree, assignment, hosts, pairs, rings, seed)
    found: Histograms = Counter()
    for pair in range(pairs):
        world.connect(pair, found)
        world.disconnect(pair, found)
    return found


@dataclass
class _World:
    """The rings between two events."""

    tree: ReferenceTree
    assignment: str
    slots: int
    #: shape (R * slots,): the id of the host in each slot; a ring has one slot more than hosts.
    ids: Numbers
    #: bool, shape (R * slots,): whether the slot has a host.
    here: np.ndarray
    #: The hash table.
    rings: Rings
    #: The links that hosts know.
    links: Links
    #: int64, shape (R * slots,): the parent of the host in each slot.
    parent: np.ndarray
    #: uint64, shape (R, pairs, 4): the random bits of each ring's events.
    raw: np.ndarray

    @classmethod
    def of(
        cls,
        tree: ReferenceTree,
        assignment: str,
        hosts: int,
        pairs: int,
        rings: np.ndarray,
        seed: int,
    ) -> _World:
        purpose = f"reference tree of {hosts} hosts"
        hi, lo = np.zeros((2, len(rings), hosts + 1), dtype=np.uint64)
        raw = np.empty((len(rings), pairs, 4), dtype=np.uint64)
        for row, ring in enumerate(rings.tolist()):
            hi[row, :hosts], lo[row, :hosts] = _first_ids(tree.bits, hosts, seed, purpose, ring)
            bits = draws.stream(seed, f"{purpose}: events", ring)
            raw[row] = bits.random_raw(pairs * 4).reshape(pairs, 4)
        ids = from_halves(hi.reshape(-1), lo.reshape(-1), tree.bits)
        here = np.tile(np.arange(hosts + 1) < hosts, len(rings))
        nothing = np.zeros(0, dtype=np.int64)
        links = Links(nothing, len(here))
        none = Rings.of(tree, assignment, ids[:0], nothing, nothing, len(rings))
        world = cls(tree, assignment, hosts + 1, ids, here, none, links, nothing, raw)
        world.rings = world.keysets()
        world.links, world.parent = world.from_nothing()
        return world

    @property
    def ring_of(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.raw)), self.slots)

    def keysets(self) -> Rings:
        """Return the hash table of the present hosts."""
        there = np.flatnonzero(self.here)
        ring = self.ring_of[there]
        return Rings.of(self.tree, self.assignment, self.ids[there], ring, there, len(self.raw))

    def from_nothing(self) -> tuple[Links, np.ndarray]:
        """Compute all links from the keysets alone, and the parent of each slot."""
        parent = all_parents(self.tree, self.rings, len(self.here))
        return Links.of_parents(parent), parent

    def connect(self, pair: int, found: Histograms) -> None:
        """Let a new host join each ring."""
        free = np.flatnonzero(~self.here)
        self.ids[free] = _free_key(self.tree, self._matrix(), self.raw[:, pair, :2])
        self.here[free] = True
        before = self.parent
        self._settle(CONNECTION, found)
        self._areas(CONNECTION, before, self.parent, self.parent, found)

    def disconnect(self, pair: int, found: Histograms) -> None:
        """Let a random host leave each ring."""
        n = len(self.raw)
        slot = (self.raw[:, pair, 2] % np.uint64(self.slots)).astype(np.int64)
        gone = np.arange(n) * self.slots + slot
        self.here[gone] = False
        before = self.parent
        self._settle(DISCONNECTION, found)
        self._areas(DISCONNECTION, before, self.parent, before, found)

    def _matrix(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids on each ring, ascending: two arrays of halves of shape (R, hosts)."""
        there = np.flatnonzero(self.here)
        hi, lo = (half[there].reshape(len(self.raw), -1) for half in halves_of(self.ids))
        order = np.lexsort((lo, hi), axis=1)
        return np.take_along_axis(hi, order, 1), np.take_along_axis(lo, order, 1)

    def _settle(self, event: str, found: Histograms) -> None:
        """Play the rounds after an event, check the new tree, and count the costs."""
        rings, n, there = self.keysets(), len(self.raw), self.here
        first = first_to_compute(self.rings, rings, self.links, there.__getitem__)
        done = reconfigure(self.tree, rings, self.links, first, there)
        costs = costs_by_ring(done, self.ring_of, n)
        self.rings, self.links = rings, done.links
        links, self.parent = self.from_nothing()
        depth = depths(self.parent, there)
        roots = np.bincount(self.ring_of[there & (self.parent == NONE)], minlength=n)
        same = np.setxor1d(links.pairs, self.links.pairs, assume_unique=True) // len(there)
        wrong = roots != 1
        wrong[self.ring_of[there & (depth < 0)]] = wrong[self.ring_of[same]] = True
        degree = np.bincount(self.links.host, minlength=len(there))
        values = {
            "faults": wrong.astype(np.int64),
            "degree": degree[there],
            "depth": depth[there],
            **costs,
        }
        for measure, numbers in values.items():
            _count(found, event, measure, numbers)

    def _areas(
        self,
        event: str,
        before: np.ndarray,
        after: np.ndarray,
        tree: np.ndarray,
        found: Histograms,
    ) -> None:
        """Count the reconfiguration area, in the tree that has the host that joined or left."""
        n = len(self.raw)
        ends = links_changed(before, after)
        # (in this tree all slots have hosts)
        area = areas(tree, depths(tree, np.ones_like(self.here)), ends.ravel(), self.ring_of, n)
        _count(found, event, "links", np.bincount(self.ring_of[ends[:, 0]], minlength=n))
        _count(found, event, "area", area)
        _count(found, event, "area_without", area - 1)  # the host always has a changed link


def _count(found: Histograms, event: str, measure: str, numbers: np.ndarray) -> None:
    for value, count in zip(*np.unique(numbers, return_counts=True), strict=True):
        found[event, measure, int(value)] += int(count)


def _first_ids(
    bits: int, hosts: int, seed: int, purpose: str, ring: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct random keys, as two arrays of halves."""
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
    """Return for each ring a random key that is no host's id; raw has shape (R, 2)."""
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
