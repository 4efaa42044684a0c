"""The topmost key of keysets: the first key in breadth-first order, found by one descent.

An interval that does not have the node of its subtree may lie in several neighbouring subtrees.
If none of their nodes is in it, it lies in two: it ends the first of them (from a key past its
node) and begins the second.  Level by level that stays so, and two subtrees are all that has to be
looked at.  An interval that wraps around key 0 is of this form from the root on.

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
    """Topmost keys.

    Attributes
    ----------
    key : Numbers, shape (n,)
    depth : ndarray of int64, shape (n,)
    subtree : Subtrees, shape (n,)
        The subtrees whose nodes these keys are.
    """

    key: Numbers
    depth: np.ndarray
    subtree: Subtrees


def topmost_keys(tree: ReferenceTree, first: Numbers, last: Numbers) -> Topmost:
    """The topmost key of each interval of keys, from `first` to `last`; it may wrap around 0."""
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
    """Intervals that wrap."""
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
    """Intervals that do not wrap: down to the subtree in which they part."""
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
        # in several subtrees: is the node of the first in it, that of the second?
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
    """Intervals that end one subtree and begin another of the same depth, without their nodes."""
    rows, first, last, ended, begun = pieces
    while len(rows):
        depth += 1
        n = len(rows)
        # 1. the subtree that is ended: of those above its node, the one with the first key, or the
        #    next one
        above = tree.part(ended, tree.node(ended), np.zeros(n, dtype=bool))
        index = above.index(first)
        ended = above.subtree(index)
        node = tree.node(ended)
        is_first, has_next = node >= first, index < above.last_index()
        following = above.subtree(np.where(has_next, index + 1, index))
        of_ended = is_first | has_next
        high = _choose(is_first, ended, following)
        high_key = where(is_first, node, tree.node(following))
        # 2. the subtree that is begun: of those below its node, the first one
        low_part = tree.part(begun, tree.node(begun), np.ones(n, dtype=bool))
        begun = low_part.subtree(np.zeros(n, dtype=np.int64))
        low_key = tree.node(begun)
        of_begun = low_key <= last
        # 3. of two nodes the lesser one: where the interval wraps it is that of the second subtree
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
