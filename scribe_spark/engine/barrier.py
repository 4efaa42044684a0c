"""Jobs whose tasks stay: a barrier stage, in which tasks exchange messages while they work.

:func:`play_in_tasks` gives the frame of such a job, and :func:`run_again_where_lost` runs an action
on it.  Spark starts all tasks of a barrier stage at once, or none, and ends all when one ends with
an error.  It does not start a last stage again: the action is run again here, where a task was
lost.  An error of the work itself is not tried again.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from scribe_spark.engine.between_tasks import Alone, BetweenTasks, Exchange, PeerFailed
from scribe_spark.errors import RunError, one_line
from scribe_spark.runtime.sessions import parallelism

if TYPE_CHECKING:
    from scribe_spark.engine.flight import Flight

__all__ = ["TaskFailed", "Work", "play_in_tasks", "run_again_where_lost", "why_no_tasks"]

T = TypeVar("T")

#: ``work(exchange, batches)``: the work of a task; takes the rows of its bucket, gives others.
Work = Callable[[Exchange, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: How often an action is run, where tasks are lost.
_TRIES = 4

#: The line of a task's error in the text of Spark's.
_FAILED = re.compile(r"TaskFailed: (.*)")

#: The reasons of a lost task in the text of Spark's error.
_LOST = re.compile(r"PeerLost: (.*)|(Python worker exited unexpectedly.*)|(ExecutorLost.*)")
_BARRIER = "barrier task"


class TaskFailed(RuntimeError):
    """The work of a task raised an error; Spark brings the text to the driver."""


def play_in_tasks(
    rows: DataFrame,
    tasks: int,
    work: Work,
    schema: StructType | str,
    patience: float | None = None,
) -> DataFrame:
    """Return what tasks make of rows while they exchange messages; lazy.

    An action has to be wrapped in :func:`run_again_where_lost`, and to need all partitions.
    Between this frame and the next shuffle, or checkpoint, there may be no union and no coalesce.

    Parameters
    ----------
    rows : DataFrame
        Rows with a column ``bucket``: the number of their task.
    tasks : int
        The number of tasks; one is played without a barrier.
    work : callable
        ``work(exchange, batches)``, called in each task.
    schema : StructType or str
        The schema of the batches that `work` yields.
    patience : float, optional
        Seconds in which a task has to answer others; a minute by default.
    """
    if tasks == 1:
        return rows.coalesce(1).mapInArrow(_alone(work), schema)
    secret = secrets.token_bytes(32)
    placed = rows.repartitionById(tasks, F.col("bucket").cast("int"))
    return placed.mapInArrow(_together(work, tasks, secret, patience), schema, barrier=True)


def run_again_where_lost(action: Callable[[], T]) -> T:
    """Return the result of an action on the frame of :func:`play_in_tasks`.

    Where a task is lost the action is run again, a few times.

    Raises
    ------
    RunError
        The work of a task raised an error; or tasks were lost each time.
    """
    for tried in range(1, _TRIES + 1):
        try:
            return action()
        except Exception as error:
            text = str(error)
            if found := _FAILED.search(text):
                raise RunError(found[1]) from error
            if _BARRIER not in text:
                raise
            if tried == _TRIES:
                raise RunError(f"tasks were lost {_TRIES} times: {_cause(text)}") from error
    raise AssertionError


def _cause(text: str) -> str:
    found = _LOST.search(text)
    return "Spark does not say why" if found is None else next(filter(None, found.groups()))


def _alone(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _play(work, Alone(), batches)

    return run


def _together(
    work: Work, tasks: int, secret: bytes, patience: float | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _play(work, _connected(tasks, secret, patience), batches)

    return run


def _play(
    work: Work, exchange: BetweenTasks, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a task; tell the other tasks when it ends."""
    try:
        yield from work(exchange, batches)
    except PeerFailed as error:
        exchange.end(error)
        raise TaskFailed(error.ended.line) from None
    except Exception as error:
        exchange.end(error)
        raise TaskFailed(f"{type(error).__name__}: {one_line(error)}") from error
    except BaseException as error:
        exchange.end(error)
        raise
    exchange.end()


def _connected(tasks: int, secret: bytes, patience: float | None) -> Flight:
    """Return the exchange of this task of a barrier stage with the others."""
    # here, in a worker: gRPC starts threads, and the daemon forks
    from scribe_spark.engine.flight import LOOPBACK, PATIENCE, Address, Flight, Server

    context = BarrierTaskContext.get()
    hosts = [info.address.rpartition(":")[0].strip("[]") for info in context.getTaskInfos()]
    if len(hosts) != tasks:
        raise ValueError(f"the stage has {len(hosts)} tasks instead of {tasks}")
    rank = context.partitionId()
    server = Server(secret, LOOPBACK if len(set(hosts)) == 1 else _own_address(hosts[rank]))
    one = server.address
    told = context.allGather(f"{one.host} {one.port} {one.nonce}")
    addresses = [Address(h, int(p), n) for h, p, n in (line.split() for line in told)]
    return Flight(rank, server, addresses, secret, patience or PATIENCE)


def _own_address(host: str) -> str:
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def why_no_tasks(spark: SparkSession, tasks: int) -> str | None:
    """Return why tasks cannot exchange messages in a session, in a line; None where they can."""
    if tasks > parallelism(spark):
        return f"{tasks} tasks cannot run at once: there are {parallelism(spark)} slots"
    return None
