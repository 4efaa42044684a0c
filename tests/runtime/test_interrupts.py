"""Ctrl-C while Spark works: the real signal, sent to this very process."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from scribe_spark.runtime.interrupts import interruptible


def ctrl_c(after: float) -> None:
    threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_a_job_is_cancelled_and_the_session_still_answers(spark):
    cleaned = []

    def work() -> None:
        try:
            spark.range(10**13).selectExpr("sum(id % 7)").collect()
        finally:
            cleaned.extend(spark.range(5).count() for _ in range(5))

    ctrl_c(2)
    with pytest.raises(KeyboardInterrupt), interruptible(spark):
        work()
    assert cleaned == [5] * 5
    assert spark.range(7).count() == 7


def test_plain_python_is_interrupted_at_once(spark):
    ctrl_c(0.2)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), interruptible(spark):
        time.sleep(30)
    assert time.monotonic() - started < 10


def test_other_errors_pass_and_handlers_are_put_back(spark):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)
    with pytest.raises(ZeroDivisionError), interruptible(spark):
        1 / 0  # noqa: B018
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM)) == before
