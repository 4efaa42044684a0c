"""Routing tables: the entry in a row and column shares `row` digits and has `column` next.

References
----------
JSAC 2002, Section II and Figure 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core.arrays import offsets_of, row_values
from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing, read_typed

_NODES_AT_ONCE = 2**14


@dataclass(frozen=True)
class RoutingTables:
    """The routing tables of n nodes; empty cells and rows are omitted.

    The entries of node i are those from ``offsets[i]`` to ``offsets[i + 1] - 1``.
    """

    offsets: np.ndarray  # int64, shape (n + 1,)
    row: np.ndarray  # int32
    col: np.ndarray  # int32; a cell has at most one entry
    entry: np.ndarray  # int64: positions in a `Ring`

    @classmethod
    def of_dense(cls, tables: np.ndarray) -> RoutingTables:
        """Build from an array of cells: positions, shape (n, rows, 2**b), -1 for empty cells."""
        filled = tables >= 0
        _, row, col = np.nonzero(filled)
        lengths = filled.sum(axis=(1, 2))
        cells = row.astype(np.int32), col.astype(np.int32)
        return cls(offsets_of(lengths), *cells, tables[filled].astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, nodes: slice) -> RoutingTables:
        """Return the routing tables of a slice of the nodes."""
        offsets, own = row_values(self.offsets, nodes)
        return RoutingTables(offsets, self.row[own], self.col[own], self.entry[own])


def routing_table(known: DataFrame, ring: BucketRing) -> DataFrame:
    """Return one row per entry of every node, from tables `CELLS`: `schemas.ROUTING_TABLE`."""
    facts, bounds = ring.facts, ring.bounds

    def entries(bucket: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        number, cells = facts.ring.node, columns["cells"]
        for start in range(0, len(cells), _NODES_AT_ONCE):
            some = cells[start : start + _NODES_AT_ONCE]
            node, row, col = np.nonzero(some >= 0)
            arrays = [
                number[bounds[bucket] + start + node],
                row.astype(np.int32),
                col.astype(np.int32),
                number[some[node, row, col]],
            ]
            names = schemas.ROUTING_TABLE.names
            yield pa.RecordBatch.from_arrays(list(map(pa.array, arrays)), names=names)

    return read_typed(known, entries, schemas.ROUTING_TABLE).frame


def table_entries(known: DataFrame) -> DataFrame:
    """Return the numbers of nodes and of entries in tables `CELLS`: `schemas.TABLE_ENTRIES`."""

    def count(bucket: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        cells = columns["cells"]
        entries = sum(
            int((cells[start : start + _NODES_AT_ONCE] >= 0).sum())
            for start in range(0, len(cells), _NODES_AT_ONCE)
        )
        yield pa.RecordBatch.from_pydict({"nodes": [len(cells)], "entries": [entries]})

    counted = read_typed(known, count, "nodes bigint, entries bigint").frame
    sums = [F.coalesce(F.sum(name), F.lit(0)).cast("bigint") for name in ("nodes", "entries")]
    return counted.agg(sums[0].alias("nodes"), sums[1].alias("entries"))
