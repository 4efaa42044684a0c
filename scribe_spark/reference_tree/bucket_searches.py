"""What a bucket does in a superstep: it answers the searches that ask for its keys.

A search stays in a bucket as long as it asks for keys there, and goes on in another as a letter:
the searches that one bucket sends to another are one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.reference_tree.buckets import Buckets, bucket_of_key
from scribe_spark.reference_tree.packing import pack, pack_rings
from scribe_spark.reference_tree.rings import Rings, contains
from scribe_spark.reference_tree.rows import SEARCH_ROWS
from scribe_spark.reference_tree.search import (
    NOBODY,
    Branches,
    Climbs,
    climb,
    explore,
    first_branches,
)
from scribe_spark.reference_tree.topmost import topmost_keys
from scribe_spark.reference_tree.wide import Numbers, halves

__all__ = [
    "ANSWER",
    "CHILDREN",
    "KEYSETS",
    "PARENTS",
    "PLACE",
    "answer_letters",
    "first_answers",
]

#: Values of ``what``: a host's place, its part of a search that went on elsewhere, letters with
#: searches for parents and for children, the keysets of a bucket.
PLACE, ANSWER, PARENTS, CHILDREN, KEYSETS = range(5)

_ARROW = to_arrow_schema(SEARCH_ROWS)

#: Searches that are made at once, so that their columns stay in the processor's cache.
_AT_ONCE = 2**13


def first_answers(
    buckets: Buckets, bucket: int, hi: np.ndarray, lo: np.ndarray, node: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Places of the hosts whose topmost key is in a bucket; letters; and its keysets.

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
    home = np.flatnonzero(contains(*_range(rings), rings.topmost))
    # (a host that has a bucket's last key is there twice)
    if len(home) > 1 and rings.node[home[-1]] == rings.node[home[-2]]:
        home = home[:-1]
    for start in range(0, len(home), _AT_ONCE):
        yield from _places(buckets, rings, home[start : start + _AT_ONCE])


def _range(rings: Rings) -> tuple[Numbers, Numbers]:
    assert rings.answers is not None
    return rings.answers


def _places(buckets: Buckets, rings: Rings, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    tree, n = buckets.tree, len(rows)
    asker, ring = np.arange(n), np.zeros(n, dtype=np.int64)
    first, last, topmost = rings.first[rows], rings.last[rows], rings.topmost[rows]
    node, depth = rings.node[rows], rings.depth[rows]
    parents, climbing = climb(tree, rings, Climbs.of(asker, ring, topmost, depth))
    branches = first_branches(asker, ring, first, last, topmost_keys(tree, first, last).subtree)
    found, exploring = explore(tree, rings, branches)
    parent, lookups = np.full(n, NOBODY), np.zeros(n, dtype=np.int64)
    parent[parents.asker], lookups[parents.asker] = parents.parent, parents.lookups
    ended = np.ones(n, dtype=bool)
    ended[climbing.asker] = ended[exploring.asker] = False
    asked, again = found.totals(n)
    topmost_hi, topmost_lo = halves(topmost)
    yield _rows(
        PLACE,
        node=node,
        topmost_hi=topmost_hi.view(np.int64),
        topmost_lo=topmost_lo.view(np.int64),
        depth=depth,
        parent=_or_null(parent),
        parent_lookups=lookups,
        child_lookups=asked,
        repeated_lookups=again,
        ended=ended,
    )
    climbing = replace(climbing, asker=node[climbing.asker])
    exploring = replace(exploring, asker=node[exploring.asker])
    yield from _letters(buckets, climbing, exploring)


def answer_letters(
    buckets: Buckets, rings: Rings, climbs: list[Climbs], branches: list[Branches]
) -> Iterator[pa.RecordBatch]:
    """Answers to the searches in the letters to a bucket, and letters of those that go on."""
    tree, climbing, exploring = buckets.tree, None, None
    if climbs:
        parents, climbing = climb(tree, rings, Climbs.join(climbs))
        none = np.zeros(len(parents.asker), dtype=np.int64)
        yield _rows(
            ANSWER,
            node=parents.asker,
            parent=_or_null(parents.parent),
            parent_lookups=parents.lookups,
            child_lookups=none,
            repeated_lookups=none,
        )
    if branches:
        found, exploring = explore(tree, rings, Branches.join(branches))
        node, back = np.unique(found.counted, return_inverse=True)
        asked, again = replace(found, counted=back).totals(len(node))
        yield _rows(
            ANSWER,
            node=node,
            parent_lookups=np.zeros(len(node), dtype=np.int64),
            child_lookups=asked,
            repeated_lookups=again,
        )
    yield from _letters(buckets, climbing, exploring)


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
