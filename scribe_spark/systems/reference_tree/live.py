"""The reference tree over the live nodes of a world: programs on the buckets of a round.

Hosts are identified by their positions on the ring.  The keysets of the live nodes follow from two
facts that every bucket can read: the nodeIds, and which nodes are alive.  A look-up of a key is
answered in the bucket whose range contains the key.

All events of a round are one change of the hash table, which is complete before the tree's hosts
compute their neighbours again.  The neighbours that a node knows stay in its bucket from round to
round and are not saved with a world: each reconfiguration ends with the tree that would be computed
from nothing (this is checked), so a resumed world computes it again.

Costa and Frey, Sections 3 and 3.4; ``docs/reference_tree.md`` (in worlds).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, depths, distinct
from scribe_spark.engine import Inbox, Outbox, Tables
from scribe_spark.engine.packing import take
from scribe_spark.engine.player import counted, most_supersteps
from scribe_spark.engine.program import AT, SilentProgram, Together, append, in_bucket
from scribe_spark.rounds.player import Environment, RoundPlayer
from scribe_spark.systems.reference_tree.hash_table import KEYSETS, PASTRY, HashTable
from scribe_spark.systems.reference_tree.reconfiguration import (
    COMPUTING,
    LINKS,
    NOTICE,
    HostLinks,
    Reconfigure,
    Reconfigured,
    first_to_compute,
)
from scribe_spark.systems.reference_tree.search import PARENTS, look_up
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: Tables with the counts of a bucket, which are added up over all buckets, except for the columns
#: :data:`LARGEST`, of which the maximum counts; see `MeasureTree`.
TREE_MEASURED = "reference tree measured"
LARGEST = ("rounds", "degree")

#: The table with the parents of a bucket's hosts in the tree computed from nothing: ``host,
#: parent``, without roots.
PARENT_OF = "reference tree parents"

#: The table of the tree computed from nothing.  A row is a link: a host (``at``), its
#: ``neighbour``, and ``up``: whether the neighbour is its parent.  Links that were found in another
#: bucket come as messages of the kind :data:`_LINK`.
_FROM_NOTHING = "reference tree from nothing"
_LINK = "link"

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
class LiveHosts(HashTable):
    """The live nodes of a world as hosts of a hash table; hosts are positions."""

    environment: Environment

    @classmethod
    def of(cls, environment: Environment, tree: ReferenceTree, assignment: str) -> LiveHosts:
        """Return the hash table of the live nodes in a round."""
        return cls(environment.facts, environment.bounds, tree, assignment, environment)

    def live(self) -> np.ndarray:
        return self.environment.in_round.live()

    def is_here(self, host: np.ndarray) -> np.ndarray:
        return self.environment.in_round.alive[host]

    def live_in(self, bucket: int) -> np.ndarray:
        """Return the live hosts of a bucket, ascending."""
        first, last = self.bounds[bucket : bucket + 2]
        return first + np.flatnonzero(self.environment.in_round.alive[first:last])


@dataclass(frozen=True)
class _OfHosts:
    """The base of programs on the buckets of live hosts."""

    hosts: LiveHosts

    @property
    def bounds(self) -> np.ndarray:
        return self.hosts.bounds

    def is_empty(self, bucket: int) -> bool:
        """Return whether a bucket has no nodes at all; such a bucket never gets a message."""
        return self.bounds[bucket] == self.bounds[bucket + 1]


@dataclass(frozen=True)
class AssignKeys(_OfHosts):
    """A program: assign keys after a round's events, then play round 0 of the reconfiguration."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if not superstep:
            if self.is_empty(bucket):
                return {}
            before = self.hosts.keysets(bucket, tables) if KEYSETS in tables else None
            now = self.hosts.assign(bucket, tables)
            if before is None:
                return {}
            links = HostLinks(tables[LINKS]["pair"], int(self.bounds[-1]))
            first = first_to_compute(before, now, links, self.hosts.is_here)
            first = first[in_bucket(self.bounds, bucket, first)]
            if not len(first):
                return {}
            inbox = {NOTICE: {AT: first}}
        return Reconfigure(self.hosts, 0).step(bucket, tables, inbox, superstep)


