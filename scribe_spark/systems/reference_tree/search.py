"""Searches: hosts find their parents and children by look-ups of keys in the hash table.

A host climbs from its topmost key: it asks who owns the ancestors, until a key is the topmost key
of its owner, the parent.  It explores the tree below its topmost key, level by level, for
children.  A search stays in a bucket while it looks up keys of this bucket; then a message, with
all data that it needs, takes it to the bucket of its next key.  Results come to the bucket of the
host that searches.

Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scribe_spark.core.arrays import NONE, Rows, expand, whole_numbers
from scribe_spark.core.u128 import Numbers, maximum, minimum, where
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.packing import concatenate, take
from scribe_spark.engine.program import AT, in_bucket
from scribe_spark.systems.reference_tree.hash_table import Dht, Rings, contains, packed, unpacked
from scribe_spark.systems.reference_tree.tree import ReferenceTree, Subtrees, topmost_keys

#: Kinds of messages: searches for parents, searches for children, and their results (``at,
#: neighbour, up, lookups``).
PARENTS, CHILDREN, RESULT = "search for parents", "search for children", "result of a search"

#: The number of searches that are played together; their columns fit into the processor's cache.
_AT_ONCE = 2**13


@dataclass(frozen=True)
class LookUps(Rows):
    """Look-ups: the host that asked, the key, and the owner of the key."""

    asker: np.ndarray
    key: Numbers
    owner: np.ndarray


def _results(
    host: np.ndarray, neighbour: np.ndarray, lookups: np.ndarray, *, up: bool
) -> dict[str, np.ndarray]:
    """Return results of searches: a host, its new neighbour or `NONE`, the number of look-ups."""
    is_up = np.full(len(host), up)
    return {"host": host, "neighbour": neighbour, "up": is_up, "lookups": lookups}


# --- parents


@dataclass(frozen=True)
class Climbs(Rows):
    """Searches for parents, which climb from a topmost key towards the root."""

    #: int64, shape (n,): the host that searches, and its ring.
    asker: np.ndarray
    ring: np.ndarray
    #: The topmost key of this host.
    topmost: Numbers
    #: int64: the depth of the next ancestor to look up; -1 for the search of the root, which has
    #: none.
    level: np.ndarray
    #: int64: the owner of the last looked-up ancestor that is greater than the topmost key, and of
    #: the last that is smaller; `NONE` before there is one.  If the keyset of an earlier answer has
    #: the next ancestor, its owner is one of these two, and no look-up is needed.
    above: np.ndarray
    below: np.ndarray
    lookups: np.ndarray

    def next_key(self, tree: ReferenceTree) -> Numbers:
        """Return the next key that each search looks up."""
        paths, _ = tree.paths(self.topmost)
        return paths[self.level * len(self) + np.arange(len(self))]


def climbs_from(tree: ReferenceTree, rings: Rings, rows: np.ndarray) -> Climbs:
    """Return new searches for the parents of the hosts in some rows of `rings`."""
    nobody, level = np.full(len(rows), NONE, dtype=np.int64), rings.depth[rows] - 1
    asker, ring, topmost = rings.node[rows], rings.ring_of(rows), rings.topmost[rows]
    return Climbs(asker, ring, topmost, level, nobody, nobody, np.zeros_like(nobody))


def climb(
    tree: ReferenceTree, rings: Rings, searches: Climbs, asked: list[LookUps] | None = None
) -> tuple[Columns, Climbs]:
    """Look up the owners of ancestors, until a key is the topmost key of its owner.

    The first result has the searches that have ended (see :func:`_results`), the second the others.
    """
    n = len(searches)
    paths, _ = tree.paths(searches.topmost)
    level, above, below, lookups = (
        column.copy()
        for column in (searches.level, searches.above, searches.below, searches.lookups)
    )
    parent = np.full(n, NONE, dtype=np.int64)
    away = np.zeros(n, dtype=bool)
    rows = np.flatnonzero(level >= 0)
    while len(rows):
        key = paths[level[rows] * n + rows]
        known_here = rings.is_known(key)
        away[rows[~known_here]] = True
        rows, key = rows[known_here], key[known_here]
        owner_row = rings.owner(searches.ring[rows], key)
        owner = rings.node[owner_row]
        is_new = (owner != above[rows]) & (owner != below[rows])
        lookups[rows] += is_new
        if asked is not None:
            asked.append(LookUps(searches.asker[rows[is_new]], key[is_new], owner[is_new]))
        is_above = key > searches.topmost[rows]
        above[rows[is_above]], below[rows[~is_above]] = owner[is_above], owner[~is_above]
        found = rings.topmost[owner_row] == key
        parent[rows[found]] = owner[found]
        rows = rows[~found]
        level[rows] -= 1
    after = Climbs(searches.asker, searches.ring, searches.topmost, level, above, below, lookups)
    return take(_results(searches.asker, parent, lookups, up=True), ~away), after.take(away)


# --- children


@dataclass(frozen=True)
class Branches(Rows):
    """Searches for children, one row for each subtree that has to be visited."""

    #: int64, shape (n,): the host that searches, and its ring.
    asker: np.ndarray
    ring: np.ndarray
    #: The keyset of this host.
    own_first: Numbers
    own_last: Numbers
    subtree: Subtrees
    #: The interval of the subtree's keys whose owners are not known.  The keys before and after it
    #: are in the keysets of ancestors of the subtree that were looked up before.  If the interval
    #: is empty, `unknown_first` is ``unknown_last + 1``.
    unknown_first: Numbers
    unknown_last: Numbers

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Self:
        """Return the searches of a message."""
        every: dict[str, Any] = {**columns, "subtree": Subtrees.from_columns(columns)}
        return super().from_columns(every)

    def next_key(self, tree: ReferenceTree) -> Numbers:
        """Return the next key that each search looks up."""
        return tree.node(self.subtree)


def branches_from(tree: ReferenceTree, rings: Rings, rows: np.ndarray) -> Branches:
    """Return new searches for the children of the hosts in some rows of `rings`."""
    first, last = rings.first[rows], rings.last[rows]
    subtree = topmost_keys(tree, first, last).subtree
    asker, ring = rings.node[rows], rings.ring_of(rows)
    return Branches(asker, ring, first, last, subtree, subtree.first, subtree.last)


def explore(
    tree: ReferenceTree, rings: Rings, branches: Branches, lookups: list[LookUps] | None = None
) -> tuple[Columns, Branches]:
    """Visit subtrees level by level, and look up the keys of their nodes; results as `climb`'s."""
    nobody = whole_numbers()
    asker, child, counted = [nobody], [nobody], [nobody]
    away = [branches.take(slice(0))]
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
        counted.append(branches.asker[new])
        # 2. look the nodes up: the answer has the owner's keyset
        first, last = branches.own_first[:], branches.own_last[:]
        asked = np.flatnonzero(new)
        owner_row = rings.owner(branches.ring[asked], node[asked])
        if lookups is not None:
            lookups.append(LookUps(branches.asker[asked], node[asked], rings.node[owner_row]))
        is_child = rings.topmost[owner_row] == node[asked]
        first = _put(first, asked, rings.first[owner_row])
        last = _put(last, asked, rings.last[owner_row])
        ends = asked[is_child]
        asker.append(branches.asker[ends])
        child.append(rings.node[owner_row[is_child]])
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
    hosts, count = np.unique(np.concatenate(counted), return_counts=True)
    none = [np.zeros(sum(map(len, child)), dtype=np.int64), np.full(len(hosts), NONE)]
    columns = [*asker, hosts], [*child, none[1]], [none[0], count]
    return _results(*map(np.concatenate, columns), up=False), Branches.join(*away)


