"""Group sizes, and the ranks of groups by size.

References
----------
JSAC 2002, Section IV.A, Figure 6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa

from scribe_spark.measures.distributions import ALL_SYSTEMS, histogram_of, number_of
from scribe_spark.measures.measure import Distribution, Measure, Metric, RunTables, Value


def rank_groups(groups: pa.Table) -> pd.DataFrame:
    """Rank groups by size, the largest first: ``group, size, rank``, sorted by rank (from 1).

    Ties go to the smaller group number.  If members are drawn, a group's number is its rank; a
    user's table of members may have any numbers.
    """
    table: pd.DataFrame = groups.select(["group", "size"]).to_pandas()
    table = table.sort_values(["size", "group"], ascending=[False, True], ignore_index=True)
    return table.assign(rank=range(1, len(table) + 1))


def sizes_of_groups(run: RunTables) -> pa.Table:
    """Return the groups of a run: ``group, size``."""
    return run.collect("groups", ["group", "size"])


def group_of_rank_1(groups: pa.Table) -> int | None:
    """Return the number of the largest group (ties: the smallest number); None without groups."""
    ranked = rank_groups(groups)
    return int(ranked["group"].iloc[0]) if len(ranked) else None


def _sizes(run: RunTables) -> pd.DataFrame:
    """Return the distribution of sizes, with the rank as value and the size as count."""
    ranked = rank_groups(sizes_of_groups(run))
    return pd.DataFrame(
        {
            "system": pd.Series([ALL_SYSTEMS] * len(ranked), dtype=object),
            "value": ranked["rank"].astype(float),
            "count": ranked["size"],
        }
    )


def _of_sizes(number: Callable[[np.ndarray], int]) -> Value:
    return number_of(histogram_of("group_size"), lambda ranks, _: number(ranks.counts))


GROUP_SIZE = Measure(
    "group_size",
    distributions=(Distribution("group_size", "6", _sizes),),
    metrics=(
        Metric(
            "groups.size.sum",
            "members",
            "6",
            "Members of all groups, a node counted once for each of its groups.",
            lambda found: _of_sizes(np.sum)(found) or 0,
        ),
        Metric(
            "groups.size.max",
            "members",
            "6",
            "Members of the largest group.",
            _of_sizes(np.max),
        ),
        Metric(
            "groups.size.min",
            "members",
            "6",
            "Members of the smallest group.",
            _of_sizes(np.min),
        ),
    ),
)
