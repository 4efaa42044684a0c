"""Spark jobs whose tasks run together and exchange messages (barrier stages).

Spark starts all tasks of a barrier stage at once, and ends all of them when one fails.  A *lost*
task (its process or executor has ended, or does not answer) raises an exception in Spark, which
runs the stage again, at most four times, because a shuffle follows it.  An *error* in a task's work
is returned as a result: the tasks end, one row carries the error to the driver, which raises it;
the stage is not run again.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark import BarrierTaskContext, inheritable_thread_target
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark.core.errors import InputError, RunError, one_line
from scribe_spark.core.paths import is_temporary, replace_file
from scribe_spark.engine.between_tasks import Ended, Exchange, PeerLost
from scribe_spark.engine.packing import Packed, pack_rows
from scribe_spark.runtime.blocks import is_lost_block, materialise_and_read, release
from scribe_spark.runtime.sessions import abilities, describe_jobs
from scribe_spark.runtime.settings import slots, why_no_barrier
from scribe_spark.schemas import ROWS

if TYPE_CHECKING:
    from scribe_spark.engine.flight import Flight

T = TypeVar("T")

#: ``work(exchange, batches)``: the function that each task runs.  It reads the rows of its bucket
#: and yields new rows; both have the schema `ROWS`.
Work = Callable[[Exchange, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: The maximal number of times that an action is run if it loses tasks.
_TRIES = 4

#: The time limit, in seconds, of the test that tasks can connect to each other.
_TRIAL = 60.0

#: The name of the row in which a task reports an error of its work.
_FAILED = "failed task"

#: Matches the line of a Spark error that reports a lost task.
_LOST = re.compile(
    r"PeerLost: (.*)|(Python worker exited unexpectedly \(\w+\))|((?:ExecutorLost|FetchFailed).*)"
)


class TaskFailed(RuntimeError):
    """The cause of an error of a task, on the driver; its message is the task's traceback."""


