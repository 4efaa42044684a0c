"""The topmost key of an interval of keys, found by one descent in the reference tree.

The topmost key is the first key of the interval in breadth-first order.  The descent starts with
the entire tree.  If an interval does not have the node of a subtree, its keys may lie in several
adjacent child subtrees.  If it has the node of none of these, then there are exactly two: the
interval contains the end of the first (from a key after its node) and the beginning of the second.
On the next level there are again at most two such subtrees to look at.  An interval that wraps
around key 0 has this form from the root on.

References
----------
Costa and Frey, Section 3.3, Definition 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.u128 import Numbers, where
from scribe_spark.reference_tree.tree import ReferenceTree, Subtrees


@dataclass(frozen=True)
class Topmost:
    """The topmost keys of intervals, and the subtrees whose nodes are these keys."""

    key: Numbers
    depth: np.ndarray
    subtree: Subtrees


def topmost_keys(tree: ReferenceTree, first: Numbers, last: Numbers) -> Topmost:
    """Return the topmost key of each interval from `first` to `last`; it may wrap around 0."""
    n = len(first)
    found = Topmost(tree.rows(0, n), np.zeros(n, dtype=np.int64), tree.entire(n))
    wraps = last < first
    rows = np.flatnonzero(~wraps)
    _in_one(tree, found, rows, first[rows], last[rows], wraps)
    rows = np.flatnonzero(wraps)
    _around_zero(tree, found, rows, first[rows], last[rows], wraps)
    return found


def _take(found: Topmost, rows: np.ndarray, key: Numbers, depth: int, subtree: Subtrees) -> None:
    found.key[rows] = key
    found.depth[rows] = depth
    found.subtree.first[rows] = subtree.first
    found.subtree.last[rows] = subtree.last
    found.subtree.kind[rows] = subtree.kind


def _around_zero(
    tree: ReferenceTree,
    found: Topmost,
    rows: np.ndarray,
    first: Numbers,
    last: Numbers,
    wraps: np.ndarray,
) -> None:
    """Find the topmost keys of intervals that wrap around 0."""
    here = tree.entire(len(rows))
    node = tree.node(here)
    inside = (first <= node) | (node <= last)
    _take(found, rows[inside], node[inside], 0, here[inside])
    on = ~inside
    _in_two(tree, found, (rows[on], first[on], last[on], here[on], here[on]), 0, wraps)


def _in_one(
    tree: ReferenceTree,
    found: Topmost,
    rows: np.ndarray,
    first: Numbers,
    last: Numbers,
    wraps: np.ndarray,
) -> None:
    """Find the topmost keys of intervals that do not wrap around 0.

    The descent follows one subtree until the interval lies in several of its child subtrees.
    """
    here, depth = tree.entire(len(rows)), 0
    one = tree.number(1)
    while len(rows):
        node = tree.node(here)
        below = last < node
        inside = (first <= node) & ~below
        _take(found, rows[inside], node[inside], depth, here[inside])
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
        left = here[many]
        right_part = part[many]
        right = right_part.subtree(right_part.index(left.last + one))
        where_, s, e = rows[many], first[many], last[many]
        nodes = tree.node(left), tree.node(right)
        of_left = nodes[0] >= s
        of_right = ~of_left & (nodes[1] <= e)
        for chosen, key, subtree in ((of_left, nodes[0], left), (of_right, nodes[1], right)):
            _take(found, where_[chosen], key[chosen], depth, subtree[chosen])
        two = ~(of_left | of_right)
        pieces = (where_[two], s[two], e[two], left[two], right[two])
        _in_two(tree, found, pieces, depth, wraps)
        rows, first, last, here = rows[~apart], first[~apart], last[~apart], here[~apart]


def _in_two(
    tree: ReferenceTree,
    found: Topmost,
    pieces: tuple[np.ndarray, Numbers, Numbers, Subtrees, Subtrees],
    depth: int,
    wraps: np.ndarray,
) -> None:
    """Find the topmost keys of intervals that end one subtree and begin the next one.

    Both subtrees have the same depth, and their nodes are not in the interval.
    """
    rows, first, last, ended, begun = pieces
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
        low_part = tree.part(begun, tree.node(begun), np.ones(n, dtype=bool))
        begun = low_part.subtree(np.zeros(n, dtype=np.int64))
        low_key = tree.node(begun)
        of_begun = low_key <= last
        # 3. if both nodes are in the interval, take the smaller key, which is in the second subtree
        #    if the interval wraps around 0
        take_low = of_begun & (~of_ended | wraps[rows])
        done = of_ended | of_begun
        key = where(take_low, low_key, high_key)
        subtree = _choose(take_low, begun, high)
        _take(found, rows[done], key[done], depth, subtree[done])
        on = ~done
        rows, first, last, ended, begun = rows[on], first[on], last[on], ended[on], begun[on]


def _choose(condition: np.ndarray, a: Subtrees, b: Subtrees) -> Subtrees:
    return Subtrees(
        where(condition, a.first, b.first),
        where(condition, a.last, b.last),
        np.where(condition, a.kind, b.kind),
    )
