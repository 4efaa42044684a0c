"""Ctrl-C in the midst of Spark's work.

pyspark's own handler asks the JVM to cancel its jobs from inside whatever call is waiting for the
JVM.  Both calls share a connection, so both break, and all that follows.  Here jobs are cancelled
from a thread, which has a connection of its own, and the interrupt waits until no call is on its
way; so whoever cleans up can still talk to Spark.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["EXIT_CODE", "interruptible"]

#: What a shell makes of a process that SIGINT ended.
EXIT_CODE = 130

#: Seconds between two looks at whether the call has come back.
_AGAIN = 0.2


@contextmanager
def interruptible(spark: Any) -> Iterator[None]:
    """Inside, Ctrl-C cancels the jobs of `spark` and raises KeyboardInterrupt.

    A second one ends the process at once; the JVM ends with it.  To be entered by the main thread
    (as signals ask for), after the session has put its own handler in place.
    """
    interrupted = False
    canceller = threading.Thread()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted, canceller
        interrupted = True
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_CODE))
        # a call that came back with an error is what we wanted: let the cleaning up be
        unwinding = number == signal.SIGALRM and sys.exc_info()[0] is not None
        if not unwinding:
            if not _in_call(frame):
                raise KeyboardInterrupt
            if not canceller.is_alive():
                canceller = threading.Thread(target=_cancel, args=(spark,), daemon=True)
                canceller.start()
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM)}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    except Exception:
        if interrupted:  # a cancelled job is how the call came back
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_call(frame: FrameType | None) -> bool:
    """Whether `frame` is inside a call to the JVM."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        frame = frame.f_back
    return False


def _cancel(spark: Any) -> None:
    # the session may be ending by itself; then there is nothing to cancel
    try:
        spark.sparkContext.cancelAllJobs()
    except Exception:
        return