def run_in_tasks(
    rows: DataFrame,
    tasks: int,
    work: Work,
    columns: Sequence[str | Column],
    folder: str | None = None,
    patience: float | None = None,
    place: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> tuple[DataFrame, pa.Table]:
    """Run one job in which each task turns the rows of its bucket into new rows.

    Task number b reads the `ROWS` of bucket b; ``work(exchange, batches)`` may exchange messages
    with the other tasks.  The tasks tell their addresses in `folder` if they share one, else by
    Spark's barrier; a single task needs neither.  A task that does not answer for `patience`
    seconds (by default 60) counts as lost.  ``place(rows)`` partitions what a single task has made.
    Return the new rows, materialised, and the `columns` of all new rows.  An `InputError` of a task
    is raised as such, other errors and repeatedly lost tasks as a `RunError`.
    """
    frame = _in_tasks(rows, tasks, work, patience, folder)
    # the shuffle lets Spark itself run a lost stage again, and ends the barrier stage
    frame = frame.repartitionById(tasks, F.col("bucket")) if tasks > 1 else place(frame)
    wanted, tries = [*columns, _error_of_task()], 1 if tasks > 1 else _TRIES
    table, read = run_again_where_lost(lambda: materialise_and_read(frame, wanted), tries)
    try:
        _raise_error(read)
    except Exception:
        release(table)
        raise
    return table, read.drop([_FAILED])


def run_again_where_lost(action: Callable[[], T], tries: int) -> T:
    """Run ``action()``, again if it lost tasks (`tries` times in all), and return its result."""
    for tried in range(1, tries + 1):
        try:
            return action()
        except Exception as error:
            found = _LOST.search(str(error))
            if found is None or is_lost_block(error):
                raise
            if tried == tries:
                why = next(filter(None, found.groups()))
                raise RunError(f"tasks were lost repeatedly: {why}") from error
    raise ValueError(f"tries = {tries}")


def _in_tasks(
    rows: DataFrame, tasks: int, work: Work, patience: float | None, folder: str | None = None
) -> DataFrame:
    """Return the rows that communicating tasks make of the rows of their buckets; lazy."""
    secret = secrets.token_bytes(32)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        exchange = _connected(tasks, secret, patience, folder) if tasks > 1 else Exchange()
        try:
            yield from work(exchange, batches)
        except BaseException as error:
            exchange.end(error)
            ended = Ended.by(error, exchange.rank)
            if ended.why != "failed":
                raise
            told = {"ended": np.frombuffer(ended.to_bytes(), np.uint8)}
            yield from pack_rows(exchange.rank, exchange.rank, False, _FAILED, told)
            return
        exchange.end()

    if tasks == 1:
        return rows.coalesce(1).mapInArrow(run, ROWS)
    placed = rows.repartitionById(tasks, F.col("bucket").cast("int"))
    return placed.mapInArrow(run, ROWS, barrier=True)


def _error_of_task() -> Column:
    """Return a column with the packed error of a task, for a job's rows; NULL in all other rows."""
    is_error = ~F.col("table") & (F.col("name") == _FAILED)
    return F.when(is_error, F.col("data")).alias(_FAILED)


def _raise_error(read: pa.Table) -> None:
    """Raise the error of the first task that reports one among the rows `read`."""
    packed = read.column(_FAILED).drop_null()
    if not len(packed):
        return
    ended = Ended.of_bytes(Packed(packed[0].as_buffer())["ended"].tobytes())
    cause = TaskFailed(ended.trace)
    if ended.refused is not None:
        raise InputError(*ended.refused) from cause
    raise RunError(ended.line) from cause


# --- in a task of a barrier stage


def _connected(tasks: int, secret: bytes, patience: float | None, folder: str | None) -> Flight:
    """Return the exchange of this task, connected with all others of its barrier stage."""
    # imported in the worker only: gRPC starts threads, and Spark's daemon forks its workers
    from scribe_spark.engine.flight import LOOPBACK, PATIENCE, Address, Flight, Server

    context = BarrierTaskContext.get()
    hosts = [info.address.rpartition(":")[0].strip("[]") for info in context.getTaskInfos()]
    if len(hosts) != tasks:
        raise ValueError(f"the stage has {len(hosts)} tasks instead of {tasks}")
    rank = context.partitionId()
    server = Server(secret, LOOPBACK if len(set(hosts)) == 1 else own_address(hosts, rank))
    try:
        one = server.address
        own = f"{one.host} {one.port} {one.nonce}"
        if folder is None:
            gathered = context.allGather(own)
        else:
            meeting = Path(folder, f"addresses {context.stageId()}")
            gathered = gather_in_files(meeting, rank, tasks, context.taskAttemptId(), own, PATIENCE)
    except BaseException:
        server.shutdown()
        raise
    addresses = [Address(h, int(p), n) for h, p, n in (line.split() for line in gathered)]
    return Flight(rank, server, addresses, secret, PATIENCE if patience is None else patience)


def gather_in_files(
    folder: Path, rank: int, tasks: int, attempt: int, own: str, patience: float
) -> list[str]:
    """Exchange the texts of all tasks of a stage through files in a folder that they share.

    Spark's `allGather` takes a second.  Files of earlier attempts, and of processes that have
    ended, are ignored; a missing text raises a `PeerLost` after `patience` seconds.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{rank} {attempt} {os.getpid()}"
    replace_file(folder / name, own.encode())
    end = time.monotonic() + patience
    while True:
        latest: dict[int, tuple[int, str]] = {}
        for written in os.listdir(folder):
            if is_temporary(written):
                continue
            peer, number, process = written.split()
            if not _runs(int(process)):
                continue
            latest[int(peer)] = max(latest.get(int(peer), (-1, "")), (int(number), written))
        if len(latest) == tasks:
            return [(folder / latest[peer][1]).read_text() for peer in range(tasks)]
        if time.monotonic() > end:
            missing = min(set(range(tasks)) - latest.keys())
            why = f"task {missing} has told no address for {patience:g} s"
            raise PeerLost(Ended("lost", missing, why))
        time.sleep(0.002)


def _runs(process: int) -> bool:
    """Return True if a process with this number runs on this machine."""
    try:
        os.kill(process, 0)  # signal 0 is not sent
    except ProcessLookupError:
        return False
    return True


def own_address(hosts: Sequence[str], rank: int) -> str:
    """Return the address on which the task `rank` listens for tasks of other machines.

    If the address that Spark reports for the executor is a loopback address, or not of this
    machine, it is that of the network interface that leads to another host of the job.
    """
    with suppress(OSError):
        own = str(socket.getaddrinfo(hosts[rank], None, type=socket.SOCK_STREAM)[0][4][0])
        family = socket.AF_INET6 if ":" in own else socket.AF_INET
        if not (own.startswith("127.") or own == "::1"):
            socket.create_server((own, 0), family=family).close()
            return own
    other = next(host for host in hosts if host != hosts[rank])
    family, kind, protocol, _, found = socket.getaddrinfo(other, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(found)  # connecting a datagram socket sends nothing
        return str(probe.getsockname()[0])


# --- can tasks exchange messages in this session?

_tried: WeakKeyDictionary[SparkSession, dict[int, str | None]] = WeakKeyDictionary()


def why_no_tasks(spark: SparkSession, tasks: int) -> str | None:
    """Return why tasks cannot exchange messages in a session, or None; tested once a session."""
    if tasks == 1:
        return None
    if importlib.util.find_spec("pyarrow._flight") is None:
        return "this pyarrow is without Arrow Flight"
    if (reason := why_no_barrier(spark, tasks)) is not None:
        return reason
    if abilities(spark).shares_disk and slots(spark) is not None:
        return None
    tried = _tried.setdefault(spark, {})
    if tasks not in tried:
        tried[tasks] = _try(spark, tasks)
    return tried[tasks]


def _try(spark: SparkSession, tasks: int) -> str | None:
    """Run a job in which `tasks` tasks exchange a message; return why it failed, or None."""
    reasons = [f"tasks have not reached each other for {_TRIAL:g} s"]
    tag = f"trial-{secrets.token_hex(8)}"

    def attempt() -> None:
        abilities(spark).tag(tag, "trial")
        rows = spark.range(tasks).select(F.col("id").cast("int").alias("bucket"))
        frame = _in_tasks(rows, tasks, _swap_once, 10.0)
        try:
            _raise_error(frame.select(_error_of_task()).toArrow())
            reasons[:] = []
        except Exception as error:
            reasons[:] = [one_line(error)]

    with describe_jobs(spark, "a trial of the network between tasks"):
        # a thread, because Spark may never end the job
        thread = threading.Thread(target=inheritable_thread_target(spark)(attempt), daemon=True)
        thread.start()
        thread.join(_TRIAL)
    if thread.is_alive():
        with suppress(Exception):
            abilities(spark).cancel_tagged(tag)
    return reasons[0] if reasons else None


def _swap_once(exchange: Exchange, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    exchange.swap({}, b"")
    yield from ()
