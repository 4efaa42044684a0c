"""A superstep of a bucket: it answers the searches that ask for its keys.

A search stays in a bucket as long as it asks for keys there, and goes on in another as a letter:
the searches that one bucket sends to another are one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.u128 import Numbers, halves_of
from scribe_spark.reference_tree.buckets import Buckets, bucket_of_key
from scribe_spark.reference_tree.climb import climb
from scribe_spark.reference_tree.explore import explore
from scribe_spark.reference_tree.packing import pack, pack_rings
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.rows import SEARCH_ROWS
from scribe_spark.reference_tree.searches import (
    NOBODY,
    Asked,
    Branches,
    Climbs,
    first_branches,
)
from scribe_spark.reference_tree.topmost import topmost_keys

__all__ = [
    "ANSWER",
    "CHILDREN",
    "KEYSETS",
    "LOOKUP",
    "PARENTS",
    "PLACE",
    "answer_letters",
    "first_answers",
]

#: Values of ``what``: a host's place, its part of a search that went on elsewhere, a look-up of it,
#: letters with searches for parents and for children, the keysets of a bucket.
PLACE, ANSWER, LOOKUP, PARENTS, CHILDREN, KEYSETS = range(6)

#: What a look-up is for.
PARENT, CHILDREN_OF = "parent", "children"

_ARROW = to_arrow_schema(SEARCH_ROWS)

#: Searches that are made at once, so that their columns stay in the processor's cache.
_AT_ONCE = 2**13


def first_answers(
    buckets: Buckets, bucket: int, hi: np.ndarray, lo: np.ndarray, node: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Places of the hosts whose id is in a bucket; letters; and its keysets.

    Parameters
    ----------
    buckets : Buckets
    bucket : int
    hi, lo : ndarray of uint64
        Ids of the hosts in the bucket.
    node : ndarray of int64
        Their numbers.
    """
    rings = buckets.rings(bucket, hi, lo, node)
    yield _rows(KEYSETS, bucket=np.array([bucket]), data=[pack_rings(rings)])
    rows = _rows_of(rings, node)
    for start in range(0, len(rows), _AT_ONCE):
        yield from _places(buckets, rings, rows[start : start + _AT_ONCE])


def _rows_of(rings: Rings, node: np.ndarray) -> np.ndarray:
    """The rows of some hosts, each once: the owner of a bucket's last key may be there twice."""
    _, once = np.unique(rings.node, return_index=True)
    return np.sort(once[np.isin(rings.node[once], node)])


def _topmost(rings: Rings, rows: np.ndarray) -> dict[str, np.ndarray]:
    hi, lo = (half[rows].view(np.int64) for half in halves_of(rings.topmost))
    return {
        "node": rings.node[rows],
        "topmost_hi": hi,
        "topmost_lo": lo,
        "depth": rings.depth[rows],
    }


def _places(buckets: Buckets, rings: Rings, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The places of some hosts of a bucket, as far as their searches go there, and letters."""
    tree, n = buckets.tree, len(rows)
    asker, ring = np.arange(n), np.zeros(n, dtype=np.int64)
    first, last, topmost = rings.first[rows], rings.last[rows], rings.topmost[rows]
    node, depth = rings.node[rows], rings.depth[rows]
    up, down = _asked(buckets), _asked(buckets)
    parents, climbing = climb(tree, rings, Climbs.of(asker, ring, topmost, depth), up)
    branches = first_branches(asker, ring, first, last, topmost_keys(tree, first, last).subtree)
    found, exploring = explore(tree, rings, branches, down)
    parent, lookups = np.full(n, NOBODY), np.zeros(n, dtype=np.int64)
    parent[parents.asker], lookups[parents.asker] = parents.parent, parents.lookups
    ended = np.ones(n, dtype=bool)
    ended[climbing.asker] = ended[exploring.asker] = False
    yield _rows(
        PLACE,
        **_topmost(rings, rows),
        parent=_or_null(parent),
        parent_lookups=lookups,
        child_lookups=np.bincount(found.lookups, minlength=n),
        ended=ended,
    )
    for asked, purpose in ((up, PARENT), (down, CHILDREN_OF)):
        yield from _lookups(asked, purpose, node)
    climbing = replace(climbing, asker=node[climbing.asker])
    exploring = replace(exploring, asker=node[exploring.asker])
    yield from _letters(buckets, climbing, exploring)


def answer_letters(
    buckets: Buckets, rings: Rings, climbs: list[Climbs], branches: list[Branches]
) -> Iterator[pa.RecordBatch]:
    """Answers to the searches in the letters to a bucket, and letters of those that go on."""
    tree, climbing, exploring = buckets.tree, None, None
    up, down = _asked(buckets), _asked(buckets)
    if climbs:
        parents, climbing = climb(tree, rings, Climbs.join(climbs), up)
        none = np.zeros(len(parents.asker), dtype=np.int64)
        yield _rows(
            ANSWER,
            node=parents.asker,
            parent=_or_null(parents.parent),
            parent_lookups=parents.lookups,
            child_lookups=none,
        )
    if branches:
        found, exploring = explore(tree, rings, Branches.join(branches), down)
        node, asked = np.unique(found.lookups, return_counts=True)
        yield _rows(
            ANSWER,
            node=node,
            parent_lookups=np.zeros(len(node), dtype=np.int64),
            child_lookups=asked,
        )
    for asked_keys, purpose in ((up, PARENT), (down, CHILDREN_OF)):
        yield from _lookups(asked_keys, purpose)
    yield from _letters(buckets, climbing, exploring)


def _asked(buckets: Buckets) -> list[Asked] | None:
    return [] if buckets.name_lookups else None


def _lookups(
    asked: list[Asked] | None, purpose: str, node: np.ndarray | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of look-ups; `node` has the numbers of askers that are known by their places in it."""
    if asked:
        each = Asked.join(asked)
        hi, lo = (half.view(np.int64) for half in halves_of(each.key))
        yield _rows(
            LOOKUP,
            node=each.asker if node is None else node[each.asker],
            key_hi=hi,
            key_lo=lo,
            owner=each.owner,
            purpose=pa.array([purpose] * len(each.owner), pa.string()),
        )


def _letters(
    buckets: Buckets, climbing: Climbs | None, exploring: Branches | None
) -> Iterator[pa.RecordBatch]:
    """A row for each bucket that searches go on in."""
    if climbing is not None and len(climbing):
        paths, _ = buckets.tree.paths(climbing.topmost)
        n = len(climbing)
        yield _sorted_letters(buckets, PARENTS, climbing, paths[climbing.level * n + np.arange(n)])
    if exploring is not None and len(exploring):
        key = buckets.tree.node(exploring.subtree)
        yield _sorted_letters(buckets, CHILDREN, exploring, key)


def _sorted_letters(
    buckets: Buckets, what: int, searches: Climbs | Branches, key: Numbers
) -> pa.RecordBatch:
    to = bucket_of_key(buckets.tree, buckets.bits, key)
    targets = np.unique(to)
    return _rows(what, bucket=targets, data=[pack(searches[to == one]) for one in targets])


def _or_null(parent: np.ndarray) -> pa.Array:
    return pa.array(parent, mask=parent == NOBODY)


def _rows(what: int, **columns) -> pa.RecordBatch:
    """Rows of :data:`SEARCH_ROWS`, NULL in the other columns."""
    count = len(next(iter(columns.values())))
    cells = {"what": np.full(count, what), **columns}
    arrays = []
    for field in _ARROW:
        if field.name in cells:
            arrays.append(pa.array(cells[field.name]).cast(field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
