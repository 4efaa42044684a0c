"""The rows that a job of rounds reads and makes: several kinds in one table, one job for all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from scribe_spark import schemas

__all__ = [
    "BATCH",
    "EVENT",
    "LOOKUPS",
    "MEASURE",
    "MESSAGES",
    "MULTICASTS",
    "NEW_LEAFS",
    "OF_GROUPS",
    "REFUSED",
    "SECONDS",
    "STATE",
    "WORLD_ROWS",
    "as_rows",
    "as_table",
]

#: What rounds are made of and what they leave: rows of several kinds in one table, so that one job
#: makes all of it.  `round` is NULL in rows of the state.
WORLD_ROWS = StructType(
    [
        StructField("what", IntegerType()),
        StructField("round", LongType()),
        *schemas.PACKED.fields,
        StructField("node", LongType()),
        StructField("group", LongType()),
        StructField("value", DoubleType()),
        *schemas.LOOKUPS.fields,
    ]
)

#: Values of the column ``what`` of :data:`WORLD_ROWS`.
STATE, MEASURE, LOOKUPS, NEW_LEAFS, EVENT, REFUSED, OF_GROUPS, SECONDS, MULTICASTS, MESSAGES = (
    range(10)
)

#: Rows of a batch.
BATCH = 10_000


def as_rows(frame: DataFrame, what: int) -> DataFrame:
    """Rows of :data:`WORLD_ROWS`, NULL in the columns that `frame` does not have."""
    cells = [
        (F.col(f.name) if f.name in frame.columns else F.lit(None)).cast(f.dataType).alias(f.name)
        for f in WORLD_ROWS.fields[1:]
    ]
    return frame.select(F.lit(what).cast("int").alias("what"), *cells)


def as_table(
    what: int, columns: pa.Table | dict[str, pa.Array], number: int | None = None
) -> pa.Table:
    """Rows of :data:`WORLD_ROWS`, of the round `number` if there is one."""
    if isinstance(columns, pa.Table):
        columns = {name: columns.column(name) for name in columns.column_names}
    length = len(next(iter(columns.values())))
    cells = {"what": pa.array(np.full(length, what, dtype=np.int32)), **columns}
    if number is not None:
        cells["round"] = pa.array(np.full(length, number, dtype=np.int64))
    wanted = to_arrow_schema(WORLD_ROWS)
    return pa.Table.from_arrays(
        [cells.get(f.name, pa.nulls(length, f.type)) for f in wanted], schema=wanted
    )
