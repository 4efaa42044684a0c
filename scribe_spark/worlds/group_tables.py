"""The groups of a world between two rounds as tables that can be queried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.scribe.living.rows import unpack

__all__ = ["children", "memberships"]

_CHILDREN = StructType([StructField(name, LongType()) for name in ("group", "parent", "child")])


def memberships(state: DataFrame) -> DataFrame:
    """`schemas.MEMBERSHIPS`: all nodes of all trees; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.GROUP_STATE`.
    """
    rows = _table(state, "entries", {}, schemas.MEMBERSHIPS)
    return rows.withColumn("parent", F.when(F.col("parent") >= 0, F.col("parent")))


def children(state: DataFrame) -> DataFrame:
    """``group, parent, child``: all entries of all children tables; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.GROUP_STATE`.
    """
    return _table(state, "children", {"parent": "node"}, _CHILDREN)


def _table(state: DataFrame, name: str, called: Mapping[str, str], schema: StructType) -> DataFrame:
    """Some columns of one of the packed tables.

    Parameters
    ----------
    called : mapping of str to str
        Column of `schema` -> its name in the packed table, where that is another.
    """
    names = schema.names
    packed = [called.get(column, column) for column in names]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                table = unpack(pa.Table.from_batches([batch.slice(row, 1)]))[name]
                yield from table.select(packed).rename_columns(names).to_batches()

    return state.where(F.col("name") == name).mapInArrow(run, schema)
