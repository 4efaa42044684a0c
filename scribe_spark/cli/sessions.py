"""The session that a command runs in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from scribe_spark.config import Execution
from scribe_spark.runtime.interrupts import deferred, in_thread, interruptible
from scribe_spark.runtime.java import check_java

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
    # loaded here, where Ctrl-C ends the process at once
    from scribe_spark.runtime.session import session

    spark = in_thread(_checked, session, execution, nodes, estimated_work)
    try:
        with interruptible(spark):
            yield spark
    finally:
        with deferred():
            _end(spark)


def _checked(make: Callable[..., Any], *given: Any) -> Any:
    """Return what `make` makes, called only where Java is as Spark needs it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started the JVM
        check_java()
    return make(*given)


def _end(spark: Any) -> None:
    from scribe_spark.runtime.checkpoints import delete_checkpoints

    with suppress(Exception):  # the storage may not answer, the session be over
        delete_checkpoints(spark)
    with suppress(Exception):
        spark.stop()
