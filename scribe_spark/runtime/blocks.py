"""Tables that are kept as blocks on the executors: compute once, cut the lineage, count, free.

A table that :func:`materialise` returns is a checkpoint: its plan is one leaf, so the plan of a
table made from it only has the later steps.
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

    If the user named a checkpoint directory, the blocks are written there and survive the loss of
    an executor; otherwise the executors keep them.
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
    """Compute `frame` once, cut its lineage, and return some (small) columns on the driver."""
    if is_connect(frame.sparkSession):
        table = server_tables.keep(frame)
    else:
        reliable = checkpoints_are_reliable(frame.sparkSession.sparkContext)
        table = frame.checkpoint(eager=True) if reliable else frame.localCheckpoint(eager=False)
    return table, table.select(*columns).toArrow()


def release(table: DataFrame) -> None:
    """Free a table from :func:`materialise`: its blocks, or its files on reliable storage."""
    if is_connect(table.sparkSession):
        server_tables.release(table)
        return
    plan = _checkpoint_plan(table) if usable("release_blocks", table.sparkSession) else None
    if plan is not None:
        plan.rdd().unpersist(False)
        delete_checkpoint(table.sparkSession, plan.rdd())


def persist(frame: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """Persist a DataFrame; return it, and the function that frees it."""
    if is_connect(frame.sparkSession):
        return server_tables.persist(frame)
    persisted = frame.persist()
    return persisted, persisted.unpersist


def union_tables(tables: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several tables with one schema; columns are matched by name."""
    first, *others = tables
    for other in others:
        first = first.unionByName(other)
    return first


def read_partition(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """Return all rows of a partition, for a kernel that needs them together; None without rows."""
    filled = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(filled) if filled else None


def _checkpoint_plan(table: DataFrame) -> JavaObject | None:
    """Return the plan of a table from :func:`materialise`; None for other tables."""
    plan = table._jdf.queryExecution().analyzed()
    return plan if plan.getClass().getSimpleName() == "LogicalRDD" else None


# --- lost blocks

#: What Spark says when a block of a local checkpoint is gone with its executor (Spark 4.1: the
#: error class; before: words).
_SIGNS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")


def is_lost_block(error: BaseException) -> bool:
    """Return True if a materialised table has lost blocks and must be computed from the start."""
    text = str(error)
    return any(sign in text for sign in _SIGNS)