@dataclass(frozen=True)
class FindParents(_OfHosts):
    """A program: all live hosts look up their parents, as if no tree existed."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if self.is_empty(bucket):
            return {}
        live = np.zeros(0, dtype=np.int64) if superstep else self.hosts.live_in(bucket)
        found, sent = look_up(self.hosts, bucket, tables, inbox, live, kinds=(PARENTS,))
        found = take(found, found["neighbour"] != NONE)
        child, parent = found["host"], found["neighbour"]
        ends = {AT: np.r_[child, parent], "neighbour": np.r_[parent, child]}
        links = {**ends, "up": np.repeat([True, False], len(child))}
        is_own = in_bucket(self.bounds, bucket, links[AT])
        received = [inbox[_LINK]] if _LINK in inbox else []
        append(tables, _FROM_NOTHING, take(links, is_own), *received)
        return {_LINK: take(links, ~is_own), **sent}


@dataclass(frozen=True)
class StoreLinks(SilentProgram, _OfHosts):
    """A program: store the links of the tree computed from nothing as the links that hosts know."""

    def change(self, bucket: int, tables: Tables) -> None:
        if not self.is_empty(bucket):
            found = tables.pop(_FROM_NOTHING)
            links = HostLinks.of(found[AT], found["neighbour"], int(self.bounds[-1]))
            tables[LINKS] = {"pair": links.pairs}


@dataclass(frozen=True)
class MeasureTree(SilentProgram, _OfHosts):
    """A program: count the reconfiguration and the tree after it, in :data:`TREE_MEASURED`.

    Columns: ``hosts``, the hosts that computed anew, in ``rounds`` rounds; ``removed`` and
    ``created`` links, counted at both ends; look-ups for parents (``up``) and for children
    (``down``); ``notices``; the largest ``degree``; the ``roots`` in the tree computed from
    nothing; ``different``, the links that are only in one of the two trees, counted at both ends.
    :data:`PARENT_OF` has the parents of the hosts.
    """

    def change(self, bucket: int, tables: Tables) -> None:
        if self.is_empty(bucket):
            return
        # 1. the links that hosts know, and the links of the tree computed from nothing
        done = Reconfigured.take(tables, self.hosts)
        links, found = done.links, tables.pop(_FROM_NOTHING)
        host, neighbour, up = (found[name] for name in (AT, "neighbour", "up"))
        if len(done.changing):
            tables[LINKS] = {"pair": links.pairs}
        right = HostLinks.of(host, neighbour, links.hosts)
        live, (removed, created) = self.hosts.live_in(bucket), done.changed()
        roots = np.setdiff1d(live, host[up], assume_unique=True)
        lookups, is_up = done.lookups["lookups"], done.lookups["up"].astype(bool)
        # 2. counts
        measured = {
            "hosts": len(distinct(done.computed["host"])),
            "rounds": done.computed["round"].max(initial=-1) + 1,
            "removed": len(removed),
            "created": len(created),
            "up": lookups[is_up].sum(),
            "down": lookups[~is_up].sum(),
            "notices": done.computed["notices"].sum(),
            "degree": np.unique(links.host, return_counts=True)[1].max(initial=0),
            "roots": len(roots),
            "different": len(np.setxor1d(links.pairs, right.pairs, assume_unique=True)),
        }
        tables[TREE_MEASURED] = {n: np.array([one], dtype=np.int64) for n, one in measured.items()}
        tables[PARENT_OF] = {"host": host[up], "parent": neighbour[up]}


# --- a round


@dataclass(frozen=True)
class LiveTree:
    """A world's reference tree: children of a key, and the assignment of keys."""

    children: int = 2
    assignment: str = PASTRY

    def hosts(self, player: RoundPlayer) -> LiveHosts:
        """Return the live hosts of the tree."""
        return LiveHosts.of(player.environment, ReferenceTree(128, self.children), self.assignment)


def find_live_tree(tree: LiveTree, player: RoundPlayer) -> None:
    """Compute the tree of the live nodes from scratch, unless the buckets have it."""
    if not player.has(KEYSETS):
        hosts = tree.hosts(player)
        player.play(Together((AssignKeys(hosts), FindParents(hosts))))
        player.play(StoreLinks(hosts))


def live_tree_measures(tree: LiveTree, player: RoundPlayer) -> dict[str, float]:
    """Reconfigure the tree after the events of a round; return the values of measures.

    ``hosts``: hosts that computed their neighbours again.  ``links.removed``, ``links.created``:
    each link once.  ``parent_lookups``, ``child_lookups``, ``notices``, ``rounds``: of the
    reconfiguration.  ``degree.largest``, ``depth.largest``, ``depth.mean``: of the resulting tree.
    ``faults``: 1 if the result is not a tree of all live nodes, or differs from the tree computed
    from scratch, else 0.  The buckets have the tree before the events (:func:`find_live_tree`).
    """
    hosts = tree.hosts(player)
    # (FindParents computes the tree from scratch, for the comparison)
    player.play(Together((AssignKeys(hosts), FindParents(hosts))))
    most = most_supersteps(len(player.environment.facts.ring))
    for number in counted("reference_tree reconfiguration", most, "rounds"):
        if not player.has(COMPUTING):
            break
        player.play(Reconfigure(hosts, number + 1))
    player.play(MeasureTree(hosts))
    taken, alive = player.take(TREE_MEASURED, PARENT_OF), player.environment.in_round.alive
    found = {
        name: int(column.max() if name in LARGEST else column.sum())
        for name, column in taken[TREE_MEASURED].items()
    }
    # hosts without a root have depth -1
    above, parents = np.full(len(alive), NONE), taken.get(PARENT_OF)
    if parents:  # a table without rows may have no columns
        above[parents["host"]] = parents["parent"]
    depth = depths(above, circles=True)[alive]
    values = {
        "hosts": found["hosts"],
        "links.removed": found["removed"] // 2,  # both ends count it
        "links.created": found["created"] // 2,
        "parent_lookups": found["up"],
        "child_lookups": found["down"],
        "notices": found["notices"],
        "rounds": found["rounds"],
        "degree.largest": found["degree"],
        "depth.largest": depth.max(),
        "depth.mean": depth.sum() / len(depth),
        "faults": found["roots"] != 1 or depth.min() < 0 or found["different"] > 0,
    }
    return {f"reference_tree.{name}": float(value) for name, value in values.items()}
