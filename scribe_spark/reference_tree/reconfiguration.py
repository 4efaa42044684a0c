"""Reconfiguration by rounds, on many rings at once: who computes anew, and whom it tells.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (reconfiguration).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.search import NOBODY, Climbs, climb, explore, first_branches
from scribe_spark.reference_tree.topmost import topmost_keys
from scribe_spark.reference_tree.tree import ReferenceTree

__all__ = ["Links", "Neighbours", "Rounds", "neighbours", "reconfigure"]


@dataclass(frozen=True)
class Links:
    """Which hosts have which neighbours, each by its own knowledge.

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
        """Links that are given in any order."""
        return cls(np.unique(host * hosts + neighbour), hosts)

    @property
    def host(self) -> np.ndarray:
        """Who has a neighbour."""
        return self.pairs // self.hosts

    @property
    def neighbour(self) -> np.ndarray:
        """Who is one."""
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
    """What hosts have found.

    Attributes
    ----------
    links : Links
    parent : ndarray of int64, shape (n,)
        The parent of each host that asked; `NOBODY` at the root.
    lookups : ndarray of int64, shape (n, 3)
        Look-ups: for the parent, for children, and of the latter those that were repeated.
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
    n = len(some)
    place_of = np.full(hosts, NOBODY)
    place_of[rings.node] = np.arange(len(rings))
    place, asker = place_of[some], np.arange(n)
    ring, topmost = rings.ring[place], rings.topmost[place]
    up, _ = climb(tree, rings, Climbs.of(asker, ring, topmost, rings.depth[place]))
    first, last = rings.first[place], rings.last[place]
    subtree = topmost_keys(tree, first, last).subtree
    down, _ = explore(tree, rings, first_branches(asker, ring, first, last, subtree))
    has_parent = up.parent != NOBODY
    host = np.concatenate([some[up.asker[has_parent]], some[down.asker]])
    other = np.concatenate([up.parent[has_parent], down.child])
    lookups = np.stack([up.lookups, *down.totals(n)], axis=1)
    return Neighbours(Links.of(host, other, hosts), up.parent, lookups)


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
    lookups : ndarray of int64, shape (R, 3)
        As of `Neighbours`.
    """

    links: Links
    rounds: np.ndarray
    computations: np.ndarray
    notices: np.ndarray
    computed: np.ndarray
    lookups: np.ndarray


def reconfigure(
    tree: ReferenceTree, rings: Rings, links: Links, first: np.ndarray, ring_of: np.ndarray
) -> Rounds:
    """Rounds until no notice is sent.

    Parameters
    ----------
    rings : Rings
        The hash table after the event.
    links : Links
        The links before it; those that hosts that are gone had of their own are left out.
    first : ndarray of int64
        The hosts that compute anew in round 0.
    ring_of : ndarray of int64, shape (hosts,)
        The ring of each host number.
    """
    hosts, count = links.hosts, len(rings.starts) - 1
    here = np.zeros(hosts, dtype=bool)
    here[rings.node] = True
    rounds, notices, computations = np.zeros((3, count), dtype=np.int64)
    lookups = np.zeros((count, 3), dtype=np.int64)
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
        links = Links(np.union1d(links.pairs[~own], found.links.pairs), hosts)
        computing = np.unique(told)
    return Rounds(links, rounds, computations, notices, computed, lookups)
