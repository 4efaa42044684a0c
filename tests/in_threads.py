"""Tasks of a job that are threads of this process: an exchange without a transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from scribe_spark.engine.between_tasks import (
    Buffer,
    Ended,
    Exchange,
    PeerFailed,
    PeerLost,
    one_buffer,
)

T = TypeVar("T")


class _InMemory(Exchange):
    """An exchange of threads: each puts copies into the inboxes of the others."""

    def __init__(self, rank: int, tasks: list[_InMemory], size: int) -> None:
        super().__init__(rank, size)
        self._tasks = tasks

    def _send(self, swap: int, parts: Mapping[int, Sequence[Buffer]], note: bytes) -> None:
        """See :class:`Exchange`."""
        for peer in self.peers:
            part = None
            if peer in parts:  # copied: the sender may change its arrays afterwards
                part = pa.py_buffer(one_buffer(parts[peer]).to_pybytes())
            self._tasks[peer].inbox.put(self.rank, swap, part, bytes(note))

    def end(self, error: BaseException | None = None) -> None:
        """See :class:`Exchange`."""
        for peer in self.peers:
            self._tasks[peer].inbox.end(self.rank, Ended.by(error, self.rank))


def play_in_threads(size: int, work: Callable[[Exchange], T]) -> list[T]:
    """Play the tasks of a job as threads of this process; return their results by rank.

    ``work(exchange)`` is the work of a task.  The first error, by swap and rank, is raised when all
    threads have ended.

    Examples
    --------
    >>> def ask_the_next(exchange):
    ...     parts = {(exchange.rank + 1) % exchange.size: [b"from ", b"%d" % exchange.rank]}
    ...     received, notes = exchange.swap(parts, b"note %d" % exchange.rank)
    ...     return {sender: part.to_pybytes() for sender, part in received.items()}, notes
    >>> play_in_threads(2, ask_the_next)[0]
    ({1: b'from 1'}, [b'note 0', b'note 1'])
    """
    tasks: list[_InMemory] = []
    tasks += [_InMemory(rank, tasks, size) for rank in range(size)]

    def play(task: _InMemory) -> T:
        try:
            result = work(task)
        except BaseException as error:
            task.end(error)
            raise
        task.end()
        return result

    with ThreadPoolExecutor(size) as pool:
        played = [pool.submit(play, task) for task in tasks]
    failed = [
        (isinstance(error, (PeerFailed, PeerLost)), task.swaps, task.rank, error)
        for task, one in zip(tasks, played, strict=True)
        if (error := one.exception()) is not None
    ]
    if failed:
        raise min(failed, key=lambda one: one[:3])[3]
    return [one.result() for one in played]
