"""An overlay's rule of routing as a kernel: where messages at the nodes of a bucket go next.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, IntegerType, LongType, StructField, StructType

from scribe_spark.engine import Tables
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.on_spark import read_rows
from scribe_spark.engine.program import bucket_of
from scribe_spark.runtime.blocks import union_tables
from scribe_spark.underlay.protocol import Kernel

__all__ = ["More", "NextHop", "next_hops"]


class NextHop(Protocol):
    """A rule of routing; picklable."""

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """Return the positions of the nodes that messages go to next: int64, shape (m,).

        Parameters
        ----------
        first : int
            The position of the bucket's first node.
        tables : Tables
            Of the bucket.
        at : ndarray of int64, shape (m,)
            Positions of nodes of the bucket.
        key_hi, key_lo : ndarray of uint64, shape (m,)
            Halves of the keys.

        Returns
        -------
        ndarray of int64
            The node itself where it is the root of the key; -1 where it knows nobody to ask.
        """
        ...


#: More columns of what a hop makes: ``more(first, tables, at, key_hi, key_lo, onward)``.
More = Callable[..., Mapping[str, pa.Array]]


def next_hops(
    ring: BucketRing,
    known: Sequence[DataFrame],
    messages: DataFrame,
    rule: NextHop,
    kernel: Kernel,
    more: More | None = None,
    fields: Mapping[str, DataType] | None = None,
) -> DataFrame:
    """Return where the messages of a table go next: a superstep of messages that stay typed rows.

    Parameters
    ----------
    known : sequence of DataFrame
        The tables that the rule reads.
    messages : DataFrame
        ``node, key_hi, key_lo`` and payload.
    more, fields
        More columns, and their types.

    Returns
    -------
    DataFrame
        `messages`, ``router`` of their node, ``next`` (NULL where the node is the root), more
        columns.  Messages to nodes that do not exist are left out.
    """
    facts, bounds = ring.facts, ring.bounds
    names = messages.columns
    made = {"router": LongType(), "next": LongType(), **(fields or {})}
    schema = StructType(
        [*messages.schema.fields, *(StructField(name, kind) for name, kind in made.items())]
    )

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            position = facts.find(batch.column("node").to_numpy())
            batch = batch.filter(pa.array(position >= 0))
            position = position[position >= 0]
            bucket = bucket_of(bounds, position).astype(np.int32)
            yield batch.append_column("bucket", pa.array(bucket)).append_column(
                "position", pa.array(position)
            )

    placed = messages.mapInArrow(
        place,
        StructType(
            [
                *messages.schema.fields,
                StructField("bucket", IntegerType()),
                StructField("position", LongType()),
            ]
        ),
    )

    def hop(here: pa.Table, there: pa.Table) -> pa.Table:
        tables = Tables({row.name: row.read for row in read_rows(there.to_batches())})
        at = here.column("position").to_numpy()
        hi, lo = (here.column(name).to_numpy().view(np.uint64) for name in ("key_hi", "key_lo"))
        if not len(at):
            return _table([], schema)
        first = int(bounds[here.column("bucket")[0].as_py()])
        onward = rule(first, tables, at, hi, lo)
        goes = (onward >= 0) & (onward != at)
        known_ring = facts.ring
        columns = [here.column(name) for name in names]
        columns.append(pa.array(kernel.ids(known_ring.router[at])))
        columns.append(pa.array(known_ring.node[np.where(goes, onward, 0)], mask=~goes))
        if more is not None:
            columns += more(first, tables, at, hi, lo, onward).values()
        return _table(columns, schema)

    by_bucket = placed.groupBy("bucket")
    if not known:
        return by_bucket.applyInArrow(lambda here: hop(here, _NOTHING), schema)
    return by_bucket.cogroup(union_tables(known).groupBy("bucket")).applyInArrow(hop, schema)


_NOTHING = pa.table({})


def _table(columns: list, schema: StructType) -> pa.Table:
    """Columns as a table of a schema; without columns one without rows."""
    wanted = to_arrow_schema(schema)
    if not columns:
        return wanted.empty_table()
    return pa.Table.from_arrays(
        [column.cast(one.type) for column, one in zip(columns, wanted, strict=True)], schema=wanted
    )
