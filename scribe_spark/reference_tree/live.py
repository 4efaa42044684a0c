"""The reference tree over the live nodes of a world: programs on the buckets of a round.

Hosts are known by their positions on the ring.  The keysets of the live nodes follow from facts:
nodeIds, and who is alive.  What a node knows of its neighbours is its bucket's, and so is the
answer to who owns a key between the bucket's nodes.

References
----------
Costa and Frey, Section 3; ``docs/reference_tree.md`` (in worlds).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, distinct
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.reference_tree.bucket_searches import arrived, in_pieces, onward
from scribe_spark.reference_tree.climb import climb, climbs_from
from scribe_spark.reference_tree.hash_table import HashTable
from scribe_spark.reference_tree.links import Links
from scribe_spark.reference_tree.packing import keysets_of_columns, to_keysets
from scribe_spark.reference_tree.reconfiguration import (
    LINKS,
    NOTICE,
    Reconfigure,
    Reconfigured,
    first_to_compute,
    in_bucket,
)
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Climbs
from scribe_spark.reference_tree.tree import ReferenceTree

#: The table of a bucket's keysets: its live hosts', and those that have its first and last keys.
KEYSETS = "reference tree keysets"

#: Tables of what a bucket leaves to be added up, and the columns of the first one that are no sums:
#: see `MeasureTree`.
TREE_MEASURED = "reference tree measured"
FRAGMENTS, CROSSINGS = "reference tree fragments", "reference tree crossings"
LARGEST = ("rounds", "degree")

#: Tables of the tree computed from nothing, one for each superstep: of links a host (``at``), its
#: ``neighbour``, and whether that is its parent (``up``); messages of links found elsewhere, too.
_FROM_NOTHING = "reference tree from nothing"
_LINK = "link"


@dataclass(frozen=True)
class LiveHosts(HashTable):
    """The live nodes of a world as hosts of a hash table; see `reconfiguration.Dht`.

    Attributes
    ----------
    given : Given
        Of a round.
    """

    given: Given

    @classmethod
    def of(cls, given: Given, tree: ReferenceTree, assignment: str) -> LiveHosts:
        """Return the live nodes of a round."""
        return cls(given.facts, given.bounds, tree, assignment, given)

    def is_here(self, host: np.ndarray) -> np.ndarray:
        """See `Dht`."""
        return self.given.in_round.alive[host]

    def live(self, bucket: int) -> np.ndarray:
        """Return the live hosts of a bucket, ascending."""
        first, last = self.bounds[bucket : bucket + 2]
        return first + np.flatnonzero(self.given.in_round.alive[first:last])

    def settled(self, bucket: int) -> Rings:
        """Return the keysets of the hosts that own keys of a bucket, which has nodes."""
        return self.rings(bucket, self.given.in_round.live())

    def keysets(self, bucket: int, tables: Tables) -> Rings:
        """See `Dht`."""
        return keysets_of_columns(tables[KEYSETS], self.range(bucket), self.tree.bits)


@dataclass(frozen=True)
class _OfHosts:
    """A program on the buckets of live hosts."""

    hosts: LiveHosts

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.hosts.bounds

    def is_empty(self, bucket: int) -> bool:
        """Return whether a bucket has no nodes, not even dead ones: nobody sends to it."""
        return self.bounds[bucket] == self.bounds[bucket + 1]


@dataclass(frozen=True)
class Settle(_OfHosts):
    """The hash table after the events of a round, and round 0 of the reconfiguration.

    Without keysets of a round before nobody computes: nothing is known of a tree.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not superstep:
            if self.is_empty(bucket):
                return {}
            before = self.hosts.keysets(bucket, tables) if KEYSETS in tables else None
            now = self.hosts.settled(bucket)
            tables[KEYSETS] = to_keysets(now)
            if before is None:
                return {}
            links = Links(tables[LINKS]["pair"], int(self.bounds[-1]))
            first = first_to_compute(before, now, links, self.hosts.is_here)
            first = first[in_bucket(self.bounds, bucket, first)]
            if not len(first):
                return {}
            inbox = {NOTICE: {AT: first}}
        return Reconfigure(self.hosts, 0).step(bucket, tables, inbox, superstep)


