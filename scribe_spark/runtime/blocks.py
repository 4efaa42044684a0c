"""Tables kept as blocks on the executors: compute once, cut the lineage, count, stack, free.

A table that :func:`materialise` returns is a checkpoint: its plan is one leaf, so a plan that is
built on it is no longer than what was added since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scribe_spark.runtime import server_tables
from scribe_spark.runtime.checkpoints import checkpoints_are_reliable, delete_checkpoint
from scribe_spark.runtime.sessions import is_connect, usable

__all__ = [
    "count_and_materialise",
    "is_lost_block",
    "materialise",
    "materialise_and_read",
    "persist",
    "read_partition",
    "release",
    "stack_tables",
    "union_tables",
]


def materialise(frame: DataFrame, forget: bool = False) -> tuple[DataFrame, int]:
    """Compute `frame` once, cut its lineage, and count its rows, in one job.

    Where the user named a checkpoint directory the blocks are written there and survive the loss
    of an executor; otherwise they are kept by the executors.

    Parameters
    ----------
    forget : bool
        To be set now and then by loops: where the planner's estimate of the table's size cannot be
        dropped, the size itself takes its place, which takes a job more.

    Returns
    -------
    DataFrame
        The same rows; to be freed with :func:`release`.
    int
        How many rows it has.
    """
    table, rows, _ = count_and_materialise(frame, {}, forget)
    return table, rows


def materialise_and_read(frame: DataFrame, columns: Sequence[str]) -> tuple[DataFrame, pa.Table]:
    """Compute `frame` once, cut its lineage, and bring some (small) columns to the driver.

    One job does both, unless the user named a checkpoint directory: then it is one more.

    Returns
    -------
    DataFrame
        The same rows; to be freed with :func:`release`.
    pyarrow.Table
        `columns` of all rows.
    """
    if is_connect(frame.sparkSession):
        table = server_tables.keep(frame)
    else:
        reliable = checkpoints_are_reliable(frame.sparkSession.sparkContext)
        table = frame.checkpoint(eager=True) if reliable else frame.localCheckpoint(eager=False)
    return table, table.select(*columns).toArrow()


def count_and_materialise(
    frame: DataFrame, conditions: Mapping[str, Column], forget: bool = False
) -> tuple[DataFrame, int, dict[str, int]]:
    """As :func:`materialise`, and for each of `conditions` the number of rows that satisfy it."""
    counts = {"rows": F.count(F.lit(1))} | {n: F.count_if(c) for n, c in conditions.items()}
    if is_connect(frame.sparkSession):
        table, found = server_tables.count_and_keep(frame, counts, forget)
        return table, found.pop("rows"), found
    seen = Observation()
    watched = frame.observe(seen, *[count.alias(name) for name, count in counts.items()])
    reliable = checkpoints_are_reliable(frame.sparkSession.sparkContext)
    table = watched.checkpoint(eager=True) if reliable else watched.localCheckpoint(eager=True)
    if usable("drop_estimates", frame.sparkSession):
        table = _without_estimates(table)
    found = {name: int(seen.get[name]) for name in counts}
    return table, found.pop("rows"), found


def release(table: DataFrame) -> None:
    """Free a table that :func:`materialise` made: its blocks, or its files on reliable storage.

    Does nothing for other tables.
    """
    if is_connect(table.sparkSession):
        server_tables.release(table)
        return
    plan = _checkpoint_plan(table) if usable("release_blocks", table.sparkSession) else None
    if plan is not None:
        plan.rdd().unpersist(False)
        delete_checkpoint(table.sparkSession, plan.rdd())


def persist(frame: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """Keep a DataFrame once it is computed; the same rows, and the call that frees them."""
    if is_connect(frame.sparkSession):
        return server_tables.persist(frame)
    persisted = frame.persist()
    return persisted, persisted.unpersist


def stack_tables(tables: Sequence[DataFrame], like: DataFrame) -> DataFrame:
    """The rows of several materialised tables as one leaf of a plan.

    The plan of a union grows, and with it the time of planning, with every table; this plan does
    not, and it keeps the partitioning that all the tables share.

    Parameters
    ----------
    tables : sequence of DataFrame
        Tables that :func:`materialise` made. Where they differ from `like` in columns, in the
        columns that their rows are partitioned by, or in the number of partitions, or are not
        materialised, the result is :func:`union_tables`.
    like : DataFrame
        A materialised table with the columns and the partitioning wanted. Its rows are not part of
        the result.
    """
    spark = like.sparkSession
    if not usable("stack_tables", spark):
        return union_tables(tables)
    plan, *plans = leaves = [_checkpoint_plan(table) for table in (like, *tables)]
    partitions = {leaf and _hash_partitions(leaf) for leaf in leaves}
    alike = all(_same_columns(table.schema, like.schema) for table in tables)
    if not alike or len(partitions) > 1 or None in partitions:
        return union_tables(tables)
    ((count, _),) = (each for each in partitions if each is not None)
    rows = getattr(spark._jvm, "org.apache.spark.rdd.SQLPartitioningAwareUnionRDD")(
        spark._jsc.sc(),
        spark._jvm.PythonUtils.toSeq([one.rdd() for one in plans]),  # type: ignore[union-attr]
        count,
        getattr(spark._jvm, "scala.reflect.ClassTag").Object(),
    )
    return _dataframe_of_rdd(spark, plan, rows)


def union_tables(tables: Sequence[DataFrame]) -> DataFrame:
    """The rows of several tables of one schema, columns matched by name."""
    first, *others = tables
    for other in others:
        first = first.unionByName(other)
    return first


def read_partition(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """All rows of a partition, inside a kernel that needs them together; None if there are none."""
    filled = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(filled) if filled else None


def _without_estimates(table: DataFrame) -> DataFrame:
    """`table` without the planner's estimate of its size.

    A checkpoint keeps the estimate that its plan had, a product over all joins before it. Carried
    from round to round, its number of digits doubles with every join: planning soon takes longer
    than the round, and in the end all memory.
    """
    plan = table._jdf.queryExecution().analyzed()
    return _dataframe_of_rdd(table.sparkSession, plan, plan.rdd())


def _checkpoint_plan(table: DataFrame) -> JavaObject | None:
    """The plan of a table that :func:`materialise` made, None for any other."""
    plan = table._jdf.queryExecution().analyzed()
    return plan if plan.getClass().getSimpleName() == "LogicalRDD" else None


def _same_columns(rows: StructType, columns: StructType) -> bool:
    """Whether rows of one schema can be read as another's.

    Names and types are equal, and no column that `columns` declares NOT NULL is nullable in `rows`.
    """
    return len(rows) == len(columns) and all(
        (a.name, a.dataType, a.nullable and not b.nullable) == (b.name, b.dataType, False)
        for a, b in zip(rows, columns, strict=True)
    )


def _hash_partitions(leaf: JavaObject) -> tuple[int, str] | None:
    """The number of partitions of a leaf, and the columns whose hash its rows are partitioned by.

    None where rows are not partitioned by a hash.
    """
    found = leaf.outputPartitioning()
    if found.getClass().getSimpleName() != "HashPartitioning":
        return None
    hashed = found.expressions()
    names = [hashed.apply(place).name() for place in range(hashed.size())]
    return found.numPartitions(), ", ".join(names)


def _dataframe_of_rdd(spark: SparkSession, like: JavaObject, rdd: JavaObject) -> DataFrame:
    """A DataFrame whose whole plan is `rdd`, with the columns and partitioning of a leaf `like`."""
    # (each class is asked for by its full name: py4j looks for every part of a dotted one in all
    # jars)
    jvm, session = spark._jvm, spark._jsparkSession
    none = getattr(jvm, "scala.Option").empty()
    leaf = getattr(jvm, "org.apache.spark.sql.execution.LogicalRDD")(
        like.output(),
        rdd,
        like.outputPartitioning(),
        like.outputOrdering().take(0),
        like.isStreaming(),
        like.stream(),
        session,
        none,
        none,
    )
    made = getattr(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(session, leaf)
    return DataFrame(made, spark)


# --- lost blocks

#: What Spark says when a block of a local checkpoint is gone with its executor (Spark 4.1: the
#: error class; before: words).
_SIGNS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")


def is_lost_block(error: BaseException) -> bool:
    """Whether a job failed because a materialised table has lost blocks.

    A table without a checkpoint directory lives on the executors alone, and its lineage is cut: it
    can only be computed again from the start.
    """
    text = str(error)
    return any(sign in text for sign in _SIGNS)
