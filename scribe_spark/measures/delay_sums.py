"""Sums of members' delays by group, for the rows of a run and the arrays of a round.

References
----------
JSAC 2002, Section IV.B.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import run_starts
from scribe_spark.engine.packing import Columns, take
from scribe_spark.measures.formulas import rad, rmd


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
    means = (of[name] for of in (sums, base) for name in ("total", "reached"))
    return {"rad": rad(*means), "rmd": rmd(sums["most"], base["most"])}
