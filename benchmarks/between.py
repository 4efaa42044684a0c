"""Processes of a benchmark that exchange messages, as tasks that keep their buckets do."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from scribe_spark.engine.between_tasks import PATIENCE, Exchange, Server

_SECRET = b"of a benchmark"

#: ``work(rank, exchange, *given)``: what a process does; what it returns is sent to the caller.
Work = Callable[..., Any]


def in_processes(tasks: int, work: Work, *given: Any, patience: float = PATIENCE) -> list[Any]:
    """Return what each of some processes returns, by its rank.

    Parameters
    ----------
    work : callable
        A function of a module, called with the rank, the exchange and `given`.
    patience : float
        Seconds for which a process waits for another one.
    """
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(tasks)]
    processes = [
        context.Process(target=_process, args=(rank, theirs, work, given, patience), daemon=True)
        for rank, (_, theirs) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    addresses = [ours.recv() for ours, _ in pipes]
    for ours, _ in pipes:
        ours.send(addresses)
    found = [ours.recv() for ours, _ in pipes]
    for process in processes:
        process.join()
    return found


def _process(
    rank: int, pipe: Connection, work: Work, given: tuple[Any, ...], patience: float
) -> None:
    server = Server()
    pipe.send(server.address)
    exchange = Exchange(rank, server, pipe.recv(), _SECRET, patience=patience)
    pipe.send(work(rank, exchange, *given))
    exchange.end()
