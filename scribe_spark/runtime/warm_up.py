"""The first job of a session, while the driver has work of its own.

The first job with a Python kernel takes two seconds of both cores: Python workers start, and the
JVM loads what plans jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark.runtime.sessions import Classic, abilities, describe_jobs, parallelism

_LONGEST = 60.0  # seconds that the job is waited for


@contextmanager
def warmed_up(spark: SparkSession) -> Iterator[None]:
    """Begin a job of a row for each core, on this machine alone; at the end it is over.

    A thread that is still at work when Python ends can bring the process down.
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
        rows.mapInArrow(_same, "id bigint").toArrow()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
