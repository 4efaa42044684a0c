"""The positions of nodes on the ring, the buckets of the ring, and Spark's partitions.

A bucket is an interval of the ring.  Most leaf sets, and most last hops of a route, lie within one
bucket, because leaf sets contain neighbours on the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.engine.facts import Facts, KnowsRing, Ring, bucket_bounds, distribute_facts
from scribe_spark.engine.on_spark import ROWS, Layout, pack_rows, read_rows
from scribe_spark.engine.packing import Columns, count_rows
from scribe_spark.engine.program import AT, Tables, deliver
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.settings import bucket_count
from scribe_spark.underlay.protocol import Kernel, Underlay

_NODES_AT_ONCE = 2**16

#: Rows of Arrow.
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True)
class BucketRing:
    """The ring of an overlay, cut into B buckets; `bounds` ends with the number of nodes."""

    facts: Facts
    bounds: np.ndarray
    layout: Layout

    @classmethod
    def of(
        cls, nodes: Table, underlay: Underlay, bits: Callable[[int], int] | None = None
    ) -> BucketRing:
        """Cut the ring into a bucket per partition; equal first ``bits(n)`` bits stay together."""
        spark = Batches.of(nodes).session
        facts = distribute_facts(nodes, underlay.kernel)
        ring = facts.ring
        buckets = bucket_count(spark, len(ring))
        bounds = bucket_bounds(ring, buckets, bits(len(ring)) if bits else 0)
        return cls(facts, bounds, Layout(spark, buckets, buckets))

    def __len__(self) -> int:
        """Return the number of nodes."""
        return int(self.bounds[-1])

    def starts(self) -> DataFrame:
        """Return a one-row table for each bucket, so that programs play every bucket; lazy."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for bucket in batch.column("bucket").to_pylist():
                    number = {"bucket": np.array([bucket])}
                    yield from pack_rows(bucket, bucket, True, "bucket", number)

        return self.each_bucket().mapInArrow(run, ROWS)

    def messages(
        self,
        table: Table,
        kind: str,
        node: str,
        columns: Callable[[Facts, pa.RecordBatch], Columns] | None = None,
        groups: np.ndarray | None = None,
    ) -> DataFrame:
        """Turn the rows of a table into packed messages to the nodes in a column: `ROWS`; lazy.

        ``columns(facts, batch)`` are the messages' columns without the receivers.  With `groups`
        (numbers, ascending), messages have the index ``group``, and rows of other groups are left
        out.
        """
        facts, bounds = self.facts, self.bounds

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                own: dict[str, np.ndarray] = {}
                if groups is not None:
                    batch, own["group"] = rows_of_groups(batch, groups)
                at = facts.positions(batch.column(node).to_numpy())
                sent = {AT: at, **own, **({} if columns is None else columns(facts, batch))}
                for to, name, packed in deliver(bounds, {kind: sent}):
                    yield from pack_rows(to, 0, False, name, packed)

        return Batches.of(table).then(run, ROWS).frame

    def members_of(self, groups: np.ndarray, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Return the members of groups (numbers, ascending): indices of groups, and positions."""
        rows = Batches.of(table, ["group", "node"]).frame.select("group", "node").toArrow()
        rows, group = rows_of_groups(rows, groups)
        return group, self.facts.positions(rows.column("node").to_numpy())

    def rows(self, make: Callable[[Ring, np.ndarray], Columns], schema: StructType) -> DataFrame:
        """Return rows about all nodes, which each bucket computes from the ring; lazy.

        A user's overlay shows its tables with this method (docs/extending_overlay.md).

        Parameters
        ----------
        make : callable
            ``make(ring, own)``: the columns of `schema` for the nodes at the positions `own`.
        """
        facts, bounds = self.facts, self.bounds
        wanted = to_arrow_schema(schema)

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for bucket in batch.column("bucket").to_pylist():
                    own = np.arange(bounds[bucket], bounds[bucket + 1])
                    for some in np.array_split(own, -(-len(own) // _NODES_AT_ONCE) or 1):
                        made = make(facts.ring, some)
                        arrays = [pa.array(made[one.name], one.type) for one in wanted]
                        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)

        return self.each_bucket().mapInArrow(run, schema)

    def each_bucket(self) -> DataFrame:
        """Return a row ``bucket`` for each bucket, in the partition that plays that bucket."""
        numbers = self.layout.spark.range(0, self.layout.buckets, 1, self.layout.partitions)
        return numbers.select(F.col("id").cast("int").alias("bucket"))

    def release(self) -> None:
        """Delete the files of the ring and of the tables of buckets."""
        self.facts.release()
        self.layout.release()


def rows_of_groups(rows: Rows, groups: np.ndarray) -> tuple[Rows, np.ndarray]:
    """Return the rows whose ``group`` is in `groups` (numbers), and indices of their groups."""
    index = find_sorted(groups, rows.column("group").to_numpy())
    there = index >= 0
    return (rows, index) if there.all() else (rows.filter(pa.array(there)), index[there])


def read_typed(
    rows: Table,
    columns: Callable[[int, dict[str, np.ndarray]], Iterable[pa.RecordBatch]],
    schema: StructType | str,
) -> Batches:
    """Return one table of each bucket as typed rows, made by ``columns(bucket, table)``; lazy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in read_rows(batches):
            table = row.read()
            if count_rows(table):
                yield from columns(row.bucket, table)

    return Batches.of(rows).then(run, schema)


def read_together(
    rows: DataFrame,
    columns: Callable[[int, Mapping[str, Columns]], Iterable[pa.RecordBatch]],
    schema: StructType | str,
) -> Batches:
    """Return typed rows made by ``columns(bucket, tables)`` of each bucket's tables; lazy."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket, tables in tables_by_bucket(batches).items():
            yield from columns(bucket, tables)

    return Batches.made(rows, run, schema)


def tables_by_bucket(batches: Iterable[pa.RecordBatch]) -> dict[int, Tables]:
    """Return the tables in the batches of a partition: bucket -> name -> columns."""
    found: dict[int, dict[str, Callable[[], dict[str, np.ndarray]]]] = {}
    for row in read_rows(batches):
        found.setdefault(row.bucket, {})[row.name] = row.read
    return {bucket: Tables(read) for bucket, read in sorted(found.items())}


def arrow_schema(schema: StructType | str) -> pa.Schema:
    """Return a schema (or DDL with plain column types) as an Arrow schema, without a session."""
    if isinstance(schema, StructType):
        return to_arrow_schema(schema)
    columns = [column.split() for column in schema.split(", ")]
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns])


_ARROW = {
    **{"bigint": pa.int64(), "int": pa.int32(), "double": pa.float64()},
    **{"string": pa.string(), "boolean": pa.bool_()},
}


# --- views


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
