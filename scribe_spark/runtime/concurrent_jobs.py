"""Spark jobs beside the caller's: planning and the last tasks of a job leave cores idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

__all__ = ["concurrent_jobs"]


class Submit(Protocol):
    """What :func:`concurrent_jobs` gives."""

    def __call__(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]: ...


@contextmanager
def concurrent_jobs(spark: SparkSession) -> Iterator[Submit]:
    """Give a function that runs work in a thread beside the caller's, one piece after the other.

    At the end it waits for the piece that is running; pieces that have not begun are dropped, which
    are some only where the caller raises.

    Examples
    --------
    >>> with concurrent_jobs(spark) as submit:
    ...     rows = submit(frame.count)
    ...     other.write.parquet(place)
    ...     print(rows.result())
    """
    pool = ThreadPoolExecutor(1, "concurrent-jobs")

    def submit(work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        # the thread has the caller's local properties, such as its pool and its jobs' description
        return pool.submit(inheritable_thread_target(spark)(work), *given, **named)

    try:
        yield submit
    finally:
        pool.shutdown(cancel_futures=True)
