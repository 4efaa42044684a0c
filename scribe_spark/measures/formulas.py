"""The formulas of Section IV, for the rows of a run and for the arrays of a world's round.

References
----------
JSAC 2002, Section IV.B (RAD, RMD, RDP), IV.C (node stress), IV.D (link stress).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scribe_spark.core.arrays import run_starts
from scribe_spark.core.errors import RunError
from scribe_spark.core.histogram import Histogram
from scribe_spark.engine.packing import Columns, take
from scribe_spark.underlay.size import Size

#: For each bound, the share of the members with a smaller RDP is reported.
RDP_BOUNDS = {"below_2_25": 2.25, "below_4": 4, "below_1": 1}


def add_delays(columns: Columns) -> dict[str, np.ndarray]:
    """Sum columns by group; for columns whose name ends in ``most``, take the maximum.

    A bucket sums its deliveries, and the same function sums the results of buckets.

    Examples
    --------
    >>> delay_us, one = np.array([3, 5, 4]), np.ones(3, dtype=np.int64)
    >>> sums = add_delays({"group": np.array([7, 8, 7]), "total": delay_us, "most": delay_us,
    ...                    "reached": one})
    >>> {name: column.tolist() for name, column in sums.items()}
    {'group': [7, 8], 'total': [7, 5], 'most': [4, 5], 'reached': [2, 1]}
    """
    ordered = take(columns, np.argsort(columns["group"], kind="stable"))
    group = ordered.pop("group")
    start = run_starts(group)
    return {
        "group": group[start],
        **{
            name: (np.maximum if name.endswith("most") else np.add).reduceat(column, start)
            for name, column in ordered.items()
        },
    }


def ratios_of_groups(sums: Columns, base: Columns) -> dict[str, np.ndarray]:
    """Return RAD and RMD from ``total, most, reached`` of a system and of IP multicast."""
    mean, base_mean = (of["total"] / of["reached"] for of in (sums, base))
    return {"rad": mean / base_mean, "rmd": sums["most"] / base["most"]}


def rdp_ratios(delay_us: np.ndarray, base_us: np.ndarray) -> np.ndarray:
    """Return the RDP of members in units of 1e-9: int64, shape (m,).

    With integers, the mean does not depend on the order of rows.
    """
    return whole_shares(np.rint(delay_us / base_us * 10**9))


def whole_shares(shares: np.ndarray) -> np.ndarray:
    """Convert ratios in units of 1e-9, already rounded, to int64."""
    if shares.max(initial=0.0) >= 2.0**63:
        ratio = f"{shares.max() / 1e9:.3g}"
        raise RunError(f"a delay is {ratio} times the delay by IP multicast; increase lan_delay_ms")
    return shares.astype(np.int64)


def ratio_numbers(ratio: np.ndarray) -> dict[str, float]:
    """Return mean, median and the shares below :data:`RDP_BOUNDS` of ratios in units of 1e-9."""
    found = {"mean": _sum(ratio) / len(ratio) / 1e9, "median": float(np.median(ratio)) / 1e9}
    below = {
        name: np.count_nonzero(ratio < int(bound * 10**9)) / len(ratio)
        for name, bound in RDP_BOUNDS.items()
    }
    return {name: float(value) for name, value in (found | below).items()}


def _sum(numbers: np.ndarray) -> float:
    """Return the sum of int64 numbers, which may not fit into int64."""
    high, low = np.divmod(numbers, 2**32)
    return float(int(high.sum()) * 2**32 + int(low.sum()))


def histogram_of(values: np.ndarray) -> Histogram:
    """Return the histogram of values."""
    return Histogram(*np.unique(np.asarray(values, dtype=float), return_counts=True))


class Statistic(NamedTuple):
    """A number of a histogram; ``{what}`` in its definition stands for the values."""

    unit: str
    definition: str
    of: Callable[[Histogram, Size], float | None]


def statistics(unit: str, *names: str) -> dict[str, Statistic]:
    """Return statistics over the counted values: ``mean``, ``median``, ``p95`` or ``max``."""
    return {name: _STATISTICS[name]._replace(unit=unit) for name in names}


_STATISTICS = {
    "mean": Statistic("", "Mean {what}.", lambda values, _: values.mean()),
    "median": Statistic("", "Median {what}.", lambda values, _: values.median()),
    "p95": Statistic(
        *("", "The 95th percentile (nearest rank) of {what}."),
        lambda values, _: values.nearest_rank(95),
    ),
    "max": Statistic("", "Maximum {what}.", lambda values, _: values.max),
}


def _over_slots(words: str, number: Callable[[Histogram, int], float | None]) -> Statistic:
    """Return a statistic over the paper's slots, so that it includes links without packets."""

    def of(packets: Histogram, size: Size) -> float | None:
        return number(packets, size.paper_slots) if size.has_slot_for_each_link else None

    slots = "the paper's link slots: core links and 100 LAN slots a router, in both directions"
    none = "none where there are fewer slots than links"
    return Statistic("per slot", f"{words} {{what}}, over {slots}; {none}.", of)


def _over_links(words: str, number: Callable[[Histogram, int], float | None]) -> Statistic:
    """Return a statistic over all directed links, so that it includes links without packets."""

    def of(packets: Histogram, size: Size) -> float | None:
        return number(packets, size.existing_links)

    links = "over all directed links, those without a packet included"
    return Statistic("per link", f"{words} {{what}}, {links}.", of)


#: Statistics of the packets on links, by name, from the links that have packets.
PACKET_NUMBERS: dict[str, Statistic] = {
    "mean": _over_slots("Mean", Histogram.mean),
    "median": _over_slots("Median", Histogram.median),
    "mean_existing": _over_links("Mean", Histogram.mean),
    "median_existing": _over_links("Median", Histogram.median),
    **statistics("per link", "max"),
}
