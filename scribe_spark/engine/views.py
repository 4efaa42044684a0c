"""The tables that users read, declared over the rows of buckets.

Rows of a bucket name nodes by their positions on the ring, and groups by their indices.  A *view*
names both by their numbers, and routers by their ids.  What a column of a view holds is said by its
name: ``group`` a group, :data:`NODES` nodes, :data:`ROUTERS` the routers of such nodes; any other
column is as the bucket has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from scribe_spark.core.arrays import NONE
from scribe_spark.engine.buckets import arrow_schema, read_together, read_typed
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import Columns, count_rows
from scribe_spark.runtime.batches import Batches
from scribe_spark.underlay.protocol import Kernel

#: The columns of nodes: positions in the rows of a bucket, numbers in a view.
NODES = ("node", "parent", "child", "sender", "receiver", "source", "leaf", "entry", "owner")

#: The columns of routers, which are not in the rows of a bucket -> those of their nodes.
ROUTERS = {"router": "node", **{f"{node}_router": node for node in NODES}}

_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True)
class Names:
    """The names of nodes, routers and groups in views; picklable.

    Attributes
    ----------
    facts : KnowsRing
    kernel : Kernel or None
        Of the underlay; None where no view has routers.
    groups : ndarray of int64, shape (G,)
        The numbers of the groups, by index.
    """

    facts: KnowsRing
    kernel: Kernel | None
    groups: np.ndarray

    def batch(self, columns: Mapping[str, Any], wanted: pa.Schema) -> pa.RecordBatch:
        """Return the rows of a view.

        Parameters
        ----------
        columns : mapping of str to ndarray, pyarrow.Array or str
            Every column of `wanted` but those of routers: positions of nodes and indices of groups,
            where one below 0 becomes NULL.  A text is the same in all rows.  There may be others.
        wanted : pyarrow.Schema
        """
        length = max(len(some) for some in columns.values() if not isinstance(some, str))
        arrays = [self._array(columns, field.name, length) for field in wanted]
        cast = [
            one.cast(field.type) if isinstance(one, pa.Array) else pa.array(one, field.type)
            for one, field in zip(arrays, wanted, strict=True)
        ]
        return pa.RecordBatch.from_arrays(cast, schema=wanted)

    def _array(self, columns: Mapping[str, Any], name: str, length: int) -> Any:
        if name in ROUTERS:
            ring = self.facts.ring
            assert self.kernel is not None
            return self.kernel.ids(ring.router[columns[ROUTERS[name]]])
        column = columns[name]
        if name == "group":
            return _named(self.groups, column)
        if name in NODES:
            return _named(self.facts.ring.node, column)
        return pa.repeat(pa.scalar(column), length) if isinstance(column, str) else column


def _named(numbers: np.ndarray, index: np.ndarray) -> pa.Array:
    """Return the numbers of nodes or groups, NULL where an index is below 0."""
    unknown = index < 0
    if unknown.any():
        return pa.array(np.append(numbers, NONE)[index], mask=unknown)
    return pa.array(numbers[index])


def read_view(
    rows: DataFrame,
    names: Names,
    schema: StructType | str,
    make: Callable[[Columns], Mapping[str, Any]] = dict,
) -> Batches:
    """Return tables of buckets as the rows of a view, for further kernels; lazy.

    Parameters
    ----------
    rows : DataFrame
        `ROWS`.
    schema : StructType or str
        The columns of the view.
    make : callable
        ``make(some)``: the columns that :meth:`Names.batch` names, of some rows of a bucket's
        table.
    """
    wanted = arrow_schema(schema)

    def batches(bucket: int, table: Columns) -> Iterator[pa.RecordBatch]:
        for start in range(0, count_rows(table), _ROWS_AT_ONCE):
            some = {name: column[start : start + _ROWS_AT_ONCE] for name, column in table.items()}
            yield names.batch(make(some), wanted)

    return read_typed(rows, batches, schema)


def view_together(
    rows: DataFrame,
    names: Names,
    schema: str,
    make: Callable[[int, Mapping[str, Columns]], Iterator[Mapping[str, Any]]],
) -> Batches:
    """Return the rows of a view that needs several tables of a bucket together; lazy.

    Parameters
    ----------
    rows : DataFrame
        `ROWS`, those of a bucket in one partition.
    make : callable
        ``make(bucket, tables)``: as of :func:`read_view`, in parts.
    """
    wanted = arrow_schema(schema)

    def batches(bucket: int, tables: Mapping[str, Columns]) -> Iterator[pa.RecordBatch]:
        for columns in make(bucket, tables):
            yield names.batch(columns, wanted)

    return read_together(rows, batches, schema)
