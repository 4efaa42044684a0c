"""The rounds of a reconfiguration as a program of the engine.

In a round, notified hosts compute their neighbours anew: they look up their parents and children,
by messages where a key belongs to another bucket.  When all look-ups have ended, each host compares
its new neighbours with its old ones, and sends a notice to every host that is in only one of the
two sets.  The notified hosts compute in the next round.  A bucket stores the neighbours of its own
hosts.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scribe_spark.core.arrays import NONE, distinct, index_sorted
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.program import AT, append
from scribe_spark.reference_tree.bucket_searches import CutRing, arrived, onward
from scribe_spark.reference_tree.climb import climb, climbs_from
from scribe_spark.reference_tree.explore import branches_from, explore
from scribe_spark.reference_tree.links import Links
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Branches, Climbs

#: The table with the neighbours of a bucket's hosts before the reconfiguration: ``pair``, see
#: `Links`.
LINKS = "reference tree links"

#: The table with the hosts that compute in a round: ``host``.
COMPUTING = "reference tree computing"

#: The kind of messages whose receivers compute.
NOTICE = "notice"

# Tables of the neighbours that computing hosts have found in this round (``host, neighbour``), and
# of the current links of all hosts that have computed in earlier rounds (``pair``); of the
# computations, one row for each (``host, round, notices``); of look-ups, in the bucket in which the
# search ended (``host, up, down``).
_FOUND, _NEW_LINKS = "reference tree found", "reference tree new links"
_COMPUTED, _LOOKUPS = "reference tree computed", "reference tree look-ups"

#: The kind of messages that bring a host a neighbour which was found in another bucket.
_NEIGHBOUR = "neighbour"


class Dht(CutRing, Protocol):
    """The hash table after an event, in the part that each bucket knows."""

    @property
    def bounds(self) -> np.ndarray:
        """Return the number of the first host of each bucket, and the number of all hosts."""
        ...

    def keysets(self, bucket: int, tables: Tables) -> Rings:
        """Return the keysets of the hosts that own keys of a bucket."""
        ...

    def is_here(self, host: np.ndarray) -> np.ndarray:
        """Return whether each host is present: bool."""
        ...


@dataclass(frozen=True)
class Reconfigure:
    """A program for one round: send the notices of the round before, then compute.

    In round 0 the caller sends notices to the hosts that compute first.
    """

    dht: Dht
    number: int

    @property
    def bounds(self) -> np.ndarray:
        return self.dht.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        if self.number and not superstep:
            return self._compare(tables)
        if _NEIGHBOUR in inbox:
            results = inbox[_NEIGHBOUR]
            append(tables, _FOUND, {"host": results[AT], "neighbour": results["neighbour"]})
        climbs, branches = arrived(inbox, self.dht.tree.bits)
        if NOTICE in inbox:
            climbs, branches = self._begin(bucket, tables, distinct(inbox[NOTICE][AT]))
        return self._look_up(bucket, tables, climbs, branches)

    def _begin(self, bucket: int, tables: Tables, computing: np.ndarray) -> tuple[Climbs, Branches]:
        """Return the searches for tree neighbours of the hosts that reconfigure now."""
        tables[COMPUTING] = {"host": computing}
        rings = self.dht.keysets(bucket, tables)
        rows = rings.rows_of(computing)
        climbs = climbs_from(rings, rows, computing)
        return climbs, branches_from(self.dht.tree, rings, rows, computing)

    def _look_up(
        self, bucket: int, tables: Tables, climbs: Climbs | None, branches: Branches | None
    ) -> Outbox:
        """Continue searches in the bucket; send results to the asking hosts."""
        if climbs is None and branches is None:
            return {}
        tree, rings = self.dht.tree, self.dht.keysets(bucket, tables)
        found, climbing, exploring = [], None, None
        if climbs is not None:
            parents, climbing = climb(tree, rings, climbs)
            has_parent = parents.parent != NONE
            found.append((parents.asker[has_parent], parents.parent[has_parent]))
            up, down = parents.lookups, np.zeros_like(parents.lookups)
            append(tables, _LOOKUPS, {"host": parents.asker, "up": up, "down": down})
        if branches is not None:
            children, exploring = explore(tree, rings, branches)
            found.append((children.asker, children.child))
            asker, down = np.unique(children.lookups, return_counts=True)
            append(tables, _LOOKUPS, {"host": asker, "up": np.zeros_like(down), "down": down})
        host, neighbour = (np.concatenate(column) for column in zip(*found, strict=True))
        is_own = in_bucket(self.bounds, bucket, host)
        append(tables, _FOUND, {"host": host[is_own], "neighbour": neighbour[is_own]})
        results = {AT: host[~is_own], "neighbour": neighbour[~is_own]}
        return {_NEIGHBOUR: results, **dict(onward(self.dht, climbing, exploring))}

    def _compare(self, tables: Tables) -> Outbox:
        """Return the notices of the hosts that have computed in the round before."""
        if COMPUTING not in tables:
            return {}
        hosts, computing = int(self.bounds[-1]), tables.pop(COMPUTING)["host"]
        columns = tables.pop(_FOUND, {"host": computing[:0], "neighbour": computing[:0]})
        found = Links.of(columns["host"], columns["neighbour"], hosts)
        new, before = _links(tables, _NEW_LINKS, hosts), _links(tables, LINKS, hosts)
        for_the_first_time = np.setdiff1d(computing, _computed(tables), assume_unique=True)
        own = [new.of_hosts(computing).pairs, before.of_hosts(for_the_first_time).pairs]
        different = np.setxor1d(np.concatenate(own), found.pairs, assume_unique=True)
        sender, receiver = np.divmod(different, hosts)
        here = self.dht.is_here(receiver)
        sender, receiver = sender[here], receiver[here]
        sent = np.bincount(index_sorted(computing, sender), minlength=len(computing))
        number = np.full(len(computing), self.number - 1)
        append(tables, _COMPUTED, {"host": computing, "round": number, "notices": sent})
        tables[_NEW_LINKS] = {"pair": new.with_others(computing, found).pairs}
        return {NOTICE: {AT: receiver}}


def in_bucket(bounds: np.ndarray, bucket: int, host: np.ndarray) -> np.ndarray:
    """Return whether each host belongs to a bucket: bool."""
    first, last = bounds[bucket : bucket + 2]
    return (host >= first) & (host < last)


def _links(tables: Tables, name: str, hosts: int) -> Links:
    no_host = np.zeros(0, dtype=np.int64)
    return Links(tables[name]["pair"] if name in tables else no_host, hosts)


def _computed(tables: Tables) -> np.ndarray:
    """Return the hosts that have computed in an earlier round, ascending."""
    return distinct(tables[_COMPUTED]["host"]) if _COMPUTED in tables else np.zeros(0, np.int64)


def first_to_compute(
    before: Rings, after: Rings, links: Links, is_here: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the hosts that compute anew in round 0: int64, ascending.

    These are hosts that joined, neighbours of hosts that left, and hosts with a new topmost key.
    `before` and `after` have at least the hosts with links here.
    """
    host = after.node
    there = before.have(host)
    other = np.ones(len(host), dtype=bool)
    other[there] = before.topmost[before.rows_of(host[there])] != after.topmost[there]
    left = links.host[~is_here(links.neighbour)]
    return distinct(np.concatenate([host[other], left[after.have(left)]]))


