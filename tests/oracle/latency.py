"""Percentiles of latencies, times to coverage, duplicates a receipt: by sorting plain lists.

Percentile q of n values is the ceil(q n / 100)-th smallest one.  Times are whole microseconds.  A
publication's source does not count; its receivers are *expected*, and some of them are *reached*.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}
COVERAGES = (50, 90, 95, 99, 100)


def percentile(values: Iterable[float], q: int) -> float | None:
    """Return a percentile; None of no value."""
    ordered = sorted(values)
    return ordered[math.ceil(Fraction(q * len(ordered), 100)) - 1] if ordered else None


def latencies(values: Sequence[int]) -> dict[str, int | None]:
    """Return mean, percentiles and maximum; the mean is rounded to a whole number, halves up."""
    mean = math.floor(Fraction(sum(values), len(values)) + Fraction(1, 2)) if values else None
    return {"mean": mean, **{name: percentile(values, q) for name, q in PERCENTILES.items()}}


def coverage(values: Sequence[int], expected: int) -> dict[str, int | None]:
    """Return when 50 to 100 % of the expected receivers are reached; None: never."""
    found = {}
    for x in COVERAGES:
        due = math.ceil(Fraction(x * expected, 100))
        found[f"t{x}"] = sorted(values)[due - 1] if due <= len(values) else None
    return found


def over_publications(times: Sequence[int | None]) -> dict[str, float | None]:
    """Return median and p95 of a time over publications; None stands for later than all others."""
    late = [math.inf if time is None else time for time in times]
    found = {"median": percentile(late, 50), "p95": percentile(late, 95)}
    return {name: None if time == math.inf else time for name, time in found.items()}


def duplicates(copies: Iterable[tuple[int, int, bool]]) -> list[int]:
    """Return how many duplicates come with each receipt.

    Parameters
    ----------
    copies : iterable of (group, receiver, is the first copy)
    """
    rows = list(copies)
    came = Counter((group, node) for group, node, _ in rows)
    return [came[group, node] - 1 for group, node, first in rows if first]
