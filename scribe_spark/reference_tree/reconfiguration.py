"""Reconfiguration by rounds as a program of the engine: hosts compute anew and send notices.

Each bucket has what its own hosts know of their neighbours.  In a round hosts look their parents
and children up, which takes messages where keys are another bucket's; when nobody looks up any
more, they compare what they have found with what they knew, and tell the hosts at the other ends
of all links that are not in both.  These compute in the next round.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scribe_spark.core.arrays import NONE, distinct
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.program import AT, append
from scribe_spark.reference_tree.bucket_searches import CutRing, arrived, onward
from scribe_spark.reference_tree.climb import climb, climbs_from
from scribe_spark.reference_tree.explore import branches_from, explore
from scribe_spark.reference_tree.links import Links
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Branches, Climbs

#: The table of what the hosts of a bucket knew of their neighbours before the reconfiguration:
#: ``pair``, as of `Links`.
LINKS = "reference tree links"

#: The table of the hosts that compute in a round: ``host``.
COMPUTING = "reference tree computing"

#: A kind of messages: their receivers compute.
NOTICE = "notice"

# What those that compute have found in a round (``host, neighbour``), and what they have known
# since (``pair``); who has computed in which round, and how many notices it has sent (``host,
# round, notices``); look-ups, in the bucket where a search has ended (``host, up, down``).
_FOUND, _NEW_LINKS = "reference tree found", "reference tree new links"
_COMPUTED, _LOOKUPS = "reference tree computed", "reference tree look-ups"

#: A kind of messages: a neighbour that was found in another bucket.
_NEIGHBOUR = "neighbour"


class Dht(CutRing, Protocol):
    """The hash table after an event, as far as each bucket knows it."""

    @property
    def bounds(self) -> np.ndarray:
        """The number of each bucket's first host, and how many numbers there are."""
        ...

    def keysets(self, bucket: int, tables: Tables) -> Rings:
        """Return the keysets of a bucket's hosts."""
        ...

    def is_here(self, host: np.ndarray) -> np.ndarray:
        """Return whether each host is there: bool."""
        ...


@dataclass(frozen=True)
class Reconfigure:
    """A round: hosts that have computed send notices, and those that get one compute.

    In round 0 notices are given from outside to the hosts that compute first.

    Attributes
    ----------
    dht : Dht
    number : int
        Of the round, from 0.
    """

    dht: Dht
    number: int

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        return self.dht.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        if self.number and not superstep:
            return self._compare(tables)
        if _NEIGHBOUR in inbox:
            came = inbox[_NEIGHBOUR]
            append(tables, _FOUND, {"host": came[AT], "neighbour": came["neighbour"]})
        climbs, branches = arrived(inbox, self.dht.tree.bits)
        if NOTICE in inbox:
            climbs, branches = self._begin(bucket, tables, distinct(inbox[NOTICE][AT]))
        return self._look_up(bucket, tables, climbs, branches)

    def _begin(self, bucket: int, tables: Tables, computing: np.ndarray) -> tuple[Climbs, Branches]:
        """Return the searches of hosts that begin to compute."""
        tables[COMPUTING] = {"host": computing}
        rings = self.dht.keysets(bucket, tables)
        rows = rings.rows_of(computing)
        climbs = climbs_from(rings, rows, computing)
        return climbs, branches_from(self.dht.tree, rings, rows, computing)

    def _look_up(
        self, bucket: int, tables: Tables, climbs: Climbs | None, branches: Branches | None
    ) -> Outbox:
        """Continue searches inside the bucket; send results to the asking hosts."""
        if climbs is None and branches is None:
            return {}
        tree, rings = self.dht.tree, self.dht.keysets(bucket, tables)
        found, climbing, exploring = [], None, None
        if climbs is not None:
            parents, climbing = climb(tree, rings, climbs)
            some = parents.parent != NONE
            found.append((parents.asker[some], parents.parent[some]))
            up, down = parents.lookups, np.zeros_like(parents.lookups)
            append(tables, _LOOKUPS, {"host": parents.asker, "up": up, "down": down})
        if branches is not None:
            children, exploring = explore(tree, rings, branches)
            found.append((children.asker, children.child))
            asker, down = np.unique(children.lookups, return_counts=True)
            append(tables, _LOOKUPS, {"host": asker, "up": np.zeros_like(down), "down": down})
        host, neighbour = (np.concatenate(column) for column in zip(*found, strict=True))
        mine = in_bucket(self.bounds, bucket, host)
        append(tables, _FOUND, {"host": host[mine], "neighbour": neighbour[mine]})
        told = {AT: host[~mine], "neighbour": neighbour[~mine]}
        return {_NEIGHBOUR: told, **dict(onward(self.dht, climbing, exploring))}

    def _compare(self, tables: Tables) -> Outbox:
        """Notices of the hosts that have computed in the round before."""
        if COMPUTING not in tables:
            return {}
        hosts, computing = int(self.bounds[-1]), tables.pop(COMPUTING)["host"]
        columns = tables.pop(_FOUND, {"host": computing[:0], "neighbour": computing[:0]})
        found = Links.of(columns["host"], columns["neighbour"], hosts)
        new, before = _links(tables, _NEW_LINKS, hosts), _links(tables, LINKS, hosts)
        for_the_first_time = np.setdiff1d(computing, _computed(tables), assume_unique=True)
        own = [new.of_hosts(computing).pairs, before.of_hosts(for_the_first_time).pairs]
        different = np.setxor1d(np.concatenate(own), found.pairs, assume_unique=True)
        sender, told = np.divmod(different, hosts)
        here = self.dht.is_here(told)
        sender, told = sender[here], told[here]
        sent = np.bincount(np.searchsorted(computing, sender), minlength=len(computing))
        number = np.full(len(computing), self.number - 1)
        append(tables, _COMPUTED, {"host": computing, "round": number, "notices": sent})
        tables[_NEW_LINKS] = {"pair": new.with_others(computing, found).pairs}
        return {NOTICE: {AT: told}}


