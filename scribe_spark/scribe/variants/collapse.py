"""Collapse: long paths without branches are cut short.

References
----------
JSAC 2002, Section IV.F: "the algorithm collapses long paths in the tree by removing nodes that are
not members of a group and have only one entry in the group's children table".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from scribe_spark.scribe.variants.context import EDGE, Variant, VariantContext, bigints, timed_edges
from scribe_spark.scribe.variants.tree_arrays import Trees, whole_trees

__all__ = ["collapse"]


def collapse(context: VariantContext) -> Variant:
    """Remove non-members with a single child, repeatedly, until none is left.

    The parent of a node that leaves has as many children as before, so who leaves is known
    beforehand: each other node goes up to the first that stays.
    """
    trees = whole_trees(context.edges, context.members)
    kept = timed_edges(trees.mapInArrow(_cut, bigints(EDGE)), context.overlay.underlay)
    return Variant(kept, owned=[kept])


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The edges that are left."""
    trees = Trees.of(batches)
    if trees is None:
        return
    below_root = trees.above >= 0
    children = np.bincount(trees.above[below_root], minlength=len(below_root))
    stays = (children != 1) | ~below_root
    stays[trees.member] = True
    # the first that stays, from each node on upwards
    first = np.where(stays, np.arange(len(stays)), trees.above)
    while not stays[first].all():
        first = first[first]
    child = np.flatnonzero(stays & below_root)
    parent = first[trees.above[child]]
    columns = [trees.group[child], trees.node[parent], trees.node[child]]
    columns += [trees.router[parent], trees.router[child]]
    yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=EDGE)
