"""The first job of a session, while the driver has work of its own.

The first job with a Python kernel takes two seconds of both cores: Python workers start, and the
JVM loads what plans jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark.runtime.sessions import Classic, abilities, describe_jobs, parallelism

__all__ = ["warm_up"]


def warm_up(spark: SparkSession) -> None:
    """Begin a job of a row for each core, which nobody waits for; on this machine alone."""
    server = abilities(spark)
    if isinstance(server, Classic) and server.shares_disk:
        threading.Thread(target=_play, args=(spark,), name="warm-up", daemon=True).start()


def _play(spark: SparkSession) -> None:
    cores = parallelism(spark)
    rows = spark.range(0, cores, 1, cores)
    with suppress(Exception), describe_jobs(spark, "warm-up"):  # the session may be over
        rows.mapInArrow(_same, "id bigint").toArrow()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
