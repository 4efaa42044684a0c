"""Views: the tables that users read, declared over the rows of buckets.

The rows of a bucket refer to nodes by ring position and to groups by index.  A *view* replaces both
by their numbers, and adds the ids of routers.  The name of a column decides how it is converted:
``group`` is a group, the columns in :data:`NODES` are nodes, those in :data:`ROUTERS` are routers
of such nodes.  Other columns are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from scribe_spark.core.arrays import NONE
from scribe_spark.engine.buckets import arrow_schema, read_typed
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.packing import Columns, count_rows
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.underlay.protocol import Kernel

#: Columns with nodes: ring positions in the rows of a bucket, node numbers in a view.
NODES = ("node", "parent", "child", "sender", "receiver", "source", "leaf", "entry", "owner")

#: Columns with routers, which only views have -> the column with the router's node.
ROUTERS = {"router": "node", **{f"{node}_router": node for node in NODES}}

_ROWS_AT_ONCE = 2**17


@dataclass(frozen=True)
class Names:
    """The numbers and ids of nodes, groups and routers by index, for views; picklable."""

    facts: KnowsRing
    kernel: Kernel | None
    groups: np.ndarray

    def batch(self, columns: Mapping[str, Any], wanted: pa.Schema) -> pa.RecordBatch:
        """Return columns of a bucket's table as rows of a view; a text stands for equal values."""
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
    """Return the numbers of nodes or groups by index, NULL for a negative index."""
    unknown = index < 0
    if unknown.any():
        return pa.array(np.append(numbers, NONE)[index], mask=unknown)
    return pa.array(numbers[index])


def read_view(
    rows: Table,
    names: Names,
    schema: StructType | str,
    make: Callable[[Columns], Mapping[str, Any]] = dict,
) -> Batches:
    """Return one table of each bucket as rows of a view, whose columns `make` makes; lazy."""
    wanted = arrow_schema(schema)

    def batches(bucket: int, table: Columns) -> Iterator[pa.RecordBatch]:
        for start in range(0, count_rows(table), _ROWS_AT_ONCE):
            some = {name: column[start : start + _ROWS_AT_ONCE] for name, column in table.items()}
            yield names.batch(make(some), wanted)

    return read_typed(rows, batches, schema)
