"""The session that a command runs in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from scribe_spark.config import Execution
from scribe_spark.runtime.interrupts import interruptible

__all__ = ["open_session"]


@contextmanager
def open_session(execution: Execution, nodes: int, estimated_work: int) -> Iterator[Any]:
    """A session, for the time of a ``with``.

    Parameters
    ----------
    nodes : int
        The most nodes of what it is for.
    estimated_work : int
        What that costs, roughly.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started the JVM
        from scribe_spark.runtime.java import check_java

        check_java()
    from scribe_spark.runtime.checkpoints import delete_checkpoints
    from scribe_spark.runtime.session import session

    spark = session(execution, nodes, estimated_work)
    try:
        with interruptible(spark):
            yield spark
    finally:
        with suppress(Exception):  # the storage may not answer, the session be over
            delete_checkpoints(spark)
        spark.stop()
