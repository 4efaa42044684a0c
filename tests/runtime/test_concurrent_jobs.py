"""Spark jobs in a thread beside the caller's."""

from __future__ import annotations

import threading
import time

import pytest

from scribe_spark.runtime.sessions import concurrent_jobs


@pytest.mark.filterwarnings("error")
def test_jobs_run_beside_the_callers(spark):
    """And say nothing on stderr."""
    context = spark.sparkContext
    context.setLocalProperty("scribe.test", "mine")
    with concurrent_jobs(spark) as submit:
        rows = submit(spark.range(5).count)
        told = submit(context.getLocalProperty, "scribe.test")
        assert spark.range(7).count() == 7
        assert (rows.result(), told.result()) == (5, "mine")
    context.setLocalProperty("scribe.test", None)


def test_what_raises_there_raises_here(spark):
    with concurrent_jobs(spark) as submit, pytest.raises(ZeroDivisionError):
        submit(lambda: 1 / 0).result()


def test_what_has_not_begun_is_dropped_where_the_caller_raises(spark):
    begun, free, done, pending = threading.Event(), threading.Event(), [], []

    def first() -> None:
        begun.set()
        free.wait(10)
        done.append("first")

    def interrupted() -> None:
        with concurrent_jobs(spark) as submit:
            submit(first)
            pending.append(submit(done.append, "second"))
            begun.wait(10)
            threading.Timer(0.2, free.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["first"]  # what runs is waited for
    assert pending[0].cancelled()


def test_a_running_job_is_cancelled_where_the_caller_raises(spark):
    """Not waited for, which can take minutes; and no job of anybody else."""
    failed = []

    def compute() -> None:
        try:
            spark.range(10**12).selectExpr("sum(id % 7)").collect()
        except Exception as error:
            failed.append(error)

    def interrupted() -> None:
        with concurrent_jobs(spark) as submit:
            submit(compute)
            while not spark.sparkContext.statusTracker().getActiveJobsIds():
                time.sleep(0.05)
            raise KeyboardInterrupt

    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.perf_counter() - started < 30
    assert "cancelled" in str(failed[0])
    with concurrent_jobs(spark) as submit:
        assert submit(spark.range(5).count).result() == 5
