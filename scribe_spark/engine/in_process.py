"""The engine in one process: supersteps play the buckets one after the other or in threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.in_turn import step_of
from scribe_spark.engine.limits import counted, most_supersteps
from scribe_spark.engine.packing import Columns, count_rows, of_frame, to_frame
from scribe_spark.engine.program import Outbox, Program, Tables, deliver, merge_inbox

_MOST_THREADS = 4  # more do not help: only one thread at a time runs Python code
_LEAST_NODES = 8192  # the smallest bucket that is worth a thread


def play(
    program: Program,
    tables: Sequence[Tables] | Mapping[int, Tables],
    first: Mapping[str, Columns] | None = None,
    threads: int = 1,
    exchange: Exchange | None = None,
) -> list[int]:
    """Play a program until no node sends; return the number of messages in each superstep.

    The tables of each bucket (or of some, by number) change in place.  `first` has messages for
    superstep 0, by kind.  With an `exchange` between tasks, counts are sums of all tasks.

    Raises
    ------
    RunError
        The program does not end; see `limits.counted`.
    """
    own = tables if isinstance(tables, Mapping) else dict(enumerate(tables))
    if threads == 1:
        return _play(program, own, first or {}, map, exchange)
    with ThreadPoolExecutor(threads) as pool:
        return _play(program, own, first or {}, pool.map, exchange)


#: The undelivered messages of each bucket: sender, kind, columns.
_Waiting = dict[int, list[tuple[int, str, Columns]]]


def _play(
    program: Program,
    tables: Mapping[int, Tables],
    first: Mapping[str, Columns],
    each: Callable[..., Iterable[Outbox]],
    exchange: Exchange | None,
) -> list[int]:
    """Play all supersteps; ``each(step, buckets)`` yields the outbox of each bucket, in order."""
    bounds, counts = program.bounds, []
    waiting: _Waiting = {}
    for to, kind, columns in deliver(bounds, first):
        if to in tables:
            waiting.setdefault(to, []).append((-1, kind, columns))
    for superstep in counted(step_of(program), most_supersteps(int(bounds[-1]))):
        arrived, waiting, sent = waiting, {}, 0

        def step(bucket: int, arrived: dict = arrived, superstep: int = superstep) -> Outbox:
            # parts that are merged are freed before the step
            inbox = merge_inbox(arrived.pop(bucket, ()))
            return program.step(bucket, tables[bucket], inbox, superstep)

        played = [one for one in tables if one in arrived or not superstep]
        for bucket, outbox in zip(played, each(step, played), strict=True):
            for to, kind, columns in deliver(bounds, outbox):
                waiting.setdefault(to, []).append((bucket, kind, columns))
                sent += count_rows(columns)
            del outbox  # the last one would stay in memory during the next superstep
        if exchange is not None:
            waiting, sent = _exchanged(exchange, waiting, sent)
        counts.append(sent)
        if not sent:
            break
    return counts


def _exchanged(exchange: Exchange, waiting: _Waiting, sent: int) -> tuple[_Waiting, int]:
    """Return the messages that arrived for this task's bucket, and the number of all messages."""
    own = exchange.rank
    received = waiting.pop(own, [])
    away = {
        to: to_frame([(kind, columns) for _, kind, columns in waiting.pop(to)])
        for to in list(waiting)
    }
    came, notes = exchange.swap(away, str(sent).encode())
    received += [(one, *named) for one, data in came.items() for named in of_frame(data)]
    return ({own: received} if received else {}), sum(map(int, notes))


def thread_bounds(nodes: int) -> np.ndarray:
    """Return the bounds of buckets that threads play, each of at least 8,192 nodes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    buckets = max(1, min(_MOST_THREADS, cores or 1, nodes // _LEAST_NODES))
    return np.linspace(0, nodes, buckets + 1).astype(np.int64)
