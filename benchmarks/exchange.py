"""``python -m benchmarks.exchange [--tasks 2] [--sizes 0,1,10,50]``: times of swaps between tasks.

Each task is a process; each sends so many MB to every other one, as tasks of a run do.
"""

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from scribe_spark.engine.flight import PATIENCE, Flight, Server

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
    server = Server(_SECRET)
    pipe.send(server.address)
    exchange = Flight(rank, server, pipe.recv(), _SECRET, patience=patience)
    pipe.send(work(rank, exchange, *given))
    exchange.end()


# --- swaps

#: Swaps of a size, and the bytes that a task sends in all of them, at most.
_SWAPS, _BYTES = 200, 2e9


def measured(tasks: int, megabytes: Sequence[float]) -> list[list[float]]:
    """Return the milliseconds of the swaps of each size, as the first task sees them."""
    found: list[list[list[float]]] = in_processes(tasks, _swaps, megabytes)
    return found[0]


def _swaps(_rank: int, exchange: Flight, megabytes: Sequence[float]) -> list[list[float]]:
    """Return the milliseconds of the swaps of each size."""
    found = []
    for size in megabytes:
        part = np.zeros(int(size * 1e6), dtype=np.uint8)
        parts = {peer: [part] for peer in exchange.peers if size}
        swaps = int(min(_SWAPS, max(5, _BYTES / (1 + len(part)))))
        found.append([_milliseconds(exchange, parts) for _ in range(swaps)])
    return found


def _milliseconds(exchange: Flight, parts: dict[int, list[np.ndarray]]) -> float:
    before = time.perf_counter()
    exchange.swap(parts, b"note")
    return 1e3 * (time.perf_counter() - before)


def main(arguments: Sequence[str]) -> int:
    """Print the times."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exchange", allow_abbrev=False)
    parser.add_argument("--tasks", type=int, default=2, metavar="B", help="processes [2]")
    parser.add_argument(
        "--sizes", default="0,1,10,50", metavar="MB,MB,...", help="to each other task [0,1,10,50]"
    )
    given = parser.parse_args(arguments)
    sizes = [float(size) for size in given.sizes.split(",")]
    print("MB each way | median ms | least ms")
    for size, times in zip(sizes, measured(given.tasks, sizes), strict=True):
        print(f"{size:>11g} | {statistics.median(times):>9.2f} | {min(times):>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
