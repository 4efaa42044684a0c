"""The Spark session of a command."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from scribe_spark.config import Execution
from scribe_spark.core.errors import InputError, RunError
from scribe_spark.runtime.interrupts import deferred, in_thread, interruptible
from scribe_spark.runtime.java import check_java
from scribe_spark.runtime.master import check_remote, is_own


@contextmanager
def open_session(
    execution: Execution, nodes: int, estimated_work: int, *, worlds: bool = False
) -> Iterator[Any]:
    """Return a context manager with a session for `nodes` nodes and an estimated work."""
    check_where(execution)
    # imported here, where Ctrl-C still ends the process at once
    from scribe_spark.runtime.session import session, warmed_up
    from scribe_spark.runtime.sessions import abilities, note_seconds

    make, started = partial(session, worlds=worlds), time.perf_counter()
    spark = in_thread(_checked, make, execution, nodes, estimated_work)
    note_seconds(spark, "session", time.perf_counter() - started)
    server, ended, warm_up = abilities(spark), None, ExitStack()
    _open.append((spark, warm_up))
    try:
        warm_up.enter_context(warmed_up(spark))
        with interruptible(server.cancel_all):
            yield spark
    except Exception:
        ended = server.how_it_ended()
        if ended is None:
            raise
        raise RunError(
            f"Spark's JVM ended ({ended}), probably because it had too little memory; give it more "
            "memory or simulate fewer nodes, and continue with --resume"
        ) from None
    finally:
        if ended is None:
            with deferred():
                end_session(spark)
        warm_up.close()


def check_where(execution: Execution) -> None:
    """Refuse a bad address of a Spark Connect server, and a scratch folder without a server."""
    if execution.remote is not None:
        check_remote(execution.remote)
    elif execution.scratch is not None:
        remedy = "applies to a Spark Connect server only; add --remote"
        raise InputError("scratch", execution.scratch, remedy)


def _checked(make: Callable[..., Any], *given: Any) -> Any:
    """Return ``make(*given)`` after a check of Java, if this machine runs the JVM."""
    execution: Execution = given[0]
    elsewhere = execution.remote is not None and not is_own(execution.remote)
    if not elsewhere and "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit's JVM runs
        check_java()
    return make(*given)


#: The sessions of :func:`open_session` that have not ended, each with the job that warms it up.
_open: list[tuple[Any, ExitStack]] = []


def end_session(spark: Any) -> None:
    """End a session of :func:`open_session`; others, and sessions that have ended, are left."""
    warm_ups = [warm_up for one, warm_up in _open if one is spark]
    if not warm_ups:
        return
    _open[:] = [entry for entry in _open if entry[0] is not spark]
    # the end of a session under a running task makes Spark log an error
    warm_ups[0].close()
    from scribe_spark.runtime.blocks import delete_checkpoints

    with suppress(Exception):  # the storage may not answer, or the session may have ended
        delete_checkpoints(spark)
    with suppress(Exception):
        spark.stop()
