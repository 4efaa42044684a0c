"""The engine in one process, superstep by superstep: bucket after bucket, or each in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from scribe_spark.engine.packing import Columns, count_rows
from scribe_spark.engine.program import Outbox, Program, Tables, deliver, merge_inbox

__all__ = ["play", "thread_bounds"]

_MOST_THREADS = 4  # Python itself runs in one of them at a time
_LEAST_NODES = 8192  # of a bucket that is worth a thread
_MOST = 10_000  # more supersteps mean that the messages never end


def play(
    program: Program,
    tables: Sequence[Tables],
    first: Mapping[str, Columns] | None = None,
    threads: int = 1,
) -> list[int]:
    """Play a program until nobody sends; the messages of each superstep.

    Parameters
    ----------
    tables : sequence of Tables
        Of each bucket; changed in place.
    first : mapping of Columns, optional
        Messages that are there in superstep 0, by kind.
    threads : int
        How many buckets are played at a time: numpy leaves other cores free.

    Raises
    ------
    RuntimeError
        Messages never end.
    """
    if threads == 1:
        return _play(program, tables, first or {}, map)
    with ThreadPoolExecutor(threads) as pool:
        return _play(program, tables, first or {}, pool.map)


def _play(
    program: Program,
    tables: Sequence[Tables],
    first: Mapping[str, Columns],
    each: Callable[..., Iterable[Outbox]],
) -> list[int]:
    """Play all supersteps; ``each(step, buckets)`` yields what each bucket sends, in order."""
    bounds, counts = program.bounds, []
    waiting: dict[int, list[tuple[int, str, Columns]]] = {}
    for to, kind, columns in deliver(bounds, first):
        waiting.setdefault(to, []).append((-1, kind, columns))
    for superstep in range(_MOST):
        arrived, waiting, sent = waiting, {}, 0

        def step(bucket: int, arrived: dict = arrived, superstep: int = superstep) -> Outbox:
            inbox = merge_inbox(arrived.get(bucket, []))
            return program.step(bucket, tables[bucket], inbox, superstep)

        played = [one for one in range(len(tables)) if one in arrived or not superstep]
        for bucket, outbox in zip(played, each(step, played), strict=True):
            for to, kind, columns in deliver(bounds, outbox):
                waiting.setdefault(to, []).append((bucket, kind, columns))
                sent += count_rows(columns)
        counts.append(sent)
        if not sent:
            return counts
    raise RuntimeError(f"messages still on their way after {_MOST} supersteps")


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
