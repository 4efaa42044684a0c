"""Everything by the definitions, with all keys in memory: for small key spaces."""

from __future__ import annotations

import functools
from dataclasses import dataclass

__all__ = ["Tree", "place_of_hosts"]


@dataclass(frozen=True)
class Tree:
    """The tree of all keys of `bits` bits: by key its parent, depth, interval, children."""

    bits: int
    parent: dict[int, int | None]
    depth: dict[int, int]
    interval: dict[int, tuple[int, int]]
    children: dict[int, list[int]]

    @classmethod
    @functools.cache
    def of(cls, bits: int, children: int) -> Tree:
        tree = cls(bits, {}, {}, {}, {})
        tree._grow(0, 2**bits - 1, None, 0, children)
        return tree

    def _grow(self, first: int, last: int, parent: int | None, depth: int, c: int) -> int:
        away = -(-(last - first) // c)
        if parent is None:
            node, shares = 2 ** (self.bits - 1), (-(-c // 2), c // 2)
        elif parent > last:
            node, shares = first + away, (1, c - 1)
        else:
            node, shares = last - away, (c - 1, 1)
        self.parent[node], self.depth[node], self.interval[node] = parent, depth, (first, last)
        parts = [
            *_shared(first, node - first, shares[0]),
            *_shared(node + 1, last - node, shares[1]),
        ]
        self.children[node] = [self._grow(f, last, node, depth + 1, c) for f, last in parts]
        return node


def _shared(first: int, keys: int, shares: int) -> list[tuple[int, int]]:
    found = []
    for share in range(shares):
        size = keys // shares + (share < keys % shares)
        if size:
            found.append((first, first + size - 1))
        first += size
    return found


def owners(bits: int, ids: list[int], assignment: str) -> dict[int, int]:
    """The owner of each key."""
    size = 2**bits

    def order(key: int):
        if assignment == "chord":
            return lambda host: (host - key) % size
        return lambda host: (min((host - key) % size, (key - host) % size), host)

    return {key: min(ids, key=order(key)) for key in range(size)}


@dataclass(frozen=True)
class Place:
    """What a host finds; hosts are their ids, the root has no parent."""

    topmost: int
    parent: int | None
    parent_lookups: int
    children: frozenset[int]
    child_lookups: int


def place_of_hosts(tree: Tree, ids: list[int], assignment: str) -> dict[int, Place]:
    """The place of every host."""
    owner = owners(tree.bits, ids, assignment)
    keysets = {host: {key for key in owner if owner[key] == host} for host in ids}
    topmost = {h: min(keys, key=lambda k: (tree.depth[k], k)) for h, keys in keysets.items()}
    places = {}
    for host in ids:
        key, known, lookups = tree.parent[topmost[host]], {host}, 0
        while key is not None and topmost[owner[key]] != key:
            lookups += owner[key] not in known
            known.add(owner[key])
            key = tree.parent[key]
        parent = None if key is None else owner[key]
        lookups += parent is not None and parent not in known
        found, asked = set(), 0
        front: list[tuple[int, tuple[int, ...]]]
        front = [(child, (host,)) for child in tree.children[topmost[host]]]
        while front:
            deeper = []
            for node, path in front:
                first, last = tree.interval[node]
                if any(keysets[one].issuperset(range(first, last + 1)) for one in path):
                    continue
                there = owner[node]
                if there not in path:
                    asked += 1
                    if topmost[there] == node:
                        found.add(there)
                        continue
                deeper += [(child, (*path, there)) for child in tree.children[node]]
            front = deeper
        places[host] = Place(topmost[host], parent, lookups, frozenset(found), asked)
    return places
