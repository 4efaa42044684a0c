"""Pastry: hops and stretch of its routes, and the size of its routing tables.

The routes are those of the CREATE messages, one for each group: from its creator to its root.

References
----------
JSAC 2002, Section II (hops, table entries), II.A (stretch).
"""

from __future__ import annotations

import math

import pandas as pd

from scribe_spark.measures.measure import Found, Measure, Metric, RunTables

__all__ = ["OVERLAY"]


def _collect(run: RunTables) -> dict[str, float | None]:
    """``hops, stretch, table_entries``."""
    chosen = run["pastry_routes"].select("hops", "delay_ms", "direct_ms")
    routes: pd.DataFrame = chosen.toPandas()
    # sums of floats depend on their order
    routes = routes.sort_values(list(routes.columns), ignore_index=True)
    direct = routes["direct_ms"].sum()
    (tables,) = run["table_entries"].collect()
    return {
        "hops": routes["hops"].mean() if len(routes) else None,
        "stretch": routes["delay_ms"].sum() / direct if direct else None,
        "table_entries": tables["entries"] / run.nodes,
    }


def _hops_bound(found: Found) -> float:
    return math.ceil(math.log(found.size.nodes, 2**found.b) - 1e-9)


def _collected(name: str):
    return lambda found: found.collected.get("overlay", {}).get(name)


OVERLAY = Measure(
    "overlay",
    collect=_collect,
    early=True,
    metrics=(
        Metric(
            "pastry.hops.mean",
            "hops",
            "II",
            "Mean number of overlay hops of a CREATE, from the group's creator to its root.",
            _collected("hops"),
        ),
        Metric(
            "pastry.hops.bound",
            "hops",
            "II",
            "ceil(log_2^b N), which the mean is to stay below.",
            _hops_bound,
            note="ceil(log_2^b N)",
        ),
        Metric(
            "pastry.stretch",
            "x",
            "II.A",
            "Delay of all CREATE routes together / delay of the direct routes between their ends.",
            _collected("stretch"),
        ),
        Metric(
            "pastry.table_entries.mean",
            "per node",
            "II",
            "Mean number of entries in a node's routing table.",
            _collected("table_entries"),
        ),
    ),
)