@dataclass(frozen=True)
class Reconfigured:
    """The results of a reconfiguration in a bucket."""

    #: The links of the bucket's hosts before, and the links after of the hosts that have computed.
    before: Links
    new: Links
    #: int64, ascending: the hosts that have computed, and the hosts that have left.
    changing: np.ndarray
    #: ``host, round, notices``: a row for each computation.
    computed: Columns
    #: ``host, up, down``: the number of look-ups of a host for its parent and for its children, in
    #: searches that ended in this bucket.
    lookups: Columns

    @classmethod
    def take(cls, tables: Tables, dht: Dht) -> Reconfigured:
        """Return the results, and delete their tables in the bucket, except for the old links."""
        hosts, no_host = int(dht.bounds[-1]), np.zeros(0, dtype=np.int64)
        before, new = _links(tables, LINKS, hosts), _links(tables, _NEW_LINKS, hosts)
        known = before.host
        changing = distinct(np.concatenate([known[~dht.is_here(known)], _computed(tables)]))
        computed = tables.pop(_COMPUTED, dict.fromkeys(("host", "round", "notices"), no_host))
        lookups = tables.pop(_LOOKUPS, dict.fromkeys(("host", "up", "down"), no_host))
        tables.pop(_NEW_LINKS, None)
        return cls(before, new, changing, computed, lookups)

    @property
    def links(self) -> Links:
        """Return all links after the reconfiguration."""
        return self.before.with_others(self.changing, self.new)

    def changed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of removed links, and of created ones; each end counts."""
        before = self.before.of_hosts(self.changing).pairs
        return (
            np.setdiff1d(before, self.new.pairs, assume_unique=True),
            np.setdiff1d(self.new.pairs, before, assume_unique=True),
        )
