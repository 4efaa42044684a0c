"""The engine in one process, superstep by superstep: bucket after bucket, or each in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.framing import of_frame, to_frame
from scribe_spark.engine.packing import Columns, count_rows
from scribe_spark.engine.program import Outbox, Program, Tables, deliver, merge_inbox

_MOST_THREADS = 4  # Python itself runs in one of them at a time
_LEAST_NODES = 8192  # of a bucket that is worth a thread
_MOST = 10_000  # more supersteps mean that the messages never end


def play(
    program: Program,
    tables: Sequence[Tables] | Mapping[int, Tables],
    first: Mapping[str, Columns] | None = None,
    threads: int = 1,
    exchange: Exchange | None = None,
) -> list[int]:
    """Play a program until nobody sends; the messages of each superstep.

    Parameters
    ----------
    tables : sequence or mapping of Tables
        Of each bucket, or of some by number; changed in place.
    first : mapping of Columns, optional
        Messages that are there in superstep 0, by kind.
    threads : int
        How many buckets are played at a time: numpy leaves other cores free.
    exchange : Exchange, optional
        Takes messages to the buckets of other tasks; the counts are those of all tasks.

    Raises
    ------
    RuntimeError
        Messages never end.
    """
    own = tables if isinstance(tables, Mapping) else dict(enumerate(tables))
    if threads == 1:
        return _play(program, own, first or {}, map, exchange)
    with ThreadPoolExecutor(threads) as pool:
        return _play(program, own, first or {}, pool.map, exchange)


#: Messages that wait for a bucket: the sender, their kind, their columns.
_Waiting = dict[int, list[tuple[int, str, Columns]]]


def _play(
    program: Program,
    tables: Mapping[int, Tables],
    first: Mapping[str, Columns],
    each: Callable[..., Iterable[Outbox]],
    exchange: Exchange | None,
) -> list[int]:
    """Play all supersteps; ``each(step, buckets)`` yields what each bucket sends, in order."""
    bounds, counts = program.bounds, []
    waiting: _Waiting = {}
    for to, kind, columns in deliver(bounds, first):
        if to in tables:
            waiting.setdefault(to, []).append((-1, kind, columns))
    for superstep in range(_MOST):
        arrived, waiting, sent = waiting, {}, 0

        def step(bucket: int, arrived: dict = arrived, superstep: int = superstep) -> Outbox:
            inbox = merge_inbox(arrived.get(bucket, []))
            return program.step(bucket, tables[bucket], inbox, superstep)

        played = [one for one in tables if one in arrived or not superstep]
        for bucket, outbox in zip(played, each(step, played), strict=True):
            for to, kind, columns in deliver(bounds, outbox):
                waiting.setdefault(to, []).append((bucket, kind, columns))
                sent += count_rows(columns)
        if exchange is not None:
            waiting, sent = _exchanged(exchange, waiting, sent)
        counts.append(sent)
        if not sent:
            return counts
    raise RuntimeError(f"messages still on their way after {_MOST} supersteps")


def _exchanged(exchange: Exchange, waiting: _Waiting, sent: int) -> tuple[_Waiting, int]:
    """Return the messages that have come for this task's bucket, and how many all have sent."""
    own = exchange.rank
    away = {
        to: to_frame([(kind, columns) for _, kind, columns in messages])
        for to, messages in waiting.items()
        if to != own
    }
    came, notes = exchange.swap(away, str(sent).encode())
    mine = waiting.get(own, [])
    mine += [(one, *named) for one, data in came.items() for named in of_frame(data)]
    return ({own: mine} if mine else {}), sum(map(int, notes))


def thread_bounds(nodes: int) -> np.ndarray:
    """Return bounds of as many buckets as one process plays well in threads: int64.

    Parameters
    ----------
    nodes : int
        How many there are; a bucket of few is not worth a thread.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    buckets = max(1, min(_MOST_THREADS, cores or 1, nodes // _LEAST_NODES))
    return np.linspace(0, nodes, buckets + 1).astype(np.int64)