def _unknown_part(
    tree: ReferenceTree,
    branches: Branches,
    node: Numbers,
    first: Numbers,
    last: Numbers,
    covered: np.ndarray,
    below: bool,
) -> tuple[np.ndarray, Numbers]:
    """Return whether one side of a node has keys of unknown owners, and one end of these keys."""
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
    """Return the searches that go on below a node, in the subtrees whose owners are unknown."""
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
    """Return a copy of `numbers` with `values` in some rows."""
    copied = where(np.ones(len(numbers), dtype=bool), numbers, numbers)
    copied[rows] = values
    return copied


# --- searches in buckets

#: Kind of messages -> the searches, and the functions that start and continue them.
_SEARCHES: dict[str, tuple[Any, Any, Any]] = {
    PARENTS: (Climbs, climbs_from, climb),
    CHILDREN: (Branches, branches_from, explore),
}


def look_up(
    dht: Dht,
    bucket: int,
    tables: Tables,
    inbox: Inbox,
    hosts: np.ndarray,
    *,
    kinds: tuple[str, ...] = (PARENTS, CHILDREN),
    asked: Mapping[str, list[LookUps]] | None = None,
) -> tuple[Columns, Outbox]:
    """Start the searches of hosts of a bucket, and continue those that came to the bucket."""
    found = [_results(hosts[:0], hosts[:0], hosts[:0], up=False)]
    sent: dict[str, Columns] = {}
    if RESULT in inbox:
        columns = dict(inbox[RESULT])
        found.append({"host": columns.pop(AT), **columns})
    if len(hosts) or any(kind in inbox for kind in kinds):
        tree, rings = dht.tree, dht.keysets(bucket, tables)
        for kind in kinds:
            searches, start, play = _SEARCHES[kind]
            to_play = [start(tree, rings, rows) for rows in _pieces(rings, hosts)]
            if kind in inbox:
                to_play.append(searches.from_columns(unpacked(inbox[kind], tree.bits)))
            done = [play(tree, rings, some, (asked or {}).get(kind)) for some in to_play]
            found += [ended for ended, _ in done]
            away = [some for _, some in done if len(some)]
            if away:
                rest = searches.join(*away)
                sent[kind] = {AT: dht.at(rest.next_key(tree)), **packed(rest.to_columns())}
    results = concatenate(found)
    is_own = in_bucket(dht.bounds, bucket, results["host"])
    others = take(results, ~is_own)
    sent[RESULT] = {AT: others.pop("host"), **others}
    return take(results, is_own), sent


def _pieces(rings: Rings, hosts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows of `hosts` in pieces so small that their searches fit into the CPU's cache."""
    for start in range(0, len(hosts), _AT_ONCE):
        yield rings.find(hosts[start : start + _AT_ONCE])
