"""The one loop of the simulation: step, truncate, release, count, stop, report.

A superstep turns one table of messages into the next.  The loop owns everything that makes that
cheap and flat in memory; no other module persists or checkpoints in a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scribe_spark.progress import Progress, Silent

__all__ = ["Log", "Rounds", "gathered", "materialise", "release", "run", "stacked", "union"]

#: step(messages, past) -> messages: the next round's messages, lazily.
Step = Callable[[DataFrame, Sequence[DataFrame]], DataFrame]


@dataclass(frozen=True)
class Rounds:
    """What a loop leaves: one materialised table per round, to be released by the caller."""

    tables: tuple[DataFrame, ...]
    rows: tuple[int, ...]

    def union(self) -> DataFrame:
        """All rounds' rows in one DataFrame, of no more partitions than a round's."""
        return _narrow(union(self.tables))

    def release(self) -> None:
        """Free every round's blocks."""
        for table in self.tables:
            release(table)


def run(
    name: str,
    first: DataFrame,
    step: Step,
    *,
    harvest: Callable[[DataFrame], DataFrame] | None = None,
    limit: int = 10_000,
    progress: Progress | None = None,
) -> Rounds:
    """Run supersteps until a round has no message.

    Parameters
    ----------
    name : str
        What the progress report calls the loop; its jobs are ``NAME round N`` in Spark's UI.
    first : DataFrame
        The messages of round 0.
    step : callable
        ``step(messages, past) -> messages``; `past` holds the tables kept so far, this round's
        last.
    harvest : callable, optional
        The part of a round's table to keep; the rest is released once the next round stands, so
        memory does not grow with the number of rounds.  Without it whole tables are kept.
    limit : int
        More rounds than this mean that the messages never end.

    Raises
    ------
    RuntimeError
        `limit` rounds were not enough.
    """
    progress = progress or Silent()
    kept: list[DataFrame] = []
    counts: list[int] = []
    messages, before = first, None
    context = first.sparkSession.sparkContext
    started = time.perf_counter()
    for number in range(limit):
        # 1. truncate: one job computes the round, cuts its lineage and counts it
        with _described(context, f"{name} round {number}"):
            table, rows = materialise(messages)
        # 2. release the round before, which nothing needs any more
        if before is not None:
            release(before)
        # 3. stop
        if rows == 0:
            release(table)
            return Rounds(tuple(kept), tuple(counts))
        # 4. keep
        counts.append(rows)
        if harvest is None:
            kept.append(table)
        else:
            with _described(context, f"{name} round {number}"):
                part, any_part = materialise(harvest(table))
            if any_part:
                kept.append(part)
            else:
                release(part)
            before = table
        # 5. report
        now = time.perf_counter()
        progress.round(name, number, rows, now - started)
        started = now
        # 6. step
        messages = step(table, tuple(kept))
    raise RuntimeError(f"{name}: messages still on their way after {limit} rounds")


def materialise(frame: DataFrame) -> tuple[DataFrame, int]:
    """Compute `frame` once, cut its lineage, and count it, in one job.

    With a checkpoint directory set on the SparkContext the blocks go there and survive the loss of
    an executor; otherwise they live on the executors.
    """
    seen = Observation()
    watched = frame.observe(seen, F.count(F.lit(1)).alias("rows"))
    if frame.sparkSession.sparkContext._jsc.sc().getCheckpointDir().isDefined():
        table = watched.checkpoint(eager=True)
    else:
        table = watched.localCheckpoint(eager=True)
    return _without_estimates(table), int(seen.get["rows"])


def _without_estimates(table: DataFrame) -> DataFrame:
    """A checkpoint keeps the planner's estimate of its size, a product over all joins before it.

    Carried from round to round, its digits double with every join: planning soon takes longer than
    the round, and in the end all memory.
    """
    plan = table._jdf.queryExecution().analyzed()
    return _leaf(table.sparkSession, plan, plan.rdd())


