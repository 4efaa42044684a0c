"""The reference tree over the live nodes of a world: programs on the buckets of a round.

Hosts are identified by their positions on the ring.  The keysets of the live nodes follow from two
facts that every bucket can read: the nodeIds, and which nodes are alive.

All events of a round are one change of the hash table, which is complete before the tree's hosts
compute their neighbours again.  The neighbours that a node knows stay in its bucket from round to
round and are not saved with a world: each reconfiguration ends with the tree that would be computed
from nothing (this is checked), so a resumed world computes it again.

Costa and Frey, Sections 3 and 3.4; ``docs/reference_tree.md`` (in worlds).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, depths, distinct, find_sorted
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import AT, SilentProgram, Together, append, in_bucket
from scribe_spark.rounds.player import Environment, RoundPlayer
from scribe_spark.systems.reference_tree.hash_table import PASTRY, HashTable
from scribe_spark.systems.reference_tree.reconfiguration import (
    LINKS,
    NOTICE,
    HostLinks,
    Reconfigure,
    Reconfigured,
    first_to_compute,
)
from scribe_spark.systems.reference_tree.search import with_ancestors
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: The table with the hosts that were alive when the tree was last computed: ``alive``, 8 to a byte.
_HOSTS = "reference tree hosts"

#: The table with the counts of a bucket, which are added up over all buckets, except for the
#: columns :data:`_LARGEST`, of which the maximum counts; see `MeasureTree`.
_MEASURED = "reference tree measured"
_LARGEST = ("rounds", "degree", "deepest")

#: The tree computed from nothing.  A row of the table is a link: a host (``at``) and its
#: ``neighbour``.  Links that were found in another bucket come as messages.  A second table has the
#: numbers of ``roots``, the greatest depth of a host (``deepest``), and the sum of depths
#: (``depth``).
_LINK, _DEPTHS = "reference tree from nothing", "reference tree depths"

#: All measures of a round with their units; see :func:`live_tree_measures`.
LIVE_TREE_MEASURES: dict[str, str] = {
    "reference_tree.hosts": "hosts",
    "reference_tree.links.removed": "links",
    "reference_tree.links.created": "links",
    "reference_tree.parent_lookups": "messages",
    "reference_tree.child_lookups": "messages",
    "reference_tree.notices": "messages",
    "reference_tree.rounds": "rounds",
    "reference_tree.degree.largest": "neighbours",
    "reference_tree.depth.largest": "hops",
    "reference_tree.depth.mean": "hops",
    "reference_tree.faults": "trees",
}


@dataclass(frozen=True)
class LiveHosts:
    """The live nodes of a world as hosts of a hash table; hosts are positions."""

    environment: Environment
    tree: ReferenceTree
    assignment: str

    @property
    def bounds(self) -> np.ndarray:
        return self.environment.bounds

    @property
    def here(self) -> np.ndarray:
        return self.environment.in_round.alive

    @functools.cached_property
    def table(self) -> HashTable:
        return self.table_of(self.here)

    def table_of(self, alive: np.ndarray) -> HashTable:
        """Return the hash table of the nodes that a mask marks."""
        ring = self.environment.facts.ring
        return HashTable.of_ring(self.tree, self.assignment, ring, np.flatnonzero(alive))


@dataclass(frozen=True)
class ReconfigureLive(Reconfigure):
    """A program: play a reconfiguration after a round's events; without a tree, only note hosts."""

    hosts: LiveHosts

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            first = self._first(bucket, tables)
            inbox = {NOTICE: {AT: first}} if len(first) else {}
        return super().step(bucket, tables, inbox, superstep)

    def _first(self, bucket: int, tables: Tables) -> np.ndarray:
        """Return the hosts of the bucket that compute in round 0."""
        here, before = self.hosts.here, tables.get(_HOSTS)
        tables[_HOSTS] = {"alive": np.packbits(here)}
        if before is None:
            return np.zeros(0, dtype=np.int64)
        known = self.hosts.table_of(np.unpackbits(before["alive"], count=len(here)) > 0)
        links = HostLinks(tables[LINKS]["pair"], len(here))
        first = first_to_compute(known, self.hosts.table, links, here)
        return first[in_bucket(self.bounds, bucket, first)]


@dataclass(frozen=True)
class FindTree:
    """A program: compute the tree of all live hosts as if none existed."""

    hosts: LiveHosts

    @property
    def bounds(self) -> np.ndarray:
        return self.hosts.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if _LINK in inbox:
            append(tables, _LINK, inbox[_LINK])
        if superstep:
            return {}
        first, last = self.bounds[bucket : bucket + 2]
        live = first + np.flatnonzero(self.hosts.here[first:last])
        host, parent = with_ancestors(self.hosts.table, live)
        own = in_bucket(self.bounds, bucket, host)
        depth, is_root = depths(find_sorted(host, parent))[own], own & (parent == NONE)
        counts = np.count_nonzero(is_root), depth.max(initial=0), depth.sum()
        columns = zip(("roots", "deepest", "depth"), counts, strict=True)
        tables[_DEPTHS] = {name: np.array([one], dtype=np.int64) for name, one in columns}
        child, parent = host[own & ~is_root], parent[own & ~is_root]
        links = {AT: np.r_[child, parent], "neighbour": np.r_[parent, child]}
        mine = in_bucket(self.bounds, bucket, links[AT])
        tables[_LINK] = take(links, mine)
        return {_LINK: take(links, ~mine)}


