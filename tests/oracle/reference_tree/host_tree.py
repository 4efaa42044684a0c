"""The tree of hosts, computed from nothing (Definition 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .dht import Dht
from .tree import reference_tree

Neighbours = dict[int, frozenset[int]]


@dataclass(frozen=True)
class HostTree:
    """Each host's place.

    Attributes
    ----------
    topmost : dict of host to key
    depth : dict of host to int
        The depth of its topmost key.
    parent : dict of host to host or None
    """

    topmost: dict[int, int]
    depth: dict[int, int]
    parent: dict[int, int | None]

    def children(self, host: int) -> frozenset[int]:
        """The hosts whose parent ``host`` is."""
        return frozenset(child for child, parent in self.parent.items() if parent == host)

    def neighbours(self) -> Neighbours:
        """The parent and the children of each host."""
        sets: dict[int, set[int]] = {host: set() for host in self.parent}
        for child, parent in self.parent.items():
            if parent is not None:
                sets[child].add(parent)
                sets[parent].add(child)
        return {host: frozenset(neighbours) for host, neighbours in sets.items()}


def tree_from_nothing(dht: Dht) -> HostTree:
    """Compute all topmost keys, then of each the closest ancestor that is one, too."""
    host_of = {key: host for host, key in dht.topmost.items()}
    parent = {}
    for host, key in dht.topmost.items():
        above = (host_of[one] for one in dht.reference.ancestors(key) if one in host_of)
        parent[host] = next(above, None)
    depth = {host: dht.reference.depth(key) for host, key in dht.topmost.items()}
    return HostTree(dict(dht.topmost), depth, parent)


def parents_of_hosts(
    hosts: Iterable[int], bits: int, children: int, assignment: str
) -> dict[int, int | None]:
    """Each host's parent in the tree computed from nothing; None at the root."""
    return tree_from_nothing(Dht(reference_tree(bits, children), hosts, assignment)).parent
