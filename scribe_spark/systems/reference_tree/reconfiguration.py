"""The rounds of a reconfiguration as a program of the engine, and on many rings in this process.

In a round, notified hosts compute their neighbours anew: they look up their parents and children,
by messages where a key belongs to another bucket.  When all look-ups have ended, each host compares
its new neighbours with its old ones, and sends a notice to every host that is in only one of the
two sets.  The notified hosts compute in the next round.  A bucket stores the neighbours of its own
hosts.

Costa and Frey, Sections 3.4 and 5; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core import draws
from scribe_spark.core.arrays import (
    NONE,
    depths,
    distinct,
    expand,
    index_in_run,
    index_sorted,
    sums_at,
)
from scribe_spark.core.u128 import Numbers, from_halves
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.in_task import play
from scribe_spark.engine.packing import take
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import AT, append
from scribe_spark.multicast import FAILURES, failure_sums
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.systems.reference_tree.hash_table import Dht, OneBucket, Rings
from scribe_spark.systems.reference_tree.search import climb, climbs_from, look_up
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: The table with the neighbours of a bucket's hosts before the reconfiguration: ``pair``, see
#: `HostLinks`.
LINKS = "reference tree links"

#: The table with the hosts that compute in a round: ``host``.
COMPUTING = "reference tree computing"

#: The kind of messages whose receivers compute.
NOTICE = "notice"

# Tables: the results of the searches in this round; the current links of all hosts that have
# computed in earlier rounds (``pair``); a row for each computation (``host, round, notices``); the
# results that count look-ups, of earlier rounds.
_FOUND, _NEW_LINKS = "reference tree found", "reference tree new links"
_COMPUTED, _LOOKUPS = "reference tree computed", "reference tree look-ups"


# --- links


@dataclass(frozen=True)
class HostLinks:
    """The links of trees, as pairs of a host and one of its neighbours: each link twice."""

    #: int64, shape (n,), ascending: ``host * hosts + neighbour``.
    pairs: np.ndarray
    #: The number of hosts on all rings; host numbers are less than this.
    hosts: int

    @classmethod
    def of(cls, host: np.ndarray, neighbour: np.ndarray, hosts: int) -> HostLinks:
        """Return the links from each host to a neighbour; pairs are in any order, each once."""
        return cls(np.sort(host * hosts + neighbour), hosts)

    @classmethod
    def of_parents(cls, parent: np.ndarray) -> HostLinks:
        """Return the links of trees from the parent of each host (`NONE` for a root)."""
        child = np.flatnonzero(parent != NONE)
        above = parent[child]
        return cls.of(np.r_[child, above], np.r_[above, child], len(parent))

    @property
    def host(self) -> np.ndarray:
        """The host of each pair."""
        return self.pairs // self.hosts

    @property
    def neighbour(self) -> np.ndarray:
        """The neighbour of each pair."""
        return self.pairs % self.hosts

    def around(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the neighbours of some hosts: each host's index in `some`, and the neighbour."""
        which, row = expand(*self._rows(some))
        return which, self.pairs[row] % self.hosts

    def of_hosts(self, some: np.ndarray) -> HostLinks:
        """Return only the links of the hosts `some` (ascending): pairs of host and neighbour."""
        _, row = expand(*self._rows(some))
        return HostLinks(self.pairs[row], self.hosts)

    def with_others(self, some: np.ndarray, links: HostLinks) -> HostLinks:
        """Return the links with the pairs of the hosts `some` (ascending) replaced by `links`."""
        _, row = expand(*self._rows(some))
        kept = np.ones(len(self.pairs), dtype=bool)
        kept[row] = False
        return HostLinks(np.sort(np.concatenate([self.pairs[kept], links.pairs])), self.hosts)

    def _rows(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows at which the pairs of each host in `some` begin and end."""
        first, last = (np.searchsorted(self.pairs, host * self.hosts) for host in (some, some + 1))
        return first, last


# --- the program


@dataclass(frozen=True)
class Reconfigure:
    """A program for one round: send the notices of the round before, then compute."""

    dht: Dht
    number: int

    @property
    def bounds(self) -> np.ndarray:
        return self.dht.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if self.number and not superstep:
            return self._compare(tables)
        computing = distinct(inbox[NOTICE][AT]) if NOTICE in inbox else np.zeros(0, np.int64)
        if len(computing):
            tables[COMPUTING] = {"host": computing}
        found, outbox = look_up(self.dht, bucket, tables, inbox, computing)
        if len(found["host"]):
            append(tables, _FOUND, found)
        return outbox

    def _compare(self, tables: Tables) -> Outbox:
        """Return a notice to each neighbour that a host has gained or lost in the round before."""
        if COMPUTING not in tables:
            return {}
        hosts, computing = int(self.bounds[-1]), tables.pop(COMPUTING)["host"]
        results = tables.pop(_FOUND)
        append(tables, _LOOKUPS, take(results, results["lookups"] > 0))
        results = take(results, results["neighbour"] != NONE)
        found = HostLinks.of(results["host"], results["neighbour"], hosts)
        new, before = _links(tables, _NEW_LINKS, hosts), _links(tables, LINKS, hosts)
        for_the_first_time = np.setdiff1d(computing, _computed(tables), assume_unique=True)
        old = [new.of_hosts(computing).pairs, before.of_hosts(for_the_first_time).pairs]
        different = np.setxor1d(np.concatenate(old), found.pairs, assume_unique=True)
        sender, receiver = np.divmod(different, hosts)
        here = self.dht.is_here(receiver)
        sender, receiver = sender[here], receiver[here]
        sent = np.bincount(index_sorted(computing, sender), minlength=len(computing))
        number = np.full(len(computing), self.number - 1)
        append(tables, _COMPUTED, {"host": computing, "round": number, "notices": sent})
        tables[_NEW_LINKS] = {"pair": new.with_others(computing, found).pairs}
        return {NOTICE: {AT: receiver}}


def _links(tables: Tables, name: str, hosts: int) -> HostLinks:
    no_host = np.zeros(0, dtype=np.int64)
    return HostLinks(tables[name]["pair"] if name in tables else no_host, hosts)


def _computed(tables: Tables) -> np.ndarray:
    """Return the hosts that have computed in an earlier round, ascending."""
    return distinct(tables[_COMPUTED]["host"]) if _COMPUTED in tables else np.zeros(0, np.int64)


def first_to_compute(
    before: Rings, after: Rings, links: HostLinks, is_here: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the hosts that compute anew in round 0: int64, ascending.

    These are hosts that joined, neighbours of hosts that left, and hosts with a new topmost key.
    `before` and `after` have at least the hosts with links here.
    """
    row = before.find(after.node)
    other, there = row < 0, row >= 0
    other[there] = before.topmost[row[there]] != after.topmost[there]
    left = links.host[~is_here(links.neighbour)]
    return distinct(np.concatenate([after.node[other], left[after.find(left) >= 0]]))


@dataclass(frozen=True)
class Reconfigured:
    """The results of a reconfiguration in a bucket."""

    #: The links of the bucket's hosts before, and the links after of the hosts that have computed.
    before: HostLinks
    new: HostLinks
    #: int64, ascending: the hosts that have computed, and the hosts that have left.
    changing: np.ndarray
    #: ``host, round, notices``: a row for each computation.
    computed: Columns
    #: ``host, lookups, up``: numbers of look-ups of a host, for its parent (`up`) or its children.
    lookups: Columns

    @classmethod
    def take(cls, tables: Tables, dht: Dht) -> Reconfigured:
        """Return the results, and delete their tables in the bucket, except for the old links."""
        hosts, no_host = int(dht.bounds[-1]), np.zeros(0, dtype=np.int64)
        before, new = _links(tables, LINKS, hosts), _links(tables, _NEW_LINKS, hosts)
        known = before.host
        changing = distinct(np.concatenate([known[~dht.is_here(known)], _computed(tables)]))
        computed = tables.pop(_COMPUTED, dict.fromkeys(("host", "round", "notices"), no_host))
        lookups = tables.pop(_LOOKUPS, dict.fromkeys(("host", "lookups", "up"), no_host))
        tables.pop(_NEW_LINKS, None)
        return cls(before, new, changing, computed, lookups)

    @property
    def links(self) -> HostLinks:
        """Return all links after the reconfiguration."""
        return self.before.with_others(self.changing, self.new)

    def changed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the removed links and the created links, as pairs of hosts from each end."""
        before = self.before.of_hosts(self.changing).pairs
        return (
            np.setdiff1d(before, self.new.pairs, assume_unique=True),
            np.setdiff1d(self.new.pairs, before, assume_unique=True),
        )


# --- many rings in this process


def reconfigure(
    tree: ReferenceTree, rings: Rings, links: HostLinks, first: np.ndarray, here: np.ndarray
) -> Reconfigured:
    """Play the rounds of a reconfiguration of hosts that are `here`, until nobody is notified."""
    dht, tables = OneBucket(tree, rings, here), Tables.of({LINKS: {"pair": links.pairs}})
    play(Reconfigure(dht, 0), [tables], {NOTICE: {AT: first}})
    for number in counted("reference_tree reconfiguration", most_supersteps(len(here)), "rounds"):
        if not any(play(Reconfigure(dht, number + 1), [tables])):
            break
    return Reconfigured.take(tables, dht)


def costs_by_ring(done: Reconfigured, ring_of: np.ndarray, rings: int) -> dict[str, np.ndarray]:
    """Return counts of reconfigurations on each ring: int64, shape (rings,)."""
    host, asker = done.computed["host"], done.lookups["host"]
    lookups, is_up = done.lookups["lookups"], done.lookups["up"].astype(bool)
    ring, number = ring_of[host], done.computed["round"]

    def count(ring_of_row: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        ones = np.ones(len(ring_of_row), dtype=np.int64)
        return sums_at(ring_of_row, ones if weight is None else weight, rings)

    return {
        "hosts": count(ring_of[distinct(host)]),
        "computations": count(ring),
        "notices": count(ring, done.computed["notices"]),
        "rounds": count(distinct(number * rings + ring) % rings),
        "parent_lookups": count(ring_of[asker], lookups * is_up),
        "child_lookups": count(ring_of[asker], lookups * ~is_up),
    }


def all_parents(tree: ReferenceTree, rings: Rings, hosts: int) -> np.ndarray:
    """Return each host's parent: int64, shape (hosts,); `NONE` for roots and absent hosts."""
    parent = np.full(hosts, NONE)
    found, _ = climb(tree, rings, climbs_from(tree, rings, np.arange(len(rings))))
    parent[found["host"]] = found["neighbour"]
    return parent


# --- the cost of failures, by the depth of the host


#: The number of hosts of each depth that fail, and the total number of keysets that may be computed
#: for these failures.
_SAMPLE, _PLACED = 4, 400_000


def costs_of_reconfiguring(
    nodes: DataFrame, children: int, assignment: str, seed: int
) -> DataFrame:
    """Measure the costs of the failure of one host, by its depth in the tree over all nodes."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        hi, lo = (rows.column(name).to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
        order = np.lexsort((lo, hi))
        sample = min(_SAMPLE, max(_PLACED // len(order), 1))
        ids = from_halves(hi[order], lo[order], 128)
        found = failures_by_depth(ReferenceTree(128, children), assignment, ids, sample, seed)
        if len(found):
            yield failure_sums(*found.T)

    return nodes.select("id_hi", "id_lo").repartition(1).mapInArrow(run, FAILURES)


def failures_by_depth(
    tree: ReferenceTree, assignment: str, ids: Numbers, sample: int, seed: int
) -> np.ndarray:
    """Let single hosts of every depth fail, and count the actions of the other hosts."""
    n = len(ids)
    every_host, ring_of = np.arange(n), np.zeros(n, dtype=np.int64)
    rings = Rings.of(tree, assignment, ids, ring_of, every_host, 1)
    parent = all_parents(tree, rings, n)
    depth, links = depths(parent), HostLinks.of_parents(parent)
    drawn = draws.uniform(draws.stream(seed, "failing hosts"), n)
    order = np.lexsort((drawn, depth))
    place_in_depth = index_in_run(depth[order])
    rows = []
    for host in order[place_in_depth < sample].tolist():
        if n == 1:
            continue
        after = _without(rings, tree, assignment, ids, host)
        here = every_host != host
        first = first_to_compute(rings, after, links, here.__getitem__)
        done = reconfigure(tree, after, links, first, here)
        changed = sum(map(len, done.changed())) // 2  # both ends report a changed link
        costs = costs_by_ring(done, ring_of, 1)
        messages = sum(costs[name][0] for name in ("notices", "parent_lookups", "child_lookups"))
        rows.append((depth[host], changed, costs["hosts"][0], messages))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _without(rings: Rings, tree: ReferenceTree, assignment: str, ids: Numbers, host: int) -> Rings:
    """Return the keysets of a ring after a host has left it; those of its two neighbours change."""
    n = len(rings)
    place = int(np.flatnonzero(rings.node == host)[0])
    if not 1 < place < n - 2:  # at key 0 the order of the last keys may change
        left = np.delete(np.arange(n), host)
        return Rings.of(tree, assignment, ids[left], np.zeros(n - 1, dtype=np.int64), left, 1)
    # an end of a keyset depends on two ids
    near = rings.node[place + np.array([-2, -1, 1, 2])]
    some = Rings.of(tree, assignment, ids[near], np.zeros(4, dtype=np.int64), near, 1)
    changed, columns = some.columns(some.find(near[1:3])), rings.columns(np.arange(n) != place)
    for name, column in columns.items():
        column[place - 1 : place + 1] = changed[name]
    starts = np.array([0, n - 1])
    return Rings(starts, starts[:-1], **columns)
