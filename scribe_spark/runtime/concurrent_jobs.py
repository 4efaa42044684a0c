"""Spark jobs in parallel to the caller's, as planning and the last tasks of a job leave
cores idle.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from scribe_spark.runtime.sessions import abilities

_POOL = "concurrent-jobs"


class Submit(Protocol):
    """The type of the function that :func:`concurrent_jobs` yields."""

    def __call__(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]: ...


@contextmanager
def concurrent_jobs(spark: SparkSession) -> Iterator[Submit]:
    """Yield a function that runs work in a second thread, one piece after the other.

    The end of the ``with`` block waits for all pieces.  If the caller raises (for example because
    of Ctrl-C), the jobs of the running piece are cancelled, and later pieces are dropped.  If the
    session schedules fairly, the caller's jobs and these get half of the cores each.

    Examples
    --------
    >>> with concurrent_jobs(spark) as submit:
    ...     rows = submit(frame.count)
    ...     other.write.parquet(place)
    ...     print(rows.result())
    """
    pool, session = ThreadPoolExecutor(1, "concurrent-jobs"), abilities(spark)
    tag = f"concurrent-jobs-{uuid.uuid4().hex}"

    def submit(work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        def tagged() -> Any:
            session.tag(tag, _POOL)
            return work(*given, **named)

        # the thread has the caller's local properties, such as its pool and its jobs' description
        return pool.submit(inheritable_thread_target(spark)(tagged))

    try:
        yield submit
    except BaseException:
        with suppress(Exception):  # the session may be ending
            session.cancel_tagged(tag)
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
