"""The session that a command runs in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from scribe_spark.config import Execution
from scribe_spark.errors import InputError, RunError
from scribe_spark.runtime.interrupts import deferred, in_thread, interruptible
from scribe_spark.runtime.java import check_java
from scribe_spark.runtime.remote import check_remote, is_own


@contextmanager
def open_session(
    execution: Execution, nodes: int, estimated_work: int, *, worlds: bool = False
) -> Iterator[Any]:
    """A session, for the time of a ``with``.

    Parameters
    ----------
    nodes : int
        The greatest number of nodes of the runs or worlds that the session is for.
    estimated_work : int
        The cost of all its work (`RunConfig.estimated_work`).
    worlds : bool
        Whether it is for worlds alone.

    Raises
    ------
    InputError
        The server, the master or the environment is bad.
    RunError
        Spark cannot start; or its JVM ends before the ``with`` does.
    """
    check_where(execution)
    # loaded here, where Ctrl-C ends the process at once
    from scribe_spark.runtime.session import session
    from scribe_spark.runtime.sessions import abilities
    from scribe_spark.runtime.warm_up import warmed_up

    make = partial(session, worlds=worlds)
    spark = in_thread(_checked, make, execution, nodes, estimated_work)
    server, ended = abilities(spark), None
    try:
        with interruptible(server.cancel_all), warmed_up(spark):
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
                _end(spark)


def check_where(execution: Execution) -> None:
    """Refuse what is not a Spark Connect server, and a scratch folder that nobody would use.

    Raises
    ------
    InputError
    """
    if execution.remote is not None:
        check_remote(execution.remote)
    elif execution.scratch is not None:
        remedy = "applies to a Spark Connect server only; add --remote"
        raise InputError("scratch", execution.scratch, remedy)


def _checked(make: Callable[..., Any], *given: Any) -> Any:
    """Return what `make` makes, called only where Java is as Spark needs it."""
    execution: Execution = given[0]
    elsewhere = execution.remote is not None and not is_own(execution.remote)
    if not elsewhere and "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit's JVM runs
        check_java()
    return make(*given)


def _end(spark: Any) -> None:
    from scribe_spark.runtime.checkpoints import delete_checkpoints

    with suppress(Exception):  # the storage may not answer, the session be over
        delete_checkpoints(spark)
    with suppress(Exception):
        spark.stop()
