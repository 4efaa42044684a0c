"""The reference tree, and the topmost keys of intervals, as arithmetic on keys.

The tree itself is never stored.  A subtree is an interval of keys.  Its node, which is the key at
the top, splits the other keys into a part below and a part above it.  Each part is divided among a
number of child subtrees.

The topmost key of an interval is its first key in breadth-first order.  One descent finds it, which
starts with the entire tree.  If an interval does not have the node of a subtree, its keys may lie
in several adjacent child subtrees.  If it has the node of none of these, then there are exactly
two: the interval contains the end of the first (from a key after its node) and the beginning of the
second.  On the next level there are again at most two such subtrees to look at.  An interval that
wraps around key 0 has this form from the root on.

Costa and Frey, Sections 3.2 and 3.3 (Definition 2), Figure 1; ``docs/reference_tree.md`` for any
number of children.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import Rows
from scribe_spark.core.errors import InputError
from scribe_spark.core.u128 import (
    Numbers,
    concatenate,
    constant,
    divide,
    number,
    times,
    to_float,
    where,
)

#: The side of a subtree on which its parent lies; the entire tree has no parent.
PARENT_ABOVE, PARENT_BELOW, ENTIRE = np.int8(0), np.int8(1), np.int8(2)

#: The range of the number of bits, and the largest number of children of a key, which keeps
#: divisors below 2**32.
BITS, MOST_CHILDREN = (4, 128), 2**20


@dataclass(frozen=True)
class Subtrees(Rows):
    """Subtrees, one in each row: their first and last keys."""

    #: shape (n,): the interval of keys.
    first: Numbers
    last: Numbers
    #: int8, shape (n,): `PARENT_ABOVE`, `PARENT_BELOW` or `ENTIRE`.
    kind: np.ndarray

    def __getitem__(self, rows: np.ndarray | slice) -> Subtrees:
        return self.take(rows)


@dataclass(frozen=True)
class Part:
    """The keys of a subtree on one side of its node, and the child subtrees that divide them."""

    #: shape (n,): the first key of the part.
    first: Numbers
    #: The last key of the part.  An empty part may have any value; its methods must not be called.
    last: Numbers
    #: int64 or None: the number of child subtrees of the part; None where there is always one.
    shares: np.ndarray | None
    #: The first `longer` child subtrees have ``share + 1`` keys, the others have `share` keys.
    share: Numbers
    longer: np.ndarray
    #: int8: the kind of the child subtrees.
    kind: np.ndarray

    def index(self, key: Numbers) -> np.ndarray:
        """Return the number from 0 of the child subtree that has each key of the part: int64."""
        if self.shares is None:
            return np.zeros(len(self.kind), dtype=np.int64)
        offset = key - self.first
        before = self._start(self.longer)  # number of keys in the longer subtrees
        in_longer = offset < before
        share = to_float(self.share)
        # the division of floats is wrong by at most one, because there are fewer than 2**20
        # subtrees; the last two lines correct it
        within = np.where(in_longer, to_float(offset), to_float(offset - before))
        size = np.maximum(np.where(in_longer, share + 1, share), 1)
        guess = np.where(in_longer, 0, self.longer) + (within / size).astype(np.int64)
        guess = guess - (self._start(guess) > offset)
        return guess + (self._start(guess + 1) <= offset)

    def subtree(self, index: np.ndarray) -> Subtrees:
        """Return the child subtree with the given number in each row."""
        if self.shares is None:
            return Subtrees(self.first, self.last, self.kind)
        first = self.first + self._start(index)
        # (sizes, because the first key of the next subtree may exceed the greatest number)
        size = self._start(index + 1) - self._start(index)
        return Subtrees(first, first + (size - number(np.ones_like(index), size)), self.kind)

    def last_index(self) -> np.ndarray:
        """Return the number of the last child subtree that is not empty."""
        if self.shares is None:
            return np.zeros(len(self.kind), dtype=np.int64)
        empty = self.share == number(np.zeros_like(self.longer), self.share)
        return np.where(empty, self.longer, self.shares) - 1

    def __getitem__(self, rows: np.ndarray) -> Part:
        shares = None if self.shares is None else self.shares[rows]
        some = (self.share[rows], self.longer[rows], self.kind[rows])
        return Part(self.first[rows], self.last[rows], shares, *some)

    def _start(self, index: np.ndarray) -> Numbers:
        """Return the number of keys of the part before the child subtree of a number."""
        longer = number(np.minimum(index, self.longer), self.share)
        return times(self.share, index) + longer


@dataclass(frozen=True)
class ReferenceTree:
    """The tree of all keys of `bits` bits; a key has at most `children` children.

    Raises
    ------
    InputError
        `bits` is not from 4 to 128, or `children` is less than 2 or more than 2**20.
    """

    bits: int = 128
    children: int = 2

    def __post_init__(self) -> None:
        if not BITS[0] <= self.bits <= BITS[1]:
            raise InputError("bits", self.bits, f"keys have from {BITS[0]} to {BITS[1]} bits")
        if not 2 <= self.children <= MOST_CHILDREN:
            remedy = f"a key has from 2 to {MOST_CHILDREN} children (node degree: one more)"
            raise InputError("children", self.children, remedy)

    def number(self, value: int) -> Numbers:
        """Return a constant in the number type of this tree's keys."""
        return constant(value, self.bits)

    @property
    def root(self) -> Numbers:
        """Return the root's key."""
        return self.number(2 ** (self.bits - 1))

    @property
    def greatest(self) -> Numbers:
        """Return the greatest key."""
        return self.number(2**self.bits - 1)

    def rows(self, value: int, count: int) -> Numbers:
        """Return the same number in each of `count` rows."""
        zeros = np.zeros(count, dtype=np.uint64)
        return number(zeros, self.root) + self.number(value)

    def entire(self, count: int) -> Subtrees:
        """Return the entire tree in each of `count` rows."""
        kind = np.full(count, ENTIRE)
        return Subtrees(self.rows(0, count), self.rows(2**self.bits - 1, count), kind)

    def node(self, subtrees: Subtrees) -> Numbers:
        """Return the key of each subtree's node."""
        width = subtrees.last - subtrees.first  # the number of keys other than the node
        away, rest = divide(width, self.children)
        away = away + number((rest != 0).astype(np.uint64), away)
        above = subtrees.kind == PARENT_ABOVE
        node = where(above, subtrees.first + away, subtrees.last - away)
        entire = subtrees.kind == ENTIRE
        return where(entire, self.rows(2 ** (self.bits - 1), len(subtrees)), node)

    def part(self, subtrees: Subtrees, node: Numbers, below: np.ndarray) -> Part:
        """Return the keys of each subtree on one side of its node, and how they are divided."""
        one = self.number(1)
        first = where(below, subtrees.first, node + one)
        last = where(below, node - one, subtrees.last)
        kind = np.where(below, PARENT_ABOVE, PARENT_BELOW)
        if self.children == 2:  # each part is one child subtree
            return Part(first, last, None, first, np.zeros(len(kind), dtype=np.int64), kind)
        c = self.children
        at_root = np.where(below, (c + 1) // 2, c // 2)
        towards_parent = below == (subtrees.kind == PARENT_BELOW)
        shares = np.where(subtrees.kind == ENTIRE, at_root, np.where(towards_parent, c - 1, 1))
        # (last - first + 1 keys: at most 2**127, the entire tree has a node)
        share, longer = divide(last - first + one, shares)
        return Part(first, last, shares, share, longer.astype(np.int64), kind)

    def paths(self, keys: Numbers) -> tuple[Numbers, np.ndarray]:
        """Return the keys on the path from the root to each key, and the key's depth.

        The path is level after level: the ancestor of row i at depth k is at index ``k * n + i``,
        and the key itself is at its own depth.  Values at greater depths have no meaning.
        """
        n = len(keys)
        depth = np.zeros(n, dtype=np.int64)
        rows, here, levels = np.arange(n), self.entire(n), []
        while len(rows):
            node = self.node(here)
            level = self.rows(0, n)
            level[rows] = node
            levels.append(level)
            key = keys[rows]
            onward = node != key
            rows, here, node, key = rows[onward], here[onward], node[onward], key[onward]
            part = self.part(here, node, key < node)
            here = part.subtree(part.index(key))
            depth[rows] += 1
        return (concatenate(levels) if levels else keys), depth


# --- topmost keys


@dataclass(frozen=True)
class Topmost:
    """The topmost keys of intervals, and the subtrees whose nodes are these keys."""

    key: Numbers
    depth: np.ndarray
    subtree: Subtrees

    def put(self, rows: np.ndarray, key: Numbers, depth: int, subtree: Subtrees) -> None:
        """Set the topmost keys of some rows."""
        self.key[rows] = key
        self.depth[rows] = depth
        self.subtree.first[rows] = subtree.first
        self.subtree.last[rows] = subtree.last
        self.subtree.kind[rows] = subtree.kind


def topmost_keys(tree: ReferenceTree, first: Numbers, last: Numbers) -> Topmost:
    """Return the topmost key of each interval of keys."""
    n, wraps = len(first), last < first
    found = Topmost(tree.rows(0, n), np.zeros(n, dtype=np.int64), tree.entire(n))
    descent = _Descent(tree, found, wraps)
    rows = np.flatnonzero(~wraps)
    descent.in_one(rows, first[rows], last[rows])
    rows = np.flatnonzero(wraps)
    root = tree.entire(len(rows))
    node = tree.node(root)
    inside = (first[rows] <= node) | (node <= last[rows])
    found.put(rows[inside], node[inside], 0, root[inside])
    rows, root = rows[~inside], root[~inside]
    descent.in_two(rows, first[rows], last[rows], root, root, 0)
    return found


@dataclass(frozen=True)
class _Descent:
    """A descent to the topmost keys; `wraps` is true for intervals that wrap around 0."""

    tree: ReferenceTree
    found: Topmost
    wraps: np.ndarray

    def in_one(self, rows: np.ndarray, first: Numbers, last: Numbers) -> None:
        """Walk down from the root to the node in an interval of keys, or to where it splits."""
        tree, here, depth = self.tree, self.tree.entire(len(rows)), 0
        one = tree.number(1)
        while len(rows):
            node = tree.node(here)
            below = last < node
            inside = (first <= node) & ~below
            self.found.put(rows[inside], node[inside], depth, here[inside])
            on = ~inside
            rows, first, last, below = rows[on], first[on], last[on], below[on]
            if not len(rows):
                return
            part = tree.part(here[on], node[on], below)
            here = part.subtree(part.index(first))
            depth += 1
            apart = last > here.last
            if not apart.any():
                continue
            # the interval is in several subtrees: does it have the node of the first one, or of the
            # second?
            many = np.flatnonzero(apart)
            left, right_part = here[many], part[many]
            right = right_part.subtree(right_part.index(left.last + one))
            apart_rows, s, e = rows[many], first[many], last[many]
            nodes = tree.node(left), tree.node(right)
            of_left = nodes[0] >= s
            of_right = ~of_left & (nodes[1] <= e)
            for chosen, key, subtree in ((of_left, nodes[0], left), (of_right, nodes[1], right)):
                self.found.put(apart_rows[chosen], key[chosen], depth, subtree[chosen])
            two = ~(of_left | of_right)
            self.in_two(apart_rows[two], s[two], e[two], left[two], right[two], depth)
            rows, first, last, here = rows[~apart], first[~apart], last[~apart], here[~apart]

    def in_two(
        self,
        rows: np.ndarray,
        first: Numbers,
        last: Numbers,
        ended: Subtrees,
        started: Subtrees,
        depth: int,
    ) -> None:
        """Follow intervals that end the subtree `ended` and start the next one, `started`."""
        tree = self.tree
        while len(rows):
            depth += 1
            n = len(rows)
            # 1. the first subtree: of the child subtrees above its node, the one that has the
            #    interval's first key, or else the next one
            above = tree.part(ended, tree.node(ended), np.zeros(n, dtype=bool))
            index = above.index(first)
            ended = above.subtree(index)
            node = tree.node(ended)
            is_first, has_next = node >= first, index < above.last_index()
            following = above.subtree(np.where(has_next, index + 1, index))
            of_ended = is_first | has_next
            high = _choose(is_first, ended, following)
            high_key = where(is_first, node, tree.node(following))
            # 2. the second subtree: of the child subtrees below its node, the first one
            low_part = tree.part(started, tree.node(started), np.ones(n, dtype=bool))
            started = low_part.subtree(np.zeros(n, dtype=np.int64))
            low_key = tree.node(started)
            of_started = low_key <= last
            # 3. if both nodes are in the interval, take the smaller key, which is in the second
            #    subtree if the interval wraps around 0
            take_low = of_started & (~of_ended | self.wraps[rows])
            done = of_ended | of_started
            key = where(take_low, low_key, high_key)
            subtree = _choose(take_low, started, high)
            self.found.put(rows[done], key[done], depth, subtree[done])
            on = ~done
            rows, first, last = rows[on], first[on], last[on]
            ended, started = ended[on], started[on]


def _choose(condition: np.ndarray, a: Subtrees, b: Subtrees) -> Subtrees:
    return Subtrees(
        where(condition, a.first, b.first),
        where(condition, a.last, b.last),
        np.where(condition, a.kind, b.kind),
    )
