"""The first job of a session, at the same time as the driver's own work.

The first job with a Python kernel takes two seconds of both cores: Python workers start, and the
JVM loads its planner.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from scribe_spark.runtime.sessions import Classic, abilities, describe_jobs, parallelism

_LONGEST = 60.0  # the longest wait for the job, in seconds


@contextmanager
def warmed_up(spark: SparkSession) -> Iterator[None]:
    """Start a job with a row for each core, on this machine only; wait for it at the end.

    A thread that still works when Python ends can crash the process.
    """
    server, thread = abilities(spark), threading.Thread(target=_play, args=(spark,), daemon=True)
    if isinstance(server, Classic) and server.shares_disk:
        thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            thread.join(_LONGEST)


def _play(spark: SparkSession) -> None:
    cores = parallelism(spark)
    rows = spark.range(0, cores, 1, cores)
    with suppress(Exception), describe_jobs(spark, "warm-up"):  # the session may be over
        rows.mapInArrow(lambda batches: batches, "id bigint").toArrow()
