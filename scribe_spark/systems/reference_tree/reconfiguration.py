"""A reconfiguration as a program of the engine, on the hosts of a world or of many small rings.

In a round, notified hosts compute their neighbours anew: they look up their parents and children.
Each host compares its new neighbours with its old ones, and sends a notice to every host that is in
only one of the two sets.  The notified hosts compute in the next round.  A bucket stores the
neighbours of its own hosts.

Costa and Frey, Sections 3.4 and 5; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

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
from scribe_spark.engine.program import AT, append
from scribe_spark.multicast import FAILURES, failure_sums
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.systems.reference_tree.hash_table import HashTable
from scribe_spark.systems.reference_tree.search import climb, explore
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: The table with the neighbours of a bucket's hosts before the reconfiguration: ``pair``, see
#: `HostLinks`.
LINKS = "reference tree links"

#: The kind of messages whose receivers compute.
NOTICE = "notice"

#: Tables: the current links of all hosts that have computed (``pair``), and a row for each
#: computation (`_COLUMNS`; ``up`` and ``down``: look-ups for the parent and for children).
_NEW_LINKS, _COMPUTED = "reference tree new links", "reference tree computed"
_COLUMNS = ("host", "round", "notices", "up", "down")


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

    def of_hosts(self, some: np.ndarray) -> HostLinks:
        """Return only the links of the hosts `some` (ascending): pairs of host and neighbour."""
        return HostLinks(self.pairs[self._rows(some)], self.hosts)

    def with_others(self, some: np.ndarray, links: HostLinks) -> HostLinks:
        """Return the links with the pairs of the hosts `some` (ascending) replaced by `links`."""
        kept = np.delete(self.pairs, self._rows(some))
        return HostLinks(np.sort(np.concatenate([kept, links.pairs])), self.hosts)

    def _rows(self, some: np.ndarray) -> np.ndarray:
        """Return the rows of the pairs of the hosts `some`."""
        ends = (np.searchsorted(self.pairs, host * self.hosts) for host in (some, some + 1))
        return expand(*ends)[1]


# --- the program


class Hosts(Protocol):
    """The type of hosts: the first one of each bucket, and the hash table of those that are here.

    `bounds` also has the number of all hosts; `here` is True for the hosts that are here.
    """

    @property
    def bounds(self) -> np.ndarray: ...

    @property
    def table(self) -> HashTable: ...

    @property
    def here(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Reconfigure:
    """A program: hosts with a notice compute their neighbours; each superstep is a round."""

    hosts: Hosts

    @property
    def bounds(self) -> np.ndarray:
        return self.hosts.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Return a notice to each neighbour that a host has gained or lost."""
        if NOTICE not in inbox:
            return {}
        hosts, computing = int(self.bounds[-1]), distinct(inbox[NOTICE][AT])
        # 1. the new neighbours
        table = self.hosts.table
        rows = table.find(computing)
        parent, up = climb(table, rows)
        which, child, down = explore(table, rows)
        below_root = parent != NONE
        ends = np.r_[computing[below_root], computing[which]], np.r_[parent[below_root], child]
        found = HostLinks.of(*ends, hosts)
        # 2. the old neighbours
        new, before = _links(tables, _NEW_LINKS, hosts), _links(tables, LINKS, hosts)
        for_the_first_time = np.setdiff1d(computing, _computed(tables), assume_unique=True)
        old = [new.of_hosts(computing).pairs, before.of_hosts(for_the_first_time).pairs]
        different = np.setxor1d(np.concatenate(old), found.pairs, assume_unique=True)
        sender, receiver = np.divmod(different, hosts)
        here = self.hosts.here[receiver]
        sender, receiver = sender[here], receiver[here]
        sent = np.bincount(index_sorted(computing, sender), minlength=len(computing))
        number = np.full(len(computing), superstep)
        rows_of_hosts = zip(_COLUMNS, (computing, number, sent, up, down), strict=True)
        append(tables, _COMPUTED, dict(rows_of_hosts))
        tables[_NEW_LINKS] = {"pair": new.with_others(computing, found).pairs}
        return {NOTICE: {AT: receiver}}


def _links(tables: Tables, name: str, hosts: int) -> HostLinks:
    no_host = np.zeros(0, dtype=np.int64)
    return HostLinks(tables[name]["pair"] if name in tables else no_host, hosts)


def _computed(tables: Tables) -> np.ndarray:
    """Return the hosts that have computed in an earlier round, ascending."""
    return distinct(tables[_COMPUTED]["host"]) if _COMPUTED in tables else np.zeros(0, np.int64)