def _found_links(tables: Tables, hosts: int) -> HostLinks:
    """Remove and return the links of the tree computed from nothing."""
    found = tables.pop(_LINK)
    return HostLinks.of(found[AT], found["neighbour"], hosts)


@dataclass(frozen=True)
class StoreLinks(SilentProgram):
    """A program: store the links of the tree computed from nothing as the links that hosts know."""

    bounds: np.ndarray

    def change(self, bucket: int, tables: Tables) -> None:
        tables[LINKS] = {"pair": _found_links(tables, int(self.bounds[-1])).pairs}
        tables.pop(_DEPTHS)


@dataclass(frozen=True)
class MeasureTree(SilentProgram):
    """A program: count the reconfiguration and the tree after it, in :data:`_MEASURED`.

    Columns: ``hosts``, the hosts that computed anew, in ``rounds`` rounds; ``removed`` and
    ``created`` links, counted at both ends; look-ups for parents (``up``) and for children
    (``down``); ``notices``; the largest ``degree``; ``different``, the links that are only in one
    of the two trees, counted at both ends; and the columns of :data:`_DEPTHS`.
    """

    hosts: LiveHosts

    @property
    def bounds(self) -> np.ndarray:
        return self.hosts.bounds

    def change(self, bucket: int, tables: Tables) -> None:
        done = Reconfigured.take(tables, self.hosts)
        links, computed, (removed, created) = done.links, done.computed, done.changed()
        if len(done.changing):
            tables[LINKS] = {"pair": links.pairs}
        right = _found_links(tables, links.hosts)
        measured = {
            "hosts": len(distinct(computed["host"])),
            "rounds": computed["round"].max(initial=-1) + 1,
            "removed": len(removed),
            "created": len(created),
            **{name: computed[name].sum() for name in ("up", "down", "notices")},
            "degree": np.unique(links.host, return_counts=True)[1].max(initial=0),
            "different": len(np.setxor1d(links.pairs, right.pairs, assume_unique=True)),
        }
        counts = {name: np.array([one], dtype=np.int64) for name, one in measured.items()}
        tables[_MEASURED] = {**counts, **tables.pop(_DEPTHS)}


# --- a round


@dataclass(frozen=True)
class LiveTree:
    """A world's reference tree: children of a key, and the assignment of keys."""

    children: int = 2
    assignment: str = PASTRY

    def hosts(self, player: RoundPlayer) -> LiveHosts:
        """Return the live hosts of the tree."""
        return LiveHosts(player.environment, ReferenceTree(128, self.children), self.assignment)


def find_live_tree(tree: LiveTree, player: RoundPlayer) -> None:
    """Compute the tree of the live nodes from scratch, unless the buckets have it."""
    if not player.has(_HOSTS):
        hosts = tree.hosts(player)
        player.play(Together((ReconfigureLive(hosts), FindTree(hosts))))
        player.play(StoreLinks(hosts.bounds))


def live_tree_measures(tree: LiveTree, player: RoundPlayer) -> dict[str, float]:
    """Reconfigure the tree after the events of a round; return the values of measures.

    ``hosts``: hosts that computed their neighbours again.  ``links.removed``, ``links.created``:
    each link once.  ``parent_lookups``, ``child_lookups``, ``notices``, ``rounds``: of the
    reconfiguration.  ``degree.largest``, ``depth.largest``, ``depth.mean``: of the resulting tree.
    ``faults``: 1 if the result is not a tree of all live nodes, or differs from the tree computed
    from scratch, else 0.  The buckets have the tree before the events (:func:`find_live_tree`).
    """
    hosts = tree.hosts(player)
    # (FindTree computes the tree from scratch, for the comparison)
    player.play(Together((ReconfigureLive(hosts), FindTree(hosts))))
    player.play(MeasureTree(hosts))
    found = {
        name: int(column.max() if name in _LARGEST else column.sum())
        for name, column in player.take(_MEASURED)[_MEASURED].items()
    }
    values = {
        "hosts": found["hosts"],
        "links.removed": found["removed"] // 2,  # both ends count it
        "links.created": found["created"] // 2,
        "parent_lookups": found["up"],
        "child_lookups": found["down"],
        "notices": found["notices"],
        "rounds": found["rounds"],
        "degree.largest": found["degree"],
        "depth.largest": found["deepest"],
        "depth.mean": found["depth"] / np.count_nonzero(hosts.here),
        "faults": found["roots"] != 1 or found["different"] > 0,
    }
    return {f"reference_tree.{name}": float(value) for name, value in values.items()}
