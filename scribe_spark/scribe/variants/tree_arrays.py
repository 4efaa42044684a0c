"""Whole trees inside a kernel: what concerns one tree alone needs no supersteps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.core.arrays import numbered
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.scribe.variants.context import EDGE

__all__ = ["Trees", "whole_trees"]


def whole_trees(edges: DataFrame, members: DataFrame) -> DataFrame:
    """Edges and members, partitioned by group, as :meth:`Trees.of` reads them.

    Parameters
    ----------
    edges : DataFrame
        :data:`~scribe_spark.scribe.variants.context.EDGE`.
    members : DataFrame
        ``group, node, router`` and more.
    """
    ends = {"node": "child", "router": "child_router"}
    members = members.withColumnsRenamed(ends)  # a row without a parent
    return edges.select(EDGE).unionByName(members, allowMissingColumns=True).repartition("group")


@dataclass(frozen=True)
class Trees:
    """Trees whose nodes are numbered from 0 on: a number for each (group, node).

    Attributes
    ----------
    group, node, router : ndarray of int64, shape (K,)
        Which each number is.
    above : ndarray of int64, shape (K,)
        Number of the parent; -1 for a root.
    member : ndarray of int64, shape (M,)
        Numbers of the members.
    members : pyarrow.Table
        Their rows.
    """

    group: np.ndarray
    node: np.ndarray
    router: np.ndarray
    above: np.ndarray
    member: np.ndarray
    members: pa.Table

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Trees | None:
        """The trees of a partition of :func:`whole_trees`; None if there are none."""
        rows = read_partition(batches)
        if rows is None:
            return None
        edge = rows.column("parent").is_valid().to_numpy()
        group, parent, child, parent_router, child_router = (
            rows.column(name).fill_null(-1).to_numpy() for name in EDGE
        )
        # the lower end of each row, then the upper end of each edge
        lower = np.array([group, child, child_router])
        upper = np.array([group, parent, parent_router])[:, edge]
        ends = np.concatenate([lower, upper], axis=1)
        number = numbered(ends[0], ends[1])
        names = np.empty((3, int(number.max()) + 1), dtype=np.int64)
        names[:, number] = ends
        low, high = np.split(number, [len(group)])
        above = np.full(names.shape[1], -1)
        above[low[edge]] = high
        member = low[~edge]
        return cls(names[0], names[1], names[2], above, member, rows.filter(pa.array(~edge)))
