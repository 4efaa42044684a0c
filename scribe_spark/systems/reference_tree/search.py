"""Searches: hosts find their parents and children by look-ups of keys in the hash table.

A host climbs from its topmost key: it asks who owns the ancestors, until a key is the topmost key
of its owner, the parent.  It explores the tree below its topmost key, level by level, for children.

Costa and Frey, Section 3.4; ``docs/reference_tree.md`` (look-ups).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import NONE, Rows, distinct, expand, find_sorted, whole_numbers
from scribe_spark.core.u128 import Numbers, maximum, minimum, where
from scribe_spark.systems.reference_tree.hash_table import HashTable, contains
from scribe_spark.systems.reference_tree.tree import ReferenceTree, Subtrees, topmost_keys

#: The number of searches that are played together; their columns fit into the processor's cache.
_AT_ONCE = 2**13


@dataclass(frozen=True)
class LookUps(Rows):
    """Look-ups: the host that asked, the key, and the owner of the key."""

    asker: np.ndarray
    key: Numbers
    owner: np.ndarray


# --- parents


def climb(
    table: HashTable, rows: np.ndarray, asked: list[LookUps] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the parents of the hosts in some rows (`NONE`: the root), and numbers of look-ups.

    Hosts look up the owners of ancestors, until a key is the topmost key of its owner.
    """
    if len(rows) > _AT_ONCE:
        parts = [climb(table, rows[i : i + _AT_ONCE], asked) for i in range(0, len(rows), _AT_ONCE)]
        parents, counts = zip(*parts, strict=True)
        return np.concatenate(parents), np.concatenate(counts)
    n, asker, ring = len(rows), table.node[rows], table.ring_of(rows)
    topmost, _ = table.topmost(rows)
    paths, depth = table.tree.paths(topmost)
    level, lookups = depth - 1, np.zeros(n, dtype=np.int64)
    # The owner of the last ancestor looked up that is greater than the topmost key, and of the last
    # that is smaller.  If the keyset of an earlier answer has the next ancestor, its owner is one
    # of these two, and no look-up is needed.
    parent, above, below = (np.full(n, NONE) for _ in range(3))
    some = np.flatnonzero(level >= 0)
    while len(some):
        key = paths[level[some] * n + some]
        row = table.owner(ring[some], key)
        owner = table.node[row]
        is_new = (owner != above[some]) & (owner != below[some])
        lookups[some] += is_new
        if asked is not None:
            asked.append(LookUps(asker[some[is_new]], key[is_new], owner[is_new]))
        is_above = key > topmost[some]
        above[some[is_above]], below[some[~is_above]] = owner[is_above], owner[~is_above]
        found = table.topmost(row)[0] == key
        parent[some[found]] = owner[found]
        some = some[~found]
        level[some] -= 1
    return parent, lookups


def with_ancestors(table: HashTable, hosts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hosts (ascending), with all their ancestors, and the parent of each, like `climb`."""
    host, (parent, _) = hosts, climb(table, table.find(hosts))
    new = distinct(parent)
    while len(new := new[(new >= 0) & (find_sorted(host, new) < 0)]):
        above, _ = climb(table, table.find(new))
        host, parent = np.r_[host, new], np.r_[parent, above]
        order = np.argsort(host, kind="stable")
        host, parent, new = host[order], parent[order], distinct(above)
    return host, parent


# --- children


@dataclass(frozen=True)
class _Branches(Rows):
    """Searches for children, one row for each subtree that has to be visited."""

    #: int64, shape (n,): the index of the host that searches, and its ring.
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


def explore(
    table: HashTable, rows: np.ndarray, asked: list[LookUps] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the children of the hosts in some rows: visit subtrees level by level, look nodes up.

    The result has pairs of an index in `rows` and a child, and the number of each host's look-ups.
    """
    if len(rows) > _AT_ONCE:
        starts = range(0, len(rows), _AT_ONCE)
        parts = [explore(table, rows[i : i + _AT_ONCE], asked) for i in starts]
        askers = np.concatenate([i + part[0] for i, part in zip(starts, parts, strict=True)])
        children, counts = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        return askers, children, counts
    tree, n = table.tree, len(rows)
    first, last = table.first[rows], table.last[rows]
    subtree = topmost_keys(tree, first, last).subtree
    branches = _Branches(
        *(np.arange(n), table.ring_of(rows), first, last, subtree, subtree.first, subtree.last)
    )
    asker, child, counted = ([whole_numbers()] for _ in range(3))
    while len(branches):
        # 1. the node of each subtree; the search asks for it unless its owner is known
        node = tree.node(branches.subtree)
        own = contains(branches.own_first, branches.own_last, node)
        before, after = node < branches.unknown_first, node > branches.unknown_last
        new = np.flatnonzero(~(own | before | after))
        counted.append(branches.asker[new])
        # 2. look the nodes up: the answer has the owner's keyset
        owner = table.owner(branches.ring[new], node[new])
        if asked is not None:
            asking = table.node[rows[branches.asker[new]]]
            asked.append(LookUps(asking, node[new], table.node[owner]))
        is_child = table.topmost(owner)[0] == node[new]
        first = _put(branches.own_first, new, table.first[owner])
        last = _put(branches.own_last, new, table.last[owner])
        ends = new[is_child]
        asker.append(branches.asker[ends])
        child.append(table.node[owner[is_child]])
        # 3. continue in the subtrees on both sides whose keys have unknown owners
        covered = ~(before | after)
        on = np.ones(len(node), dtype=bool)
        on[ends] = False
        onward = []
        for below in (True, False):
            rest, bound = _unknown_part(tree, branches, node, first, last, covered, below)
            rest &= on & ~(before if below else after)
            some = np.flatnonzero(rest)
            part, bound = branches.take(some), bound[some]
            ends_of = (part.unknown_first, bound) if below else (bound, part.unknown_last)
            onward.append(_parts(tree, part, node[some], ends_of, below))
        branches = _Branches.join(*onward)
        # 4. end the searches in which two known keysets contain all keys of the subtree
        between = branches.unknown_last < branches.unknown_first
        if between.any():
            branches = branches.take(~between)
    lookups = np.bincount(np.concatenate(counted), minlength=n)
    return np.concatenate(asker), np.concatenate(child), lookups


def _unknown_part(
    tree: ReferenceTree,
    branches: _Branches,
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
    branches: _Branches,
    node: Numbers,
    unknown: tuple[Numbers, Numbers],
    below: bool,
) -> _Branches:
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
    onward = _Branches(
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
