"""The reference tree of keys (Section 3.2): by arithmetic, and for few keys written out."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Subtree:
    """A subtree: the keys from ``low`` to ``high``, and ``node``, the key that is its root.

    Attributes
    ----------
    depth : int
        Depth of ``node``; the root has 0.
    parent : int or None
        Parent key of ``node``.
    """

    node: int
    low: int
    high: int
    depth: int
    parent: int | None


class ReferenceTree:
    """The tree over the keys ``0 .. 2**bits - 1`` in which a key has at most ``children`` children.

    Subtrees are computed where they are asked for and remembered, so trees of 128 bits are as
    good as small ones.
    """

    def __init__(self, bits: int, children: int):
        self.bits, self.children = bits, children
        self.root = Subtree(1 << (bits - 1), 0, (1 << bits) - 1, 0, None)
        self._subtrees: dict[int, tuple[Subtree, ...]] = {}
        self._paths: dict[int, list[Subtree]] = {}

    def subtrees(self, tree: Subtree) -> tuple[Subtree, ...]:
        """The subtrees below the node of ``tree``, in the order of keys."""
        if tree.node not in self._subtrees:
            self._subtrees[tree.node] = tuple(self._split(tree))
        return self._subtrees[tree.node]

    def _split(self, tree: Subtree) -> Iterator[Subtree]:
        below, above = self._sides(tree)
        ranges = [*shared(tree.low, tree.node, below), *shared(tree.node + 1, tree.high + 1, above)]
        for start, stop in ranges:
            away = -(-(stop - start - 1) // self.children)  # keys on the side away from the parent
            node = start + away if stop <= tree.node else stop - 1 - away
            yield Subtree(node, start, stop - 1, tree.depth + 1, tree.node)

    def _sides(self, tree: Subtree) -> tuple[int, int]:
        """How many subtrees share the keys below, and how many those above the node."""
        if tree.parent is None:
            return (self.children + 1) // 2, self.children // 2
        one, others = 1, self.children - 1
        return (one, others) if tree.node < tree.parent else (others, one)

    def subtree(self, key: int) -> Subtree:
        """The subtree whose node is ``key``."""
        return self.path(key)[-1]

    def path(self, key: int) -> list[Subtree]:
        """The subtrees that have ``key``: from the root's to the one whose node is ``key``."""
        if key not in self._paths:
            found = [self.root]
            while found[-1].node != key:
                (inner,) = (one for one in self.subtrees(found[-1]) if one.low <= key <= one.high)
                found.append(inner)
            self._paths[key] = found
        return self._paths[key]

    def depth(self, key: int) -> int:
        """The depth of ``key``."""
        return self.subtree(key).depth

    def ancestors(self, key: int) -> list[int]:
        """The keys above ``key``, its parent first, the root last."""
        return [one.node for one in reversed(self.path(key)[:-1])]


def shared(start: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Share the keys ``start .. stop - 1`` among ``parts`` ranges; empty ones are left out.

    Consecutive, in the order of keys, equal but for one key, the first ones the larger.
    """
    size, larger = divmod(stop - start, parts)
    ranges = []
    for part in range(parts):
        end = start + size + (part < larger)
        if end > start:
            ranges.append((start, end))
        start = end
    return ranges


@functools.cache
def reference_tree(bits: int, children: int) -> ReferenceTree:
    """The same tree for the same parameters."""
    return ReferenceTree(bits, children)


@dataclass(frozen=True)
class ExplicitTree:
    """A tree written out.

    Attributes
    ----------
    order : list of keys
        All keys breadth first: by depth, then by key.
    depth : dict of key to int
    parent : dict of key to key
        Without the root.
    children : dict of key to list of keys
    """

    order: list[int]
    depth: dict[int, int]
    parent: dict[int, int]
    children: dict[int, list[int]]


@functools.cache
def explicit_tree(bits: int, children: int) -> ExplicitTree:
    """Write out the tree, level by level, on lists of keys; nothing of `ReferenceTree` is used."""
    keys = list(range(2**bits))
    root = keys[len(keys) // 2]
    depth: dict[int, int] = {root: 0}
    parent: dict[int, int] = {}
    kids: dict[int, list[int]] = {key: [] for key in keys}
    below = dealt(keys[:root], (children + 1) // 2)
    above = dealt(keys[root + 1 :], children // 2)
    level = [(root, part) for part in below + above]
    while level:
        following = []
        for top, part in level:
            # Away from the parent comes first in `outwards`.
            outwards = part if part[-1] < top else part[::-1]
            away = (len(part) - 1 + children - 1) // children
            far, node, near = outwards[:away], outwards[away], outwards[away + 1 :]
            depth[node], parent[node] = depth[top] + 1, top
            kids[top].append(node)
            parts = dealt(sorted(far), 1) + dealt(sorted(near), children - 1)
            following += [(node, inner) for inner in parts]
        level = following
    order = sorted(keys, key=lambda key: (depth[key], key))
    return ExplicitTree(order, depth, parent, {key: sorted(kids[key]) for key in keys})


def dealt(keys: list[int], parts: int) -> list[list[int]]:
    """The same as `shared`, by counting out one key after the other."""
    sizes = [0] * parts
    for number in range(len(keys)):
        sizes[number % parts] += 1
    lists, rest = [], keys
    for size in sizes:
        lists.append(rest[:size])
        rest = rest[size:]
    return [one for one in lists if one]