@dataclass(frozen=True)
class FindParents(_OfHosts):
    """The tree computed from nothing: all live hosts look up their parents in settled keysets."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if self.is_empty(bucket):
            return {}
        rings, nobody = self.hosts.keysets(bucket, tables), np.zeros(0, dtype=np.int64)
        found, away = [(nobody, nobody)], list[Climbs]()
        for climbs in self._climbs(bucket, rings, inbox, superstep):
            parents, climbing = climb(self.hosts.tree, rings, climbs)
            some = parents.parent != NONE
            found.append((parents.asker[some], parents.parent[some]))
            away.append(climbing)
        links = _both_ends(*[np.concatenate(ends) for ends in zip(*found, strict=True)])
        mine = in_bucket(self.bounds, bucket, links[AT])
        came = [inbox[_LINK]] if _LINK in inbox else []
        tables[f"{_FROM_NOTHING} {superstep}"] = concatenate([take(links, mine), *came])
        onwards = onward(self.hosts, Climbs.join(*away) if away else None, None)
        return {_LINK: take(links, ~mine), **dict(onwards)}

    def _climbs(self, bucket: int, rings: Rings, inbox: Inbox, superstep: int) -> list[Climbs]:
        if not superstep:
            host = self.hosts.live(bucket)
            pieces = in_pieces(rings.rows_of(host))
            return [climbs_from(rings, rows, rings.node[rows]) for rows in pieces]
        climbs, _ = arrived(inbox, self.hosts.tree.bits)
        return [] if climbs is None else [climbs]


def _both_ends(child: np.ndarray, parent: np.ndarray) -> dict[str, np.ndarray]:
    """Return links as each end of them knows them."""
    up = np.repeat([True, False], len(child))
    return {AT: np.r_[child, parent], "neighbour": np.r_[parent, child], "up": up}


def _from_nothing(tables: Tables) -> tuple[np.ndarray, ...]:
    """Return the links that were found from nothing, and take them off the tables.

    Hosts, their neighbours, and whether these are their parents.
    """
    names = [name for name in tables if name.startswith(f"{_FROM_NOTHING} ")]
    nobody = np.zeros(0, dtype=np.int64)
    empty = _both_ends(nobody, nobody)
    found = concatenate([empty, *[tables.pop(name) for name in names]])
    return tuple(found[name] for name in (AT, "neighbour", "up"))


@dataclass(frozen=True)
class KeepLinks(_OfHosts):
    """Hosts know their neighbours in the tree that was computed from nothing."""

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if not self.is_empty(bucket):
            host, neighbour, _ = _from_nothing(tables)
            links = Links.of(host, neighbour, int(self.bounds[-1]))
            tables[LINKS] = {"pair": links.pairs}
        return {}


@dataclass(frozen=True)
class MeasureTree(_OfHosts):
    """Counts of the reconfiguration and of the tree afterwards: the table :data:`TREE_MEASURED`.

    ``hosts`` that computed in the ``rounds``, ``removed`` and ``created`` links at each of their
    ends, look-ups ``up`` and ``down``, ``notices``; the largest ``degree``; ``live`` hosts, and
    those that are ``roots`` in the tree computed from nothing; links ``different`` in that tree,
    at each end.

    What hangs together in a bucket is a *fragment* of the tree computed from nothing: the table
    :data:`FRAGMENTS` has the ``top`` of each, its ``hosts``, and how far they are below the top,
    together (``depth``) and at the most (``deepest``); :data:`CROSSINGS` has the tops of fragments
    in other buckets that are ``below``, and how far (``depth``) from the own ``top``.  There are
    about as many as a tree has levels at each end of a bucket.  See :func:`depths_of_fragments`.
    """

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if self.is_empty(bucket):
            return {}
        # 1. what hosts know now, and in the tree computed from nothing
        done = Reconfigured.take(tables, self.hosts)
        links, (host, neighbour, up) = done.links, _from_nothing(tables)
        if len(done.changing):
            tables[LINKS] = {"pair": links.pairs}
        right = Links.of(host, neighbour, links.hosts)
        live, (removed, created) = self.hosts.live(bucket), done.changed()
        roots = np.setdiff1d(live, host[up], assume_unique=True)
        # 2. counts
        measured = {
            "hosts": len(distinct(done.computed["host"])),
            "rounds": done.computed["round"].max(initial=-1) + 1,
            "removed": len(removed),
            "created": len(created),
            "up": done.lookups["up"].sum(),
            "down": done.lookups["down"].sum(),
            "notices": done.computed["notices"].sum(),
            "degree": np.unique(links.host, return_counts=True)[1].max(initial=0),
            "live": len(live),
            "roots": len(roots),
            "different": len(np.setxor1d(links.pairs, right.pairs, assume_unique=True)),
        }
        tables[TREE_MEASURED] = {n: np.array([one], dtype=np.int64) for n, one in measured.items()}
        # 3. fragments
        hanging = host[up & ~in_bucket(self.bounds, bucket, neighbour)]
        children = Links.of(host[~up], neighbour[~up], links.hosts)
        self._descend(bucket, tables, children, np.concatenate([roots, hanging]))
        return {}

    def _descend(self, bucket: int, tables: Tables, children: Links, top: np.ndarray) -> None:
        """Go down from the tops of a bucket's fragments."""
        hosts, total, deepest = np.zeros((3, len(top)), dtype=np.int64)
        host, fragment, depth, below = top, np.arange(len(top)), 0, []
        while len(host):
            count = np.bincount(fragment, minlength=len(top))
            hosts, total = hosts + count, total + depth * count
            deepest[count > 0] = depth
            which, child = children.around(host)
            fragment, depth = fragment[which], depth + 1
            mine = in_bucket(self.bounds, bucket, child)
            away = {"top": top[fragment[~mine]], "below": child[~mine]}
            below.append({**away, "depth": np.full(len(away["top"]), depth)})
            host, fragment = child[mine], fragment[mine]
        if len(top):
            tables[FRAGMENTS] = {"top": top, "hosts": hosts, "depth": total, "deepest": deepest}
            tables[CROSSINGS] = concatenate(below)


def depths_of_fragments(fragments: Columns, crossings: Columns) -> tuple[int, int, int]:
    """Add up what `MeasureTree` tells of the fragments of all buckets.

    Returns
    -------
    tuple of int
        How many hosts are a root or below one, their depths together, and the largest depth.
    """
    below: dict[int, list[tuple[int, int]]] = {}
    for top, other, depth in _rows(crossings, "top", "below", "depth"):
        below.setdefault(top, []).append((other, depth))
    fragment = {top: of for top, *of in _rows(fragments, "top", "hosts", "depth", "deepest")}
    hanging = {other for tops in below.values() for other, _ in tops}
    reached = [(top, 0) for top in fragment if top not in hanging]
    hosts, together, largest = 0, 0, NONE
    for top, above in reached:  # which grows
        count, depth, deepest = fragment[top]
        hosts, together = hosts + count, together + depth + above * count
        largest = max(largest, above + deepest)
        reached += [(other, above + depth) for other, depth in below.get(top, [])]
    return hosts, together, largest


def _rows(columns: Columns, *names: str) -> Iterator[tuple[int, ...]]:
    """Yield the rows of a table, which may have no columns where it has no rows."""
    if len(columns):
        yield from zip(*(columns[name].tolist() for name in names), strict=True)
