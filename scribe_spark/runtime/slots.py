"""Slots (the tasks that Spark runs at once), and reasons why Spark cannot start a barrier stage.

Spark starts all tasks of a barrier stage at once.  With too few slots it tries for ten minutes
before it reports that, so the slots are counted first.
"""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from scribe_spark.runtime.master import is_local_master
from scribe_spark.runtime.sessions import abilities, usable
from scribe_spark.runtime.settings import read_setting

#: Seconds within which further executors must begin after the first one.
_EXECUTORS = 5.0
_AGAIN = 0.2


def slots(spark: SparkSession, wanted: int = 1) -> int | None:
    """Return the number of tasks that Spark runs at once, if known; wait for `wanted` slots."""
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
