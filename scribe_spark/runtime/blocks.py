"""Tables that stay: computed once, with their lineage cut, counted and freed.

A table that :func:`materialise` returns is a checkpoint: its plan is one leaf.  The executors keep
its blocks, or files in a directory that the user named, which survive the loss of an executor.
GraphFrames' algorithms fail without a directory, so a local session has one for them.  A Spark
Connect server frees a checkpoint when the client has no DataFrame of it; observations do not work
for checkpoints there, so rows are counted by a job.  A server without checkpoints writes tables to
a folder that the user names.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark import SparkContext, SparkFiles
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark.core.errors import error_of_task
from scribe_spark.runtime.filesystem import open_files, table_url
from scribe_spark.runtime.sessions import Connected, abilities, timed_query, usable

#: The name that Spark gave to the directory of :func:`provide_scratch_directory`.
_scratch: set[str] = set()

#: The locations of tables that a server has written, which are deleted with them.
_written: WeakKeyDictionary[DataFrame, str] = WeakKeyDictionary()


def materialise(frame: DataFrame) -> tuple[DataFrame, int]:
    """Compute `frame` once, cut its lineage, and count its rows, in one job.

    The caller must free the returned table by :func:`release`.  An `InputError` or a `RunError` of
    a task is raised as such, without Spark's traces.
    """
    table, rows = _materialised(frame, F.count(F.lit(1)))
    return table, int(rows)


def materialise_and_read(
    frame: DataFrame, columns: Sequence[str | Column]
) -> tuple[DataFrame, pa.Table]:
    """Compute `frame` once, cut its lineage, and return some (small) columns on the driver.

    The job observes the columns, so that no second query is planned.
    """
    schema = to_arrow_schema(frame.select(*columns).schema)
    table, text = _materialised(frame, F.to_json(F.collect_list(F.struct(*columns))))
    return table, _read_json(text, schema)


def _materialised(frame: DataFrame, told: Column) -> tuple[DataFrame, Any]:
    """Compute a table once, cut its lineage; return also the value of an aggregate of its rows."""
    with errors_of_tasks():
        if isinstance(abilities(frame.sparkSession), Connected):
            table = _checkpoint(frame)
            return table, table.agg(told).collect()[0][0]
        seen = Observation()
        observed = frame.observe(seen, told.alias("told"))
        with timed_query(observed):
            return _checkpoint(observed, eager=True), seen.get["told"]


def _read_json(text: str, schema: pa.Schema) -> pa.Table:
    """Return rows that Spark has written as JSON, in which binary columns are in base 64."""
    rows = json.loads(text)
    for name in (field.name for field in schema if pa.types.is_binary(field.type)):
        for row in rows:
            if name in row:
                row[name] = base64.b64decode(row[name])
    return pa.Table.from_pylist(rows, schema)


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Return a context manager that raises a task's `InputError` or `RunError` without traces."""
    try:
        yield
    except Exception as error:
        if (told := error_of_task(error)) is not None:
            raise told from None
        raise


def _checkpoint(frame: DataFrame, eager: bool = False) -> DataFrame:
    """Return the same rows with a plan of one leaf; with `eager`, they are computed now."""
    server = abilities(frame.sparkSession)
    if isinstance(server, Connected):
        if not server.checkpoints:
            return _write(frame, server)
        reliable = server.checkpoints_are_reliable
    else:
        reliable = _is_reliable(frame.sparkSession.sparkContext)
    return frame.checkpoint(eager=True) if reliable else frame.localCheckpoint(eager=eager)


def _is_reliable(context: SparkContext) -> bool:
    """Return True if the user named a directory for checkpoints, so that they outlive executors."""
    directory = context.getCheckpointDir()
    return directory is not None and directory not in _scratch


def _write(frame: DataFrame, server: Connected) -> DataFrame:
    url = server.scratch_table()
    frame.write.parquet(table_url(url))
    table = frame.sparkSession.read.schema(frame.schema).parquet(table_url(url))
    _written[table] = url
    return table


def release(table: DataFrame) -> None:
    """Free a table from :func:`materialise`: its blocks, or its files on reliable storage."""
    spark = table.sparkSession
    if isinstance(abilities(spark), Connected):
        if url := _written.pop(table, None):
            _delete_files(spark, url)
    elif usable("release_blocks", spark):
        plan = table._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() == "LogicalRDD":  # the plan of such a table
            plan.rdd().unpersist(False)
            file = plan.rdd().getCheckpointFile()
            if file.isDefined():
                _delete(spark, file.get())


def persist(frame: DataFrame) -> tuple[DataFrame, Callable[[], object]]:
    """Persist a DataFrame; return it, and a function that frees its memory."""
    server = abilities(frame.sparkSession)
    if isinstance(server, Connected) and not server.caches:
        table = _checkpoint(frame)
        return table, lambda: release(table)
    persisted = frame.persist()
    return persisted, persisted.unpersist


def union_tables(tables: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several tables with one schema; columns are matched by name."""
    first, *others = tables
    for other in others:
        first = first.unionByName(other)
    return first


def read_partition(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """Return all rows of a partition as one table, or None if the partition has no rows."""
    filled = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(filled) if filled else None


# --- a session's directory of checkpoints


def provide_scratch_directory(context: SparkContext) -> None:
    """Give a local session a directory, which Spark deletes, for GraphFrames' checkpoints."""
    if context.getCheckpointDir() is None:
        context.setCheckpointDir(Path(SparkFiles.getRootDirectory(), "checkpoints").as_uri())
        made = context.getCheckpointDir()
        if made is not None:
            _scratch.add(made)


def delete_checkpoints(spark: SparkSession) -> None:
    """Delete the files of a session's tables at its end; a folder that the user named stays."""
    server = abilities(spark)
    if isinstance(server, Connected):
        if server.scratch is not None:
            _delete_files(spark, server.scratch)
        return
    folder = spark.sparkContext.getCheckpointDir()
    if folder is not None and _is_reliable(spark.sparkContext):
        _delete(spark, folder)


def _delete(spark: SparkSession, location: str) -> None:
    path: Any = getattr(spark._jvm, "org.apache.hadoop.fs.Path")(location)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)


def _delete_files(spark: SparkSession, url: str) -> None:
    with suppress(OSError):  # it may be gone; otherwise the user can delete it
        files = open_files(spark, url)
        try:
            files.delete(url)
        finally:
            files.close()


# --- lost blocks

#: What Spark says when a block of a local checkpoint is gone with its executor (Spark 4.1: the
#: error class; before: words).
_SIGNS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")


def is_lost_block(error: BaseException) -> bool:
    """Return True if a materialised table has lost blocks and must be computed from the start."""
    text = str(error)
    return any(sign in text for sign in _SIGNS)
