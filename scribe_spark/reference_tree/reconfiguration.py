"""Reconfiguration by rounds, on many rings at once: hosts compute anew and send notices.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.reference_tree.climb import climb
from scribe_spark.reference_tree.explore import explore
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Climbs, Parents, first_branches
from scribe_spark.reference_tree.topmost import topmost_keys
from scribe_spark.reference_tree.tree import ReferenceTree

__all__ = [
    "Links",
    "Neighbours",
    "Rounds",
    "all_parents",
    "first_to_compute",
    "neighbours",
    "reconfigure",
]


@dataclass(frozen=True)
class Links:
    """Pairs of a host and a neighbour that it knows.

    Attributes
    ----------
    pairs : ndarray of int64, shape (n,), ascending
        ``host * hosts + neighbour``.
    hosts : int
        Hosts are numbered below this, over all rings.
    """

    pairs: np.ndarray
    hosts: int

    @classmethod
    def of(cls, host: np.ndarray, neighbour: np.ndarray, hosts: int) -> Links:
        """Links that are given in any order, each once."""
        return cls(np.sort(host * hosts + neighbour), hosts)

    @classmethod
    def of_parents(cls, parent: np.ndarray) -> Links:
        """The links of trees, given the parent of each host (`NONE`: none)."""
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

    def of_hosts(self, some: np.ndarray) -> np.ndarray:
        """Whether each pair is the knowledge of some hosts: ndarray of bool."""
        chosen = np.zeros(self.hosts, dtype=bool)
        chosen[some] = True
        return chosen[self.host]

    def around(self, some: np.ndarray) -> np.ndarray:
        """The neighbours of some hosts, ascending."""
        return np.unique(self.neighbour[self.of_hosts(some)])


@dataclass(frozen=True)
class Neighbours:
    """The neighbours that hosts have found, and the look-ups that it took.

    Attributes
    ----------
    links : Links
    parent : ndarray of int64, shape (n,)
        The parent of each host that asked; `NONE` at the root.
    lookups : ndarray of int64, shape (n, 2)
        Look-ups: for the parent, and for children.
    """

    links: Links
    parent: np.ndarray
    lookups: np.ndarray


def neighbours(tree: ReferenceTree, rings: Rings, some: np.ndarray, hosts: int) -> Neighbours:
    """The parents and the children of some hosts, found by asking the hash table.

    Parameters
    ----------
    some : ndarray of int64, shape (n,)
        Different hosts, by number.
    hosts : int
        Numbers of hosts are below this.
    """
    n, place = len(some), _places(rings, hosts)[some]
    asker, ring = np.arange(n), rings.ring[place]
    up = _parents(tree, rings, place)
    first, last = rings.first[place], rings.last[place]
    subtree = topmost_keys(tree, first, last).subtree
    down, _ = explore(tree, rings, first_branches(asker, ring, first, last, subtree))
    has_parent = up.parent != NONE
    host = np.concatenate([some[up.asker[has_parent]], some[down.asker]])
    other = np.concatenate([up.parent[has_parent], down.child])
    lookups = np.stack([up.lookups, np.bincount(down.lookups, minlength=n)], axis=1)
    return Neighbours(Links.of(host, other, hosts), up.parent, lookups)


def all_parents(tree: ReferenceTree, rings: Rings, hosts: int) -> np.ndarray:
    """The parent of every host: int64, shape (hosts,); `NONE` at roots and where nobody is."""
    parent = np.full(hosts, NONE)
    parent[rings.node] = _parents(tree, rings, np.arange(len(rings))).parent
    return parent


def _places(rings: Rings, hosts: int) -> np.ndarray:
    """Return the row of each host in the hash table, `NONE` for a host that is not in it."""
    place = np.full(hosts, NONE)
    place[rings.node] = np.arange(len(rings))
    return place


def _parents(tree: ReferenceTree, rings: Rings, place: np.ndarray) -> Parents:
    """The parents of the hosts at some places of the hash table, in that order."""
    asker, ring = np.arange(len(place)), rings.ring[place]
    depth = rings.depth[place]
    found, _ = climb(tree, rings, Climbs.of(asker, ring, rings.topmost[place], depth))
    return found


@dataclass(frozen=True)
class Rounds:
    """A reconfiguration, by ring.

    Attributes
    ----------
    links : Links
        All links afterwards.
    rounds, computations, notices : ndarray of int64, shape (R,)
        Rounds in which hosts computed anew, how often they did together, and notices sent.
    computed : ndarray of bool, shape (hosts,)
        The hosts that computed anew.
    lookups : ndarray of int64, shape (R, 2)
        As of `Neighbours`.
    """

    links: Links
    rounds: np.ndarray
    computations: np.ndarray
    notices: np.ndarray
    computed: np.ndarray
    lookups: np.ndarray


def first_to_compute(
    before: Rings, after: Rings, links: Links, joined: np.ndarray, gone: np.ndarray
) -> np.ndarray:
    """Return the hosts that compute anew in round 0: int64, ascending.

    The hosts that joined, the neighbours of those that are gone, and those whose topmost key is
    another one than before.

    Parameters
    ----------
    before, after : Rings
        The hash table.
    links : Links
        The links before the events.
    joined, gone : ndarray of int64
        Numbers of hosts.
    """
    was, now = _places(before, links.hosts), _places(after, links.hosts)
    both = np.flatnonzero((was != NONE) & (now != NONE))
    changed = both[before.topmost[was[both]] != after.topmost[now[both]]]
    first = np.unique(np.concatenate([joined, links.around(gone), changed]))
    return first[now[first] != NONE]


def reconfigure(
    tree: ReferenceTree, rings: Rings, links: Links, first: np.ndarray, ring_of: np.ndarray
) -> Rounds:
    """Rounds until no notice is sent.

    Parameters
    ----------
    rings : Rings
        The hash table after the event.
    links : Links
        The links before it.
    first : ndarray of int64
        The hosts that compute anew in round 0: see :func:`first_to_compute`.
    ring_of : ndarray of int64, shape (hosts,)
        The ring of each host number.
    """
    hosts, count = links.hosts, len(rings.starts) - 1
    here = np.zeros(hosts, dtype=bool)
    here[rings.node] = True
    links = Links(links.pairs[here[links.host]], hosts)
    rounds, notices, computations = np.zeros((3, count), dtype=np.int64)
    lookups = np.zeros((count, 2), dtype=np.int64)
    computed = np.zeros(hosts, dtype=bool)
    computing = np.unique(first)
    while len(computing):
        at = ring_of[computing]
        rounds[np.unique(at)] += 1
        computations += np.bincount(at, minlength=count)
        computed[computing] = True
        found = neighbours(tree, rings, computing, hosts)
        np.add.at(lookups, at, found.lookups)
        own = links.of_hosts(computing)
        different = np.setxor1d(links.pairs[own], found.links.pairs, assume_unique=True)
        told = different % hosts
        told = told[here[told]]
        notices += np.bincount(ring_of[told], minlength=count)
        links = Links(np.sort(np.concatenate([links.pairs[~own], found.links.pairs])), hosts)
        computing = np.unique(told)
    return Rounds(links, rounds, computations, notices, computed, lookups)
