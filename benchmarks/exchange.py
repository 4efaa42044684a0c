"""``python -m benchmarks.exchange [--tasks 2] [--sizes 0,1,10,50]``: times of swaps between tasks.

Each task is a process; each sends so many MB to every other one.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.between import in_processes
from scribe_spark.engine.between_tasks import Exchange

#: Swaps of a size, and the bytes that a task sends in all of them, at most.
_SWAPS, _BYTES = 200, 2e9


def measured(tasks: int, megabytes: Sequence[float]) -> list[list[float]]:
    """Return the milliseconds of the swaps of each size, as the first task sees them."""
    found: list[list[list[float]]] = in_processes(tasks, _swaps, megabytes)
    return found[0]


def _swaps(_rank: int, exchange: Exchange, megabytes: Sequence[float]) -> list[list[float]]:
    """Return the milliseconds of the swaps of each size."""
    found = []
    for size in megabytes:
        part = np.zeros(int(size * 1e6), dtype=np.uint8)
        parts = {peer: [part] for peer in exchange.peers if size}
        swaps = int(min(_SWAPS, max(5, _BYTES / (1 + len(part)))))
        found.append([_milliseconds(exchange, parts) for _ in range(swaps)])
    return found


def _milliseconds(exchange: Exchange, parts: dict[int, list[np.ndarray]]) -> float:
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
