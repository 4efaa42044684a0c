"""Where hosts are in the reference tree, by the definitions of docs/reference_tree.md, plainly.

For a few hosts: keysets, topmost keys and parents one by one, with Python's whole numbers.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

#: First key, number of keys, and whether the parent is above them.
Interval = tuple[int, int, bool]


def share(first: int, keys: int, subtrees: int, parent_above: bool) -> Iterator[Interval]:
    """Consecutive intervals, the first ones a key longer."""
    for number in range(subtrees):
        size = keys // subtrees + (number < keys % subtrees)
        if size:
            yield first, size, parent_above
        first += size


def split(interval: Interval | None, bits: int, c: int) -> tuple[int, list[Interval]]:
    """The key of a subtree's node (None: of the whole tree), and its subtrees."""
    if interval is None:
        root = 2 ** (bits - 1)
        upper = share(root + 1, root - 1, c // 2, False)
        return root, [*share(0, root, -(-c // 2), True), *upper]
    first, keys, parent_above = interval
    away = -(-(keys - 1) // c)
    between = keys - 1 - away
    if parent_above:
        node = first + away
        inner = share(node + 1, between, c - 1, False)
        return node, [*share(first, away, 1, True), *inner]
    node = first + between
    return node, [*share(first, between, c - 1, True), *share(node + 1, away, 1, False)]


class Hosts:
    """Some hosts' ids, and whose key is whose."""

    def __init__(self, ids: list[int], bits: int, c: int, assignment: str) -> None:
        self.bits, self.c, self.keys = bits, c, 2**bits
        self.ids = sorted(ids)
        count = len(ids)
        if assignment == "chord":
            self.last = list(self.ids)
        else:  # the last key that is nearer to an id, or as near, than to the next one
            after = [*self.ids[1:], self.ids[0] + self.keys]
            self.last = [
                (a + (b - a) // 2 - ((b - a) % 2 == 0 and b % self.keys < a)) % self.keys
                for a, b in zip(self.ids, after, strict=True)
            ]
            if count == 1:
                self.last = [(self.ids[0] + self.keys // 2) % self.keys]
        self._tops = {i: self._topmost(i) for i in range(count)}

    def owner(self, key: int) -> int:
        """The place of the host that has a key, in order of ids."""
        if len(self.ids) == 1:
            return 0
        # the last keys are in the order of ids, but for a wrap
        order = sorted(range(len(self.ids)), key=self.last.__getitem__)
        ends = [self.last[i] for i in order]
        return order[bisect.bisect_left(ends, key) % len(ends)]

    def parts(self, host: int) -> list[tuple[int, int]]:
        """First and last keys of a host's keyset: two where it wraps."""
        if len(self.ids) == 1:
            return [(0, self.keys - 1)]
        first, last = (self.last[host - 1] + 1) % self.keys, self.last[host]
        return [(first, last)] if first <= last else [(0, last), (first, self.keys - 1)]

    def _topmost(self, host: int) -> int:
        level: list[Interval | None] = [None]
        parts = self.parts(host)
        while True:
            nodes, below = [], []
            for interval in level:
                node, subtrees = split(interval, self.bits, self.c)
                nodes.append(node)
                below += [
                    s for s in subtrees if any(s[0] <= b and a < s[0] + s[1] for a, b in parts)
                ]
            mine = [key for key in nodes if any(a <= key <= b for a, b in parts)]
            if mine:
                return min(mine)
            level = list(below)

    def ancestors(self, key: int) -> list[int]:
        """The keys above a key, the root last."""
        found: list[int] = []
        interval: Interval | None = None
        while True:
            node, subtrees = split(interval, self.bits, self.c)
            if node == key:
                return found[::-1]
            found.append(node)
            (interval,) = [s for s in subtrees if s[0] <= key < s[0] + s[1]]

    def parents(self) -> dict[int, int | None]:
        """Id -> the parent's id; None at the root."""
        found: dict[int, int | None] = {}
        for host, ident in enumerate(self.ids):
            above = self.ancestors(self._tops[host])
            tops = [key for key in above if self._tops[self.owner(key)] == key]
            found[ident] = self.ids[self.owner(tops[0])] if tops else None
        return found


def parents(ids: list[int], bits: int = 128, c: int = 2, assignment: str = "pastry"):
    """Id -> the parent's id; None at the root."""
    return Hosts(ids, bits, c, assignment).parents()
