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
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.scribe.forest import EDGE, Forest, Variant, timed_edges

__all__ = ["collapse"]


def collapse(forest: Forest) -> Variant:
    """Remove non-members with a single child, repeatedly, until none is left.

    The parent of a node that leaves has as many children as before, so who leaves is known
    beforehand: each other node goes up to the first that stays.
    """
    edges = forest.edges.select(EDGE)
    members = forest.members.select(
        "group", F.col("node").alias("child"), F.col("router").alias("child_router")
    )
    # a tree is cut as a whole, by itself: a member is a row without a parent among its edges
    trees = edges.unionByName(members, allowMissingColumns=True).repartition("group")
    schema = ", ".join(f"{column} bigint" for column in EDGE)
    kept = timed_edges(trees.mapInArrow(_cut, schema), forest.overlay.underlay)
    return Variant(kept, held=[kept])


def _cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The edges that are left, of whole trees with their members."""
    rows = superstep.gathered(batches)
    if rows is None:
        return
    group, parent, child, parent_router, child_router = (
        rows.column(name).fill_null(-1).to_numpy() for name in EDGE
    )
    edge = np.flatnonzero(rows.column("parent").is_valid().to_numpy())
    member = np.setdiff1d(np.arange(len(group)), edge, assume_unique=True)
    # number every (group, node), at the lower and the upper ends of the edges
    place = _numbered(np.r_[group, group[edge]], np.r_[child, parent[edge]])
    low, high, total = place[edge], place[len(group) :], int(place.max()) + 1
    above = np.full(total, -1)
    above[low] = high
    stays = np.bincount(high, minlength=total) != 1
    stays[place[member]] = True
    stays[above < 0] = True  # the root
    # the first that stays, from each node on upwards
    first = np.where(stays, np.arange(total), above)
    while not stays[first].all():
        first = first[first]
    named = np.empty((2, total), dtype=np.int64)
    named[:, high] = parent[edge], parent_router[edge]
    left = stays[low]
    new_parent, new_router = named[:, first[high[left]]]
    at = edge[left]
    columns = [group[at], new_parent, child[at], new_router, child_router[at]]
    yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=EDGE)


def _numbered(group: np.ndarray, node: np.ndarray) -> np.ndarray:
    """A number for each row, the same where both are; from 0 on without gaps."""
    order = np.lexsort((node, group))
    new = (np.diff(group[order]) != 0) | (np.diff(node[order]) != 0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.r_[0, np.cumsum(new)]
    return number
