"""How hosts find their parents and their children: by asking who owns keys of the reference tree.

Both searches stop at a key whose owner is not known here (`Rings.answers`) and go on elsewhere, so
what they need besides the hash table is all in their rows.

References
----------
Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from scribe_spark.reference_tree.between import lookups_between
from scribe_spark.reference_tree.rings import Rings, contains
from scribe_spark.reference_tree.tree import ReferenceTree, Subtrees
from scribe_spark.reference_tree.wide import Numbers, concatenate, maximum, minimum, where

__all__ = ["Branches", "Climbs", "Found", "Parents", "climb", "explore", "first_branches"]

#: No host.
NOBODY = -1

_Rows = TypeVar("_Rows", bound="_Columns")


class _Columns:
    """Rows of searches, as a dataclass of columns."""

    def __getitem__(self: _Rows, rows: Any) -> _Rows:
        columns = [getattr(self, field.name)[rows] for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(*columns)

    @classmethod
    def join(cls: type[_Rows], parts: list[_Rows]) -> _Rows:
        """Rows after one another; at least one part."""
        columns = []
        for field in fields(cls):  # type: ignore[arg-type]
            cells = [getattr(part, field.name) for part in parts]
            columns.append(_join(cells))
        return cls(*columns)


def _join(cells: list[Any]) -> Any:
    if isinstance(cells[0], Subtrees):
        first, last = (concatenate([getattr(c, n) for c in cells]) for n in ("first", "last"))
        return Subtrees(first, last, np.concatenate([c.kind for c in cells]))
    return concatenate(cells)


@dataclass(frozen=True)
class Climbs(_Columns):
    """Searches for parents, on their way from a topmost key to the root.

    Attributes
    ----------
    asker, ring : ndarray of int64, shape (n,)
        Who asks, and on which ring.
    topmost : Numbers
        Its topmost key.
    level : ndarray of int64
        The depth of the ancestor that is next; -1 for the root's search.
    above, below : ndarray of int64
        The owners last found of ancestors above and below the topmost key; `NOBODY` at first.  A
        key in any keyset that was named before is in one of these two.
    lookups : ndarray of int64
    """

    asker: np.ndarray
    ring: np.ndarray
    topmost: Numbers
    level: np.ndarray
    above: np.ndarray
    below: np.ndarray
    lookups: np.ndarray

    @classmethod
    def of(cls, asker: np.ndarray, ring: np.ndarray, topmost: Numbers, depth: np.ndarray) -> Climbs:
        """Searches that begin."""
        nobody = np.full(len(asker), NOBODY, dtype=np.int64)
        return cls(asker, ring, topmost, depth - 1, nobody, nobody, np.zeros_like(nobody))

    def __len__(self) -> int:
        return len(self.asker)


@dataclass(frozen=True)
class Parents(_Columns):
    """Parents that were found; `parent` is `NOBODY` for the root.

    All are ndarray of int64, shape (n,).
    """

    asker: np.ndarray
    ring: np.ndarray
    parent: np.ndarray
    lookups: np.ndarray


def climb(tree: ReferenceTree, rings: Rings, searches: Climbs) -> tuple[Parents, Climbs]:
    """Ask for ancestors until a key is its owner's topmost key.

    Returns
    -------
    Parents
        Of the searches that have ended.
    Climbs
        Those that are at a key whose owner is not known here.
    """
    n = len(searches)
    paths, _ = tree.paths(searches.topmost)
    level, above, below, lookups = (
        column.copy()
        for column in (searches.level, searches.above, searches.below, searches.lookups)
    )
    parent = np.full(n, NOBODY, dtype=np.int64)
    away = np.zeros(n, dtype=bool)
    rows = np.flatnonzero(level >= 0)
    while len(rows):
        key = paths[level[rows] * n + rows]
        known_here = rings.is_known(key)
        away[rows[~known_here]] = True
        rows, key = rows[known_here], key[known_here]
        place = rings.owner(searches.ring[rows], key)
        owner = rings.node[place]
        lookups[rows] += (owner != above[rows]) & (owner != below[rows])
        is_above = key > searches.topmost[rows]
        above[rows[is_above]], below[rows[~is_above]] = owner[is_above], owner[~is_above]
        found = rings.topmost[place] == key
        parent[rows[found]] = owner[found]
        rows = rows[~found]
        level[rows] -= 1
    ended = ~away
    after = Climbs(searches.asker, searches.ring, searches.topmost, level, above, below, lookups)
    return Parents(searches.asker, searches.ring, parent, lookups)[ended], after[away]


@dataclass(frozen=True)
class Branches(_Columns):
    """Searches for children, each at a subtree that has to be visited.

    Attributes
    ----------
    asker, ring : ndarray of int64, shape (n,)
    own_first, own_last : Numbers
        The keyset of who asks.
    subtree : Subtrees
    unknown_first, unknown_last : Numbers
        The keys of the subtree before and after these lie in keysets that are known from the
        subtree's ancestors: those of the nearest ancestors on both sides.  Where the first is one
        more than the last, both together have all keys of the subtree.
    """

    asker: np.ndarray
    ring: np.ndarray
    own_first: Numbers
    own_last: Numbers
    subtree: Subtrees
    unknown_first: Numbers
    unknown_last: Numbers

    def __len__(self) -> int:
        return len(self.asker)


@dataclass(frozen=True)
class Found:
    """What searches for children have found.

    Attributes
    ----------
    asker, ring, child : ndarray of int64, shape (k,)
        Children, one a row.
    counted : ndarray of int64, shape (n,)
        Who asked, perhaps in several rows.
    asked, again : ndarray of int64, shape (n,)
        How often it asked for the key of a subtree's node, and how often that key was in a keyset
        that it knew from the node's ancestors.
    """

    asker: np.ndarray
    ring: np.ndarray
    child: np.ndarray
    counted: np.ndarray
    asked: np.ndarray
    again: np.ndarray

    def totals(self, askers: int) -> tuple[np.ndarray, np.ndarray]:
        """`asked` and `again` by asker, where these are numbered from 0: int64, shape (askers,)."""
        return tuple(  # type: ignore[return-value]
            np.bincount(self.counted, which, askers).astype(np.int64)
            for which in (self.asked, self.again)
        )


def first_branches(
    asker: np.ndarray, ring: np.ndarray, first: Numbers, last: Numbers, subtree: Subtrees
) -> Branches:
    """Searches that begin: each at the subtree of a topmost key, with the host's keyset."""
    return Branches(asker, ring, first, last, subtree, subtree.first, subtree.last)


