"""The path of every host up the tree, computed in one task.

A subscription of the host takes this path.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import NONE, depths, index_sorted, offsets_of
from scribe_spark.runtime.blocks import read_partition

_LINEAGE = "node bigint, ancestors array<bigint>, routers array<bigint>"

#: The number of rows in a batch of results; the lists of a batch stay small for any number of
#: hosts.
_BATCH = 2**16


def lineages(places: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the ancestors of every host and their routers: ``node, ancestors, routers``.

    The ancestors begin with the parent and end with the root.  One task follows the parents of all
    hosts.  (One superstep per level of the tree would be about twenty jobs for 100,000 hosts.)
    """
    routers = nodes.select("node", "router")
    placed = places.select("node", "parent").join(routers.hint("shuffle_hash"), "node", "inner")
    return placed.repartition(1).mapInArrow(_follow, _LINEAGE)


def _follow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = _by_node(batches)
    if rows is None:
        return
    node, router = (rows.column(name).to_numpy() for name in ("node", "router"))
    above = _parent_numbers(rows)
    depths(above)  # raises an error for a circle, in which ways_up would not end
    for first in range(0, len(node), _BATCH):
        some = np.arange(first, min(first + _BATCH, len(node)))
        offsets, way = ways_up(above, some)
        lists = [
            pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[way]))
            for values in (node, router)
        ]
        names = ["node", "ancestors", "routers"]
        yield pa.RecordBatch.from_arrays([pa.array(node[some]), *lists], names=names)


def ways_up(above: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ancestors of given nodes of a forest, each from its parent to the root.

    With ``above = [-1, 0, 1]`` and ``some = [2, 1]``, the result is offsets 0, 2, 3 and ancestors
    1, 0, 0: those of node i are at ``offsets[i]`` to ``offsets[i + 1] - 1``.  A root has a negative
    index in `above`.
    """
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    row, at = np.arange(len(some)), above[some]
    length = np.zeros(len(some), dtype=np.int64)
    while (onward := at >= 0).any():
        row, at = row[onward], at[onward]
        steps.append((row, at))
        length[row] += 1
        at = above[at]
    offsets = offsets_of(length)
    way = np.empty(offsets[-1], dtype=np.int64)
    for hop, (row, at) in enumerate(steps):
        way[offsets[row] + hop] = at
    return offsets, way


def host_depths(places: DataFrame) -> DataFrame:
    """Return ``node, depth``: each host's depth, which is the number of its ancestors."""
    rows = places.select("node", "parent").repartition(1)
    return rows.mapInArrow(_count_ancestors, "node bigint, depth bigint")


def _count_ancestors(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = _by_node(batches)
    if rows is not None:
        columns = {"node": rows.column("node"), "depth": depths(_parent_numbers(rows))}
        yield from pa.table(columns).to_batches()


def _by_node(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    rows = read_partition(batches)
    return None if rows is None else rows.sort_by("node")


def _parent_numbers(rows: pa.Table) -> np.ndarray:
    """Return the index of each row's parent in sorted rows; -1 where the parent is NULL."""
    parent, found = rows.column("parent"), np.full(len(rows), NONE)
    known = parent.is_valid().to_numpy()
    found[known] = index_sorted(rows.column("node").to_numpy(), parent.drop_null().to_numpy())
    return found
