"""Tasks of a job that are threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scribe_spark.engine.between_tasks import (
    Exchange,
    PeerFailed,
    PeerLost,
    Server,
)

T = TypeVar("T")


def outcomes(
    size: int,
    work: Callable[[Exchange], T],
    patience: float = 20.0,
    secrets: list[bytes] | None = None,
) -> list[T | Exception]:
    """Play the tasks of a job as threads of this process; return a result or an error of each.

    ``work(exchange)`` is the work of a task; `secrets` are the secrets that tasks know.
    """
    secrets = secrets or [b"of this job"] * size
    servers = [Server() for _ in range(size)]
    addresses = [server.address for server in servers]

    def play(rank: int) -> T | Exception:
        try:
            exchange = Exchange(rank, servers[rank], addresses, secrets[rank], patience)
            try:
                result = work(exchange)
            except BaseException as error:
                exchange.end(error)
                raise
            exchange.end()
        except Exception as error:
            return error
        return result

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(play, range(size)))


def play_in_threads(size: int, work: Callable[[Exchange], T]) -> list[T]:
    """Return the results of tasks that are threads, by rank; raise the error that caused others.

    Examples
    --------
    >>> def ask_the_next(exchange):
    ...     parts = {(exchange.rank + 1) % exchange.size: [b"from ", b"%d" % exchange.rank]}
    ...     received, notes = exchange.swap(parts, b"note %d" % exchange.rank)
    ...     return {sender: part.to_pybytes() for sender, part in received.items()}, notes
    >>> play_in_threads(2, ask_the_next)[0]
    ({1: b'from 1'}, [b'note 0', b'note 1'])
    """
    played = outcomes(size, work)
    errors = [one for one in played if isinstance(one, Exception)]
    for error in sorted(errors, key=lambda one: isinstance(one, (PeerFailed, PeerLost))):
        raise error
    return played
