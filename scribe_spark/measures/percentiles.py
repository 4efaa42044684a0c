"""Latencies of publications: percentiles of deliveries, and times until members are reached.

All values are integers, in thousandths of a ms or of a hop.  Percentile q of n values is the
nearest rank, the ceil(q n / 100)-th smallest value.  There is no interpolation, so results do not
depend on the order of rows, the number of buckets or the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scribe_spark.core.arrays import sums_at
from scribe_spark.core.histogram import Histogram
from scribe_spark.core.keys import order_of

#: The percentiles of deliveries: name -> q.
ARRIVED = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}

#: The units of latencies: milliseconds, and hops for systems that use the clock of hops.
MS, IN_HOPS = UNITS = "ms", "hops"

#: The shares of the expected receivers, in percent.
COVERAGES = (50, 90, 95, 99, 100)

#: The percentiles over publications of the time until a share is reached: name -> q.
OVER_PUBLICATIONS = {"median": 50, "p95": 95}

#: The time of an event that never happens.
NEVER = -1

#: The number of thousandths (microseconds) in a millisecond or hop.
THOUSANDTHS = 1000


def latency_names(unit: str) -> tuple[str, str]:
    """Return the prefixes of the names of latencies and of times until a share is reached."""
    return ("latency_hops", "hops_to") if unit == IN_HOPS else ("latency", "time_to")


def rank_of(q: int, n: Any) -> Any:
    """Return the rank, from 1, of percentile q among n values; 0 if n is 0.

    The argument n is an int or an array.

    Examples
    --------
    >>> [rank_of(50, n) for n in (0, 1, 2, 3, 200)], rank_of(99, 200), rank_of(99, 201)
    ([0, 1, 1, 2, 100], 198, 199)
    """
    return -(-q * n // 100)


def publication_latencies(
    group: np.ndarray, latency: np.ndarray, groups: np.ndarray, expected: np.ndarray
) -> dict[str, np.ndarray]:
    """Return statistics of each publication, sorted by group: int64 columns.

    `group` and `latency` have a row for each delivery, in any order; `groups` (ascending) have
    `expected` receivers.  The columns are ``group, expected, reached, mean, p50, p90, p95, p99,
    max, t50, t90, t95, t99, t100``, with times in thousandths; ``mean`` is rounded to the nearest
    integer.  ``tX`` is the time until X % of the expected receivers have the publication, or
    `NEVER`.

    Examples
    --------
    >>> found = publication_latencies(
    ...     np.array([7, 7, 7]), np.array([30, 10, 21]), np.array([7, 8]), np.array([4, 2]))
    >>> {name: column.tolist() for name, column in found.items() if name in ("mean", "p50", "t90")}
    {'mean': [20, -1], 'p50': [21, -1], 't90': [-1, -1]}
    """
    order = order_of(group, latency)
    group, latency = group[order], latency[order]
    first, end = (np.searchsorted(group, groups, side) for side in ("left", "right"))
    reached = end - first
    sums = np.r_[0, np.cumsum(latency)]

    def ranked(rank: np.ndarray) -> np.ndarray:
        there = (rank > 0) & (rank <= reached)
        found = np.full(len(groups), NEVER, dtype=np.int64)
        found[there] = latency[(first + rank - 1)[there]]
        return found

    total, some = sums[end] - sums[first], np.maximum(reached, 1)
    return {
        "group": groups,
        "expected": expected,
        "reached": reached,
        "mean": np.where(reached > 0, (2 * total + some) // (2 * some), NEVER),
        **{name: ranked(rank_of(q, reached)) for name, q in ARRIVED.items()},
        "max": ranked(reached),
        **{f"t{x}": ranked(rank_of(x, expected)) for x in COVERAGES},
    }


def add_expected(group: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct groups, ascending, and the sum of `expected` for each."""
    groups, which = np.unique(group, return_inverse=True)
    return groups, sums_at(which, expected, len(groups))


def latency_numbers(latencies: Histogram) -> dict[str, float]:
    """Return mean and percentiles over deliveries in ms or hops, from counts in thousandths."""
    n = latencies.total
    if not n:
        return {}
    mean = (2 * int(latencies.sum) + n) // (2 * n)
    ends = {name: latencies.nearest_rank(q) for name, q in ARRIVED.items()}
    found = {"mean": float(mean), **ends, "max": latencies.max}
    return {name: value / THOUSANDTHS for name, value in found.items() if value is not None}


def coverage_numbers(publications: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return percentiles over publications of the times to reach shares, in ms or hops.

    A publication that never reaches a share counts as later than all others.  Percentiles at such
    publications are left out.

    Examples
    --------
    >>> coverage_numbers({f"t{x}": np.array([3000, 1500, NEVER]) for x in COVERAGES})["50.median"]
    3.0
    """
    found = {}
    for x in COVERAGES:
        times = publications[f"t{x}"]
        known = np.sort(times[times != NEVER])
        for name, q in OVER_PUBLICATIONS.items():
            rank = int(rank_of(q, len(times)))
            if 0 < rank <= len(known):
                found[f"{x}.{name}"] = int(known[rank - 1]) / THOUSANDTHS
    return found