def explore(tree: ReferenceTree, rings: Rings, branches: Branches) -> tuple[Found, Branches]:
    """Visit subtrees level by level, and ask for the keys of their nodes.

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
            away.append(branches[outside])
            here = ~outside
            branches, node, own, new = branches[here], node[here], own[here], new[here]
            before, after = before[here], after[here]
        again = (before | after) & ~own
        counts.append((branches.asker, (~own).astype(np.int64), again.astype(np.int64)))
        # 2. the keys around it that its owner has, too
        first, last = branches.own_first[:], branches.own_last[:]
        asked = np.flatnonzero(new)
        place = rings.owner(branches.ring[asked], node[asked])
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
            some = branches[rows]
            unknown = (
                (some.unknown_first, bound[rows]) if below else (bound[rows], some.unknown_last)
            )
            onward.append(_parts(tree, some, node[rows], unknown, below))
        branches = Branches.join(onward)
        # 4. between two keysets that are known there is nobody to be found
        between = branches.unknown_last < branches.unknown_first
        if between.any():
            known = branches[between]
            counts.append((known.asker, *[_between(tree, known)] * 2))
            branches = branches[~between]
    found = [_columns(children, 3), _columns(counts, 3)]
    return Found(*found[0], *found[1]), (Branches.join(away) if away else branches)


def _between(tree: ReferenceTree, branches: Branches) -> np.ndarray:
    """Look-ups in subtrees that lie in two known keysets."""
    own = [
        contains(branches.own_first, branches.own_last, key)
        for key in (branches.unknown_last, branches.unknown_first)
    ]
    return lookups_between(tree, branches.subtree, branches.unknown_last, ~own[0], ~own[1])


def _unknown_part(
    tree: ReferenceTree,
    branches: Branches,
    node: Numbers,
    first: Numbers,
    last: Numbers,
    covered: np.ndarray,
    below: bool,
) -> tuple[np.ndarray, Numbers]:
    """Whether the part on one side of a node has unknown keys, and the last or first of them.

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
    branches, part = branches[rows], part[rows]
    unknown = unknown[0][rows], unknown[1][rows]
    first = part.index(maximum(part.first, unknown[0]))
    last = part.index(minimum(part.last, unknown[1]))
    count = np.maximum(last - first + 1, 0)
    repeated = np.repeat(np.arange(len(rows)), count)
    place = np.arange(len(repeated)) - np.repeat(np.cumsum(count) - count, count)
    subtree = part[repeated].subtree(first[repeated] + place)
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
    return onward[~is_own] if is_own.any() else onward


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