def in_bucket(bounds: np.ndarray, bucket: int, host: np.ndarray) -> np.ndarray:
    """Return whether each host is one of a bucket: bool."""
    first, last = bounds[bucket : bucket + 2]
    return (host >= first) & (host < last)


def _links(tables: Tables, name: str, hosts: int) -> Links:
    nobody = np.zeros(0, dtype=np.int64)
    return Links(tables[name]["pair"] if name in tables else nobody, hosts)


def _computed(tables: Tables) -> np.ndarray:
    """Return the hosts that have computed in a round that is over, ascending."""
    return distinct(tables[_COMPUTED]["host"]) if _COMPUTED in tables else np.zeros(0, np.int64)


def first_to_compute(
    before: Rings, after: Rings, links: Links, is_here: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return the hosts that compute anew in round 0: int64, ascending.

    The hosts that joined, the neighbours of those that are gone, and those whose topmost key is
    another one than before.

    Parameters
    ----------
    before, after : Rings
        Keysets of hosts that know the links (of others, too), before and after the events.
    links : Links
        The links before the events.
    is_here : callable
        Whether hosts are there after the events.
    """
    host = after.node
    there = before.have(host)
    other = np.ones(len(host), dtype=bool)
    other[there] = before.topmost[before.rows_of(host[there])] != after.topmost[there]
    left = links.host[~is_here(links.neighbour)]
    return distinct(np.concatenate([host[other], left[after.have(left)]]))


@dataclass(frozen=True)
class Reconfigured:
    """The results of the rounds of a reconfiguration in a bucket.

    Attributes
    ----------
    before, new : Links
        What its hosts knew before, and what those know that have computed.
    changing : ndarray of int64, ascending
        The hosts that have computed, and those that are gone.
    computed : Columns
        ``host, round, notices``: a row each time that a host has computed.
    lookups : Columns
        ``host, up, down``: who asked how often, for its parent and for children, in keys of the
        bucket.
    """

    before: Links
    new: Links
    changing: np.ndarray
    computed: Columns
    lookups: Columns

    @classmethod
    def take(cls, tables: Tables, dht: Dht) -> Reconfigured:
        """Take it off the tables of a bucket, in which the links before are left."""
        hosts, nobody = int(dht.bounds[-1]), np.zeros(0, dtype=np.int64)
        before, new = _links(tables, LINKS, hosts), _links(tables, _NEW_LINKS, hosts)
        known = before.host
        changing = distinct(np.concatenate([known[~dht.is_here(known)], _computed(tables)]))
        computed = tables.pop(_COMPUTED, dict.fromkeys(("host", "round", "notices"), nobody))
        lookups = tables.pop(_LOOKUPS, dict.fromkeys(("host", "up", "down"), nobody))
        tables.pop(_NEW_LINKS, None)
        return cls(before, new, changing, computed, lookups)

    @property
    def links(self) -> Links:
        """All links afterwards."""
        return self.before.with_others(self.changing, self.new)

    def changed(self) -> tuple[np.ndarray, np.ndarray]:
        """The links that are no more, and those that are new: pairs, as each end knows them."""
        before = self.before.of_hosts(self.changing).pairs
        return (
            np.setdiff1d(before, self.new.pairs, assume_unique=True),
            np.setdiff1d(self.new.pairs, before, assume_unique=True),
        )
