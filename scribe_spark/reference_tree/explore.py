"""Hosts find their children by asking who owns the keys below their topmost keys.

A search stops at a key whose owner is not known here (`Rings.answers`) and goes on elsewhere.

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
    """The children that searches have found, and the look-ups that it took.

    Attributes
    ----------
    asker, ring, child : ndarray of int64, shape (k,)
        Children, one a row.
    lookups : ndarray of int64, shape (n,)
        Who asked, one row for each look-up.
    """

    asker: np.ndarray
    ring: np.ndarray
    child: np.ndarray
    lookups: np.ndarray


def branches_from(
    tree: ReferenceTree, rings: Rings, rows: np.ndarray, asker: np.ndarray
) -> Branches:
    """Return searches that begin, for the children of the hosts in some rows.

    Parameters
    ----------
    asker : ndarray of int64
        What the searches call them.
    """
    first, last = rings.first[rows], rings.last[rows]
    subtree = topmost_keys(tree, first, last).subtree
    return Branches.of(asker, rings.ring_of(rows), first, last, subtree)


def explore(
    tree: ReferenceTree, rings: Rings, branches: Branches, told: list[Asked] | None = None
) -> tuple[Found, Branches]:
    """Visit subtrees level by level, and ask for the keys of their nodes.

    Parameters
    ----------
    told : list of Asked, optional
        What is asked is added to it.

    Returns
    -------
    Found
    Branches
        Those at a key whose owner is not known here.
    """
    children: list[tuple] = []
    counts: list[tuple] = []
    away: list[Branches] = []
    while len(branches):
        # 1. the node of each subtree, and who owns it
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
        # 2. the keys around it that its owner has, too
        first, last = branches.own_first[:], branches.own_last[:]
        asked = np.flatnonzero(new)
        place = rings.owner(branches.ring[asked], node[asked])
        if told is not None:
            told.append(Asked(branches.asker[asked], node[asked], rings.node[place]))
        is_child = rings.topmost[place] == node[asked]
        first = _put(first, asked, rings.first[place])
        last = _put(last, asked, rings.last[place])
        ends = asked[is_child]
        children.append((branches.asker[ends], branches.ring[ends], rings.node[place[is_child]]))
        # 3. the parts on both sides that have keys of others
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
        # 4. between two keysets that are known there is nobody to be found
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
    """Return whether one side of a node has unknown keys, and the last or first of them.

    `first` and `last` are the keyset of the node's owner, which counts where `covered`: else the
    node lies among keys that were known before.
    """
    one, subtree = tree.number(1), branches.subtree
    if below:
        # (where the owner's keys begin after the node, they wrap: it has all keys before the node)
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
    """The subtrees on one side of each node that do not lie in one known keyset."""
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
    # a keyset that wraps around 0 is known on the other side of 0, too
    wraps = own_last < own_first
    is_own = wraps & (
        (subtree.first >= own_first)
        | (subtree.last <= own_last)
        | (own_first - own_last == tree.number(1))
    )
    return onward.take(~is_own) if is_own.any() else onward


def _put(numbers: Numbers, rows: np.ndarray, values: Numbers) -> Numbers:
    """A copy with other values in some rows."""
    copied = where(np.ones(len(numbers), dtype=bool), numbers, numbers)
    copied[rows] = values
    return copied


def _columns(parts: list[tuple], count: int) -> list[np.ndarray]:
    """Columns of several pieces, put together."""
    if not parts:
        return [np.zeros(0, dtype=np.int64)] * count
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
