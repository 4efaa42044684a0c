"""Every host's way up the tree, in one task: which hosts its subscriptions come by.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import depths, offsets_of
from scribe_spark.runtime.blocks import read_partition

_LINEAGE = "node bigint, ancestors array<bigint>, routers array<bigint>"

#: Rows of a batch, so that a batch's lists stay small however many hosts there are.
_BATCH = 2**16


def lineages(places: DataFrame, nodes: DataFrame) -> DataFrame:
    """The ancestors of every host, its parent first and the root last.

    One task follows the parents of all hosts at once; a superstep for each level of the tree would
    be twenty jobs at 100,000 hosts.

    Parameters
    ----------
    places : DataFrame
        ``node, parent`` and more: a host and its parent, NULL at the root.
    nodes : DataFrame
        ``node, router`` and more.

    Returns
    -------
    DataFrame
        ``node, ancestors, routers``: the latter are where the former are.
    """
    routers = nodes.select("node", "router")
    placed = places.select("node", "parent").join(routers.hint("shuffle_hash"), "node", "inner")
    return placed.repartition(1).mapInArrow(_follow, _LINEAGE)


def _follow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = read_partition(batches)
    if rows is None:
        return
    rows = rows.sort_by("node")
    node, router = (rows.column(name).to_numpy() for name in ("node", "router"))
    above = _parent_numbers(rows, node)
    depths(above)  # a circle would have no end
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
    """The ancestors of some nodes of a forest, one node's after the other, parents first.

    Parameters
    ----------
    above : ndarray of int64, shape (K,)
        Number of each node's parent; negative for a root.
    some : ndarray of int64, shape (M,)

    Returns
    -------
    ndarray of int64, shape (M + 1,)
        Where the ancestors of each begin.
    ndarray of int64
        Their numbers.
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
    """``node, depth``: the number of ancestors of every host.

    Parameters
    ----------
    places : DataFrame
        ``node, parent``.
    """
    rows = places.select("node", "parent").repartition(1)
    return rows.mapInArrow(_count_ancestors, "node bigint, depth bigint")


def _count_ancestors(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = read_partition(batches)
    if rows is None:
        return
    rows = rows.sort_by("node")
    node = rows.column("node").to_numpy()
    depth = depths(_parent_numbers(rows, node))
    yield pa.RecordBatch.from_arrays([pa.array(node), pa.array(depth)], names=["node", "depth"])


def _parent_numbers(rows: pa.Table, node: np.ndarray) -> np.ndarray:
    """The place of each row's parent among the nodes; -1 where it is NULL."""
    parent = rows.column("parent")
    found = np.searchsorted(node, parent.fill_null(-1).to_numpy())
    return np.where(parent.is_valid().to_numpy(), found, -1)
