"""Tables kept as blocks on the executors: compute once, cut the lineage, count, free.

A table that :func:`materialise` returns is a checkpoint: its plan is one leaf, so a plan that is
built on it is no longer than what was added since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from scribe_spark.runtime import server_tables
from scribe_spark.runtime.checkpoints import checkpoints_are_reliable, delete_checkpoint
from scribe_spark.runtime.sessions import is_connect, usable


def materialise(frame: DataFrame) -> tuple[DataFrame, int]:
    """Compute `frame` once, cut its lineage, and count its rows, in one job.

    Where the user named a checkpoint directory the blocks are written there and survive the loss
    of an executor; otherwise they are kept by the executors.

    Returns
    -------
    DataFrame
        The same rows; to be freed with :func:`release`.
    int
        How many rows it has.
    """
    if is_connect(frame.sparkSession):
        table = server_tables.keep(frame)
        return table, table.count()
    seen = Observation()
    watched = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    reliable = checkpoints_are_reliable(frame.sparkSession.sparkContext)
    table = watched.checkpoint(eager=True) if reliable else watched.localCheckpoint(eager=True)
    return table, int(seen.get["rows"])


def materialise_and_read(
    frame: DataFrame, columns: Sequence[str | Column]
) -> tuple[DataFrame, pa.Table]:
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


def _checkpoint_plan(table: DataFrame) -> JavaObject | None:
    """The plan of a table that :func:`materialise` made, None for any other."""
    plan = table._jdf.queryExecution().analyzed()
    return plan if plan.getClass().getSimpleName() == "LogicalRDD" else None


# --- lost blocks

#: What Spark says when a block of a local checkpoint is gone with its executor (Spark 4.1: the
#: error class; before: words).
_SIGNS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")


def is_lost_block(error: BaseException) -> bool:
    """Return whether a job failed because a materialised table has lost blocks.

    A table without a checkpoint directory lives on the executors alone, and its lineage is cut: it
    can only be computed again from the start.
    """
    text = str(error)
    return any(sign in text for sign in _SIGNS)