def first_to_compute(
    before: HashTable, after: HashTable, links: HostLinks, here: np.ndarray
) -> np.ndarray:
    """Return the hosts that compute anew in round 0: int64, ascending.

    These are hosts that joined, neighbours of hosts that left, and hosts with a new topmost key;
    `here` is True for the hosts of `after`.
    """
    row = before.find(after.node)
    old, new = np.flatnonzero(row >= 0), after.node[row < 0]
    row = row[old]
    differs = (before.first[row] != after.first[old]) | (before.last[row] != after.last[old])
    row, old = row[differs], old[differs]
    moved = old[before.topmost(row)[0] != after.topmost(old)[0]]
    left = links.host[~here[links.neighbour]]
    return distinct(np.concatenate([new, after.node[moved], left[here[left]]]))


@dataclass(frozen=True)
class Reconfigured:
    """The results of a reconfiguration in a bucket."""

    #: The links of the bucket's hosts before, and the links after of the hosts that have computed.
    before: HostLinks
    new: HostLinks
    #: int64, ascending: the hosts that have computed, and the hosts that have left.
    changing: np.ndarray
    #: ``host, round, notices, up, down``: a row for each computation, with its look-ups for the
    #: parent (``up``) and for children (``down``).
    computed: Columns

    @classmethod
    def take(cls, tables: Tables, hosts: Hosts) -> Reconfigured:
        """Return the results, and delete their tables in the bucket, except for the old links."""
        count, no_host = int(hosts.bounds[-1]), np.zeros(0, dtype=np.int64)
        before, new = _links(tables, LINKS, count), _links(tables, _NEW_LINKS, count)
        left = before.host[~hosts.here[before.host]]
        changing = distinct(np.concatenate([left, _computed(tables)]))
        computed = tables.pop(_COMPUTED, dict.fromkeys(_COLUMNS, no_host))
        tables.pop(_NEW_LINKS, None)
        return cls(before, new, changing, computed)

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


@dataclass(frozen=True)
class InOneBucket:
    """Hosts of many rings in one bucket."""

    table: HashTable
    here: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        return np.array([0, len(self.here)])


def reconfigure(
    table: HashTable, links: HostLinks, first: np.ndarray, here: np.ndarray
) -> Reconfigured:
    """Play the rounds of a reconfiguration of hosts that are `here`, until nobody is notified."""
    hosts, tables = InOneBucket(table, here), Tables.of({LINKS: {"pair": links.pairs}})
    play(Reconfigure(hosts), [tables], {NOTICE: {AT: first}})
    return Reconfigured.take(tables, hosts)


def costs_by_ring(done: Reconfigured, ring_of: np.ndarray, rings: int) -> dict[str, np.ndarray]:
    """Return counts of reconfigurations on each ring: int64, shape (rings,)."""
    host, number, *counts = (done.computed[name] for name in _COLUMNS)
    ring = ring_of[host]
    notices, up, down = (sums_at(ring, count, rings) for count in counts)

    def rows_of(ring: np.ndarray) -> np.ndarray:
        return np.bincount(ring, minlength=rings)

    return {
        "hosts": rows_of(ring_of[distinct(host)]),
        "computations": rows_of(ring),
        "notices": notices,
        "rounds": rows_of(distinct(number * rings + ring) % rings),
        "parent_lookups": up,
        "child_lookups": down,
    }


def all_parents(table: HashTable, hosts: int) -> np.ndarray:
    """Return each host's parent: int64, shape (hosts,); `NONE` for roots and absent hosts."""
    parent = np.full(hosts, NONE)
    parent[table.node], _ = climb(table, np.arange(len(table)))
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
    """Let single hosts of every depth fail, and count the actions of the other hosts.

    The ids are ascending.  The result has a row for each failure: its depth, and the numbers of
    changed links, of hosts that computed, and of messages.
    """
    n = len(ids)
    every_host, ring_of = np.arange(n), np.zeros(n, dtype=np.int64)
    table = HashTable.of(tree, assignment, ids, ring_of, every_host, 1)
    parent = all_parents(table, n)
    depth, links = depths(parent), HostLinks.of_parents(parent)
    drawn = draws.uniform(draws.stream(seed, "failing hosts"), n)
    order = np.lexsort((drawn, depth))
    failing = order[index_in_run(depth[order]) < sample]
    rows = []
    for host in failing.tolist() if n > 1 else ():
        here = every_host != host
        after = HashTable.of(tree, assignment, ids[here], ring_of[here], every_host[here], 1)
        done = reconfigure(after, links, first_to_compute(table, after, links, here), here)
        changed = sum(map(len, done.changed())) // 2  # both ends report a changed link
        costs = costs_by_ring(done, ring_of, 1)
        messages = sum(costs[name][0] for name in ("notices", "parent_lookups", "child_lookups"))
        rows.append((depth[host], changed, costs["hosts"][0], messages))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)