def stacked(tables: Sequence[DataFrame], like: DataFrame) -> DataFrame:
    """The rows of rounds' tables as one leaf of a plan: a union takes longer with every round.

    Parameters
    ----------
    tables : sequence of DataFrame
        Tables that a loop keeps, partitioned by the values that `like` is partitioned by, whatever
        Spark knows their columns as.  Where that cannot be, this is :func:`union`.
    like : DataFrame
        Another of the loop's tables.
    """
    spark = like.sparkSession
    plan, *plans = leaves = [_materialised(table) for table in (like, *tables)]
    hashed = {leaf and _hash_partitions(leaf) for leaf in leaves}
    fitting = all(_fits(table.schema, like.schema) for table in tables)
    if not fitting or len(hashed) > 1 or None in hashed:
        return union(tables)
    rows = getattr(spark._jvm, "org.apache.spark.rdd.SQLPartitioningAwareUnionRDD")(
        spark._jsc.sc(),
        spark._jvm.PythonUtils.toSeq([one.rdd() for one in plans]),  # type: ignore[union-attr]
        *hashed,
        getattr(spark._jvm, "scala.reflect.ClassTag").Object(),
    )
    return _leaf(spark, plan, rows)


def _materialised(table: DataFrame) -> JavaObject | None:
    """The plan of a table that :func:`materialise` made."""
    plan = table._jdf.queryExecution().analyzed()
    return plan if plan.getClass().getSimpleName() == "LogicalRDD" else None


def _fits(rows: StructType, columns: StructType) -> bool:
    """Rows of one schema can be read as another's: no column of it must not be NULL and may be."""
    return len(rows) == len(columns) and all(
        (a.name, a.dataType, a.nullable and not b.nullable) == (b.name, b.dataType, False)
        for a, b in zip(rows, columns, strict=True)
    )


def _hash_partitions(leaf: JavaObject) -> int | None:
    """How many partitions a leaf has, where rows are partitioned by the hash of something."""
    found = leaf.outputPartitioning()
    return found.numPartitions() if found.getClass().getSimpleName() == "HashPartitioning" else None


def _leaf(spark: SparkSession, like: JavaObject, rdd: JavaObject) -> DataFrame:
    """A DataFrame whose whole plan is `rdd`, with the columns and partitioning of a leaf `like`."""
    # (a class asked for by its whole name: each part of a dotted one is looked for in all jars)
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


@contextmanager
def _described(context: SparkContext, description: str) -> Iterator[None]:
    """Jobs inside are called so in Spark's UI and event log."""
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(description)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]


def release(table: DataFrame) -> None:
    """Free the blocks of a table that :func:`materialise` made."""
    plan = _materialised(table)
    if plan is not None:
        plan.rdd().unpersist(False)


def union(tables: Sequence[DataFrame]) -> DataFrame:
    """The rows of several tables of one schema."""
    first, *others = tables
    for other in others:
        first = first.unionByName(other)
    return first


def gathered(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """All rows of a partition, inside a kernel that needs them together; None if there are none."""
    filled = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(filled) if filled else None


def _narrow(table: DataFrame) -> DataFrame:
    """`table` in as many partitions as a shuffle makes: a union has those of all its parts."""
    return table.coalesce(int(str(table.sparkSession.conf.get("spark.sql.shuffle.partitions"))))


class Log:
    """The rows of all rounds so far as one table.

    A union of them costs more to plan with every round; this costs what its rows do.
    """

    def __init__(self) -> None:
        self._table: DataFrame | None = None

    def add(self, table: DataFrame) -> DataFrame:
        """Take in a round's table; all that was taken in so far."""
        before = self._table
        together = table if before is None else _narrow(before.unionByName(table))
        self._table, _ = materialise(together)
        if before is not None:
            release(before)
        return self._table

    def release(self) -> None:
        """Free the table."""
        if self._table is not None:
            release(self._table)
