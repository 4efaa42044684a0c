"""The SQL settings for supersteps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from scribe_spark.runtime.sessions import is_connect, parallelism
from scribe_spark.runtime.tricks import enabled

if TYPE_CHECKING:
    from scribe_spark.config import Execution


def default_partitions(spark: SparkSession, nodes: int, *, in_tasks: bool = False) -> int:
    """Return the number of partitions: the cores, at most 250,000 nodes each unless tasks stay."""
    return parallelism(spark) if in_tasks else max(parallelism(spark), -(-nodes // 250_000))


def partitions_of(execution: Execution | None, spark: SparkSession, nodes: int) -> int:
    """Return the number of partitions in an execution's settings, or the default."""
    if execution is not None and execution.partitions:
        return execution.partitions
    in_tasks = execution is not None and execution.engine == "tasks"
    return default_partitions(spark, nodes, in_tasks=in_tasks)


#: Our own setting, which is set inside :func:`tuned`.
_PARTITIONS = "spark.scribe_spark.partitions"


def bucket_count(spark: SparkSession, nodes: int) -> int:
    """Return the number of buckets of an overlay: one per partition."""
    chosen = read_setting(spark, _PARTITIONS)
    return int(chosen) if chosen else default_partitions(spark, nodes)


def sql_settings(partitions: int) -> dict[str, str]:
    """Return the SQL settings for supersteps.

    Adaptive execution takes a third of a short superstep and loses the partitioning of a
    checkpoint; co-partitioning on a subset of the join keys saves one shuffle per round.
    """
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        _PARTITIONS: str(partitions),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    if enabled("internal_settings"):
        settings |= {
            "spark.sql.requireAllClusterKeysForCoPartition": "false",
            # columns are packed into one, so that joins copy one: do not unpack them before the
            # join
            "spark.sql.optimizer.expression.nestedPruning.enabled": "false",
        }
    return settings


@contextmanager
def tuned(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Return a context manager with the SQL settings for supersteps; it restores others."""
    settings = sql_settings(partitions)
    before = {name: read_setting(spark, name) for name in settings}
    set_all(spark, settings)
    try:
        yield
    finally:
        set_all(spark, before)


def read_setting(spark: SparkSession, name: str) -> str | None:
    """Return a setting; None if it is not set or not readable."""
    try:
        return spark.conf.get(name, None)
    except PySparkException:
        if is_connect(spark):
            return None
        raise


def set_all(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    """Set SQL settings, unset those that are None, and ignore refusals by a server."""
    for name, value in settings.items():
        with suppress(PySparkException) if is_connect(spark) else nullcontext():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
