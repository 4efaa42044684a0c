"""Hosts find their children by looking up the keys below their topmost keys.

A search stops at a key whose owner is not known here (`Rings.answers`) and continues in the bucket
of this key.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import expand
from scribe_spark.core.u128 import Numbers, maximum, minimum, where
from scribe_spark.reference_tree.rings import Rings, contains
from scribe_spark.reference_tree.searches import Asked, Branches
from scribe_spark.reference_tree.topmost import topmost_keys
from scribe_spark.reference_tree.tree import ReferenceTree


@dataclass(frozen=True)
class Found:
    """The children that searches have found, and the look-ups that they needed."""

    #: int64, shape (k,): the host that searched, its ring, and the child that it found.
    asker: np.ndarray
    ring: np.ndarray
    child: np.ndarray
    #: int64, shape (n,): the host that asked, one row for each look-up.
    lookups: np.ndarray


def branches_from(
    tree: ReferenceTree, rings: Rings, rows: np.ndarray, asker: np.ndarray
) -> Branches:
    """Return new searches for the children of the hosts in given rows of `rings`."""
    first, last = rings.first[rows], rings.last[rows]
    subtree = topmost_keys(tree, first, last).subtree
    ring = rings.ring_of(rows)
    return Branches(asker, ring, first, last, subtree, subtree.first, subtree.last)


def explore(
    tree: ReferenceTree, rings: Rings, branches: Branches, lookups: list[Asked] | None = None
) -> tuple[Found, Branches]:
    """Visit subtrees level by level, and look up the keys of their nodes.

    The second result is the searches at a key that has no known owner in `rings`.  Look-ups are
    appended to `lookups`.
    """
    children: list[tuple] = []
    counts: list[tuple] = []
    away: list[Branches] = []
    while len(branches):
        # 1. the node of each subtree; the search asks for it unless its owner is known
        node = tree.node(branches.subtree)
        own = contains(branches.own_first, branches.own_last, node)
        before, after = node < branches.unknown_first, node > branches.unknown_last
        new = ~(own | before | after)
        outside = new & ~rings.is_known(node)
        if outside.any():
            away.append(branches.take(outside))
            here = ~outside
            branches, node, own, new = branches.take(here), node[here], own[here], new[here]
            before, after = before[here], after[here]
        counts.append((branches.asker[new],))
        # 2. look the nodes up: the answer has the owner's keyset
        first, last = branches.own_first[:], branches.own_last[:]
        asked = np.flatnonzero(new)
        owner_row = rings.owner(branches.ring[asked], node[asked])
        if lookups is not None:
            lookups.append(Asked(branches.asker[asked], node[asked], rings.node[owner_row]))
        is_child = rings.topmost[owner_row] == node[asked]
        first = _put(first, asked, rings.first[owner_row])
        last = _put(last, asked, rings.last[owner_row])
        ends = asked[is_child]
        children.append(
            (branches.asker[ends], branches.ring[ends], rings.node[owner_row[is_child]])
        )
        # 3. continue in the subtrees on both sides whose keys have unknown owners
        covered = ~(before | after)
        on = np.ones(len(node), dtype=bool)
        on[ends] = False
        onward = []
        for below in (True, False):
            rest, bound = _unknown_part(tree, branches, node, first, last, covered, below)
            rest &= on & ~(before if below else after)
            rows = np.flatnonzero(rest)
            some = branches.take(rows)
            unknown = (
                (some.unknown_first, bound[rows]) if below else (bound[rows], some.unknown_last)
            )
            onward.append(_parts(tree, some, node[rows], unknown, below))
        branches = Branches.join(*onward)
        # 4. end the searches in which two known keysets contain all keys of the subtree
        between = branches.unknown_last < branches.unknown_first
        if between.any():
            branches = branches.take(~between)
    found = [_columns(children, 3), _columns(counts, 1)]
    return Found(*found[0], *found[1]), (Branches.join(*away) if away else branches)


def _unknown_part(
    tree: ReferenceTree,
    branches: Branches,
    node: Numbers,
    first: Numbers,
    last: Numbers,
    covered: np.ndarray,
    below: bool,
) -> tuple[np.ndarray, Numbers]:
    """Return whether one side of a node has keys of unknown owners, and one end of these keys.

    The end is the last such key below the node, or the first one above it.  `first` and `last` are
    the keyset of the node's owner where `covered`; elsewhere the owner was known before.
    """
    one, subtree = tree.number(1), branches.subtree
    if below:
        # (a keyset that begins after the node wraps around 0, and has all keys before the node)
        rest = (node > subtree.first) & (~covered | ((first <= node) & (first > subtree.first)))
        return rest, where(covered, first - one, branches.unknown_last)
    rest = (node < subtree.last) & (~covered | ((last >= node) & (last < subtree.last)))
    return rest, where(covered, last + one, branches.unknown_first)


def _parts(
    tree: ReferenceTree,
    branches: Branches,
    node: Numbers,
    unknown: tuple[Numbers, Numbers],
    below: bool,
) -> Branches:
    """Return the searches of the subtrees with unknown owners on one side of each node."""
    part = tree.part(branches.subtree, node, np.full(len(branches), below))
    rows = np.flatnonzero((part.last >= unknown[0]) & (part.first <= unknown[1]))
    branches, part = branches.take(rows), part[rows]
    unknown = unknown[0][rows], unknown[1][rows]
    first = part.index(maximum(part.first, unknown[0]))
    last = part.index(minimum(part.last, unknown[1]))
    repeated, index = expand(first, np.maximum(first, last + 1))
    subtree = part[repeated].subtree(index)
    own_first, own_last = branches.own_first[repeated], branches.own_last[repeated]
    onward = Branches(
        branches.asker[repeated],
        branches.ring[repeated],
        own_first,
        own_last,
        subtree,
        unknown[0][repeated],
        unknown[1][repeated],
    )
    # the asker's keyset may wrap around 0, and contain the subtree on the other side of 0
    wraps = own_last < own_first
    is_own = wraps & (
        (subtree.first >= own_first)
        | (subtree.last <= own_last)
        | (own_first - own_last == tree.number(1))
    )
    return onward.take(~is_own) if is_own.any() else onward


def _put(numbers: Numbers, rows: np.ndarray, values: Numbers) -> Numbers:
    """Return a copy with other values in given rows."""
    copied = where(np.ones(len(numbers), dtype=bool), numbers, numbers)
    copied[rows] = values
    return copied


def _columns(parts: list[tuple], count: int) -> list[np.ndarray]:
    """Concatenate pieces, column by column."""
    if not parts:
        return [np.zeros(0, dtype=np.int64)] * count
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
