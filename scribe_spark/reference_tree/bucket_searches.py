"""The work of a bucket of the ring in a superstep: it answers searches that look up its keys.

A search stays in a bucket while it looks up keys of this bucket; then it is sent as a message to
the bucket of its next key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from scribe_spark.core.arrays import NONE
from scribe_spark.core.u128 import Numbers, halves_of
from scribe_spark.engine import Columns, Inbox
from scribe_spark.engine.program import AT
from scribe_spark.reference_tree.climb import climb, climbs_from
from scribe_spark.reference_tree.explore import branches_from, explore
from scribe_spark.reference_tree.hash_table import HashTable
from scribe_spark.reference_tree.packing import from_columns, to_columns
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.searches import Asked, Branches, Climbs
from scribe_spark.reference_tree.tree import ReferenceTree

#: Tables of results: the hosts' places in the tree; results of searches that ended in another
#: bucket than their host's; look-ups.
PLACE, ANSWER, LOOKUP = "place", "answer", "look-up"

#: Kinds of messages: searches for parents, and searches for children.
PARENTS, CHILDREN = "search for parents", "search for children"

#: The name of a table or the kind of messages, and the columns.
Found = tuple[str, Columns]

#: The purpose of a look-up.
PARENT, CHILDREN_OF = "parent", "children"

#: The number of searches that are played together; their columns fit into the processor's cache.
_AT_ONCE = 2**13


class CutRing(Protocol):
    """A ring of keys that is cut into buckets; each bucket answers look-ups of its keys."""

    @property
    def tree(self) -> ReferenceTree: ...

    def at(self, key: Numbers) -> np.ndarray:
        """Return the position on the ring to which a search for each key is sent: int64."""
        ...


def first_answers(hosts: HashTable, rings: Rings, own: np.ndarray, named: bool) -> Iterator[Found]:
    """Yield the places of a bucket's hosts, and messages with searches that continue elsewhere.

    `own` has the hosts' positions; `rings` has all hosts that own keys of the bucket.  If `named`,
    look-ups are among the results.
    """
    for rows in in_pieces(rings.rows_of(own)):
        yield from _places(hosts, rings, rows, named)


def _topmost(rings: Rings, rows: np.ndarray) -> dict[str, np.ndarray]:
    hi, lo = (half[rows].view(np.int64) for half in halves_of(rings.topmost))
    return {
        "node": rings.node[rows],
        "topmost_hi": hi,
        "topmost_lo": lo,
        "depth": rings.depth[rows],
    }


def _places(hosts: HashTable, rings: Rings, rows: np.ndarray, named: bool) -> Iterator[Found]:
    """Yield places, as far as the searches get in this bucket, and the searches that continue."""
    tree, n = hosts.tree, len(rows)
    asker, node = np.arange(n), rings.node[rows]
    up, down = _asked(named), _asked(named)
    parents, climbing = climb(tree, rings, climbs_from(rings, rows, asker), up)
    found, exploring = explore(tree, rings, branches_from(tree, rings, rows, asker), down)
    parent, lookups = np.full(n, NONE), np.zeros(n, dtype=np.int64)
    parent[parents.asker], lookups[parents.asker] = parents.parent, parents.lookups
    ended = np.ones(n, dtype=bool)
    ended[climbing.asker] = ended[exploring.asker] = False
    counts = {
        "parent": parent,
        "parent_lookups": lookups,
        "child_lookups": np.bincount(found.lookups, minlength=n),
        "ended": ended,
    }
    yield PLACE, _topmost(rings, rows) | counts
    for asked, purpose in ((up, PARENT), (down, CHILDREN_OF)):
        yield from _lookups(asked, purpose, node)
    climbing = replace(climbing, asker=node[climbing.asker])
    exploring = replace(exploring, asker=node[exploring.asker])
    yield from onward(hosts, climbing, exploring)


def answer_searches(
    hosts: HashTable, rings: Rings, climbs: Climbs | None, branches: Branches | None, named: bool
) -> Iterator[Found]:
    """Yield results of the searches that came to a bucket, and the searches that continue."""
    tree, climbing, exploring = hosts.tree, None, None
    up, down = _asked(named), _asked(named)
    if climbs is not None:
        parents, climbing = climb(tree, rings, climbs, up)
        none = np.zeros(len(parents.asker), dtype=np.int64)
        yield ANSWER, _answer(parents.asker, parents.parent, parents.lookups, none)
    if branches is not None:
        found, exploring = explore(tree, rings, branches, down)
        node, asked = np.unique(found.lookups, return_counts=True)
        none = np.zeros(len(node), dtype=np.int64)
        yield ANSWER, _answer(node, none + NONE, none, asked)
    for asked_keys, purpose in ((up, PARENT), (down, CHILDREN_OF)):
        yield from _lookups(asked_keys, purpose)
    yield from onward(hosts, climbing, exploring)


def _answer(node: np.ndarray, parent: np.ndarray, up: np.ndarray, down: np.ndarray) -> Columns:
    return {"node": node, "parent": parent, "parent_lookups": up, "child_lookups": down}


def _asked(named: bool) -> list[Asked] | None:
    return [] if named else None


def _lookups(
    asked: list[Asked] | None, purpose: str, node: np.ndarray | None = None
) -> Iterator[Found]:
    """Yield rows of look-ups.

    If `node` is given, the asking hosts are indices into it.
    """
    if asked:
        each = Asked.join(*asked)
        hi, lo = (half.view(np.int64) for half in halves_of(each.key))
        yield (
            LOOKUP,
            {
                "node": each.asker if node is None else node[each.asker],
                "key_hi": hi,
                "key_lo": lo,
                "owner": each.owner,
                "purpose": np.full(len(each.owner), purpose),
            },
        )


def onward(
    cut: CutRing, climbing: Climbs | None, exploring: Branches | None
) -> Iterator[tuple[str, Columns]]:
    """Yield messages, and their kinds, with the searches that continue in other buckets."""
    if climbing is not None and len(climbing):
        paths, _ = cut.tree.paths(climbing.topmost)
        n = len(climbing)
        key = paths[climbing.level * n + np.arange(n)]
        yield PARENTS, {AT: cut.at(key), **to_columns(climbing)}
    if exploring is not None and len(exploring):
        key = cut.tree.node(exploring.subtree)
        yield CHILDREN, {AT: cut.at(key), **to_columns(exploring)}


def arrived(inbox: Inbox, bits: int) -> tuple[Climbs | None, Branches | None]:
    """Return the searches for parents and for children that have come to a bucket."""
    climbs = from_columns(Climbs, inbox[PARENTS], bits) if PARENTS in inbox else None
    branches = from_columns(Branches, inbox[CHILDREN], bits) if CHILDREN in inbox else None
    return climbs, branches


def in_pieces(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows in pieces so small that the columns of the searches fit into the cache."""
    for start in range(0, len(rows), _AT_ONCE):
        yield rows[start : start + _AT_ONCE]
