"""The SQL settings for supersteps, and the number of tasks that Spark runs at once (slots).

Spark starts all tasks of a barrier stage at once.  With too few slots it tries for ten minutes
before it reports that, so the slots are counted first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from scribe_spark.runtime.master import is_local_master
from scribe_spark.runtime.sessions import abilities, is_connect, parallelism, usable

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import Execution


def default_partitions(spark: SparkSession, nodes: int, *, in_tasks: bool = False) -> int:
    """Return the cores, or with jobs a partition per 250,000 nodes if that is more."""
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

    Adaptive execution takes a third of a short superstep and loses checkpoints' partitioning.
    """
    return {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        _PARTITIONS: str(partitions),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }


@contextmanager
def tuned(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Return a context manager with the SQL settings for supersteps; it restores former ones."""
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


# --- slots


#: Seconds within which further executors must begin after the first one.
_EXECUTORS = 5.0
_AGAIN = 0.2


def slots(spark: SparkSession, wanted: int = 1) -> int | None:
    """Return the number of tasks that Spark runs at once, if known; wait for `wanted` ones."""
    found = _slots(spark)
    if found is None or found >= wanted or is_local_master(abilities(spark).master):
        return found
    spark.range(1).count()  # Spark waits for the first executor
    last = time.monotonic() + _EXECUTORS
    while (found := _slots(spark)) is not None and found < wanted and time.monotonic() < last:
        time.sleep(_AGAIN)
    return found


def _slots(spark: SparkSession) -> int | None:
    if usable("jvm_questions", spark):
        context: Any = spark.sparkContext._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        return int(context.maxNumConcurrentTasks(profile))
    if read_setting(spark, "spark.default.parallelism") is not None:
        return None  # parallelism is then not the number of cores
    return abilities(spark).parallelism // int(read_setting(spark, "spark.task.cpus") or 1)


def why_no_barrier(spark: SparkSession, tasks: int) -> str | None:
    """Return why Spark cannot start a barrier stage with a number of tasks; None if it can."""
    for name, why in _SETTINGS.items() if not is_local_master(abilities(spark).master) else ():
        if (read_setting(spark, name) or "").lower() == "true":
            return f"{why} ({name})"
    found = slots(spark, tasks)
    if found is not None and found < tasks:
        return f"{tasks} tasks cannot run at once: there are {found} slots"
    return None


_SETTINGS = {
    "spark.dynamicAllocation.enabled": "Spark starts no barrier stage with dynamic allocation",
    "spark.network.crypto.enabled": "connections between tasks would not be encrypted",
    "spark.ssl.rpc.enabled": "connections between tasks would not be encrypted",
}
