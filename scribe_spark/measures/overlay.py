"""Pastry: hops and stretch of routes, the size of tables, and the cost of an arrival; the network.

The routes are those of the CREATE messages from each group's creator to its root.

References
----------
JSAC 2002, Section IV.A (links), II (hops, table entries), II.A (stretch), II.B (arrivals);
Rowstron and Druschel 2001 (messages per arrival).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.core.units import MICROSECONDS
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables, collected


def _collect_network(run: RunTables) -> dict[str, Any]:
    """Return ``core_links, core_delay_ms, routers``."""
    delay_ms = run.collect("links", ["delay_ms"]).column("delay_ms").to_numpy()
    # integers, because sums of floats depend on their order
    mean = np.rint(delay_ms * MICROSECONDS).mean() / MICROSECONDS if len(delay_ms) else None
    return {
        "core_links": len(delay_ms),
        "core_delay_ms": mean,
        "routers": len(run.collect("routers", ["router"])),
    }


NETWORK = Measure(
    "network",
    collect=_collect_network,
    early=True,
    metrics=(
        Metric(
            "topology.core_delay.mean",
            "ms",
            "IV.A",
            "Mean delay of a directed link between two routers.",
            collected("network", "core_delay_ms"),
        ),
        Metric(
            "topology.core_links",
            "directed links",
            "IV.A",
            "Links between routers, each direction counted.",
            lambda found: found.size.core_links,
        ),
    ),
)


def _collect(run: RunTables) -> dict[str, Any]:
    """Return ``hops, stretch, table_entries, arrival_messages`` of a run.

    Without arrivals, ``arrival_messages`` is None.
    """
    chosen = run.collect("pastry_routes", ["hops", "delay_ms", "direct_ms"])
    routes: pd.DataFrame = chosen.to_pandas()
    # sums of floats depend on their order
    routes = routes.sort_values(list(routes.columns), ignore_index=True)
    direct = routes["direct_ms"].sum()
    (entries,) = run.collect("table_entries", ["entries"]).column("entries").to_pylist()
    return {
        "hops": routes["hops"].mean() if len(routes) else None,
        "stretch": routes["delay_ms"].sum() / direct if direct else None,
        "table_entries": entries / run.nodes,
        "arrival_messages": _arrival_messages(run),
    }


def _arrival_messages(run: RunTables) -> float | None:
    """Return the mean number of messages of an arrival, all kinds together; None without any."""
    if "arrival_messages" not in run:
        return None
    messages = run.collect("arrival_messages", ["messages"]).column("messages")
    return sum(messages.to_pylist()) / run.nodes


def _arrival_bound(found: Found) -> float | None:
    if collected("overlay", "arrival_messages")(found) is None:
        return None
    return 3 * 2**found.b * math.log(found.size.nodes, 2**found.b)


def _hops_bound(found: Found) -> float:
    return math.ceil(math.log(found.size.nodes, 2**found.b) - 1e-9)


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
            collected("overlay", "hops"),
        ),
        Metric(
            "pastry.hops.bound",
            "hops",
            "II",
            "Upper bound of the mean: ceil(log_2^b N).",
            _hops_bound,
            note="ceil(log_2^b N)",
        ),
        Metric(
            "pastry.stretch",
            "x",
            "II.A",
            "Delay of all CREATE routes together / delay of the direct routes between their ends.",
            collected("overlay", "stretch"),
        ),
        Metric(
            "pastry.table_entries.mean",
            "per node",
            "II",
            "Mean number of entries in a node's routing table.",
            collected("overlay", "table_entries"),
        ),
        Metric(
            "pastry.arrival_messages.mean",
            "messages",
            "II.B",
            "Messages of all arrivals (the table arrival_messages has their kinds) / nodes.",
            collected("overlay", "arrival_messages"),
        ),
        Metric(
            "pastry.arrival_messages.bound",
            "messages",
            "II.B",
            "Messages of an arrival according to Pastry's authors: 3 x 2^b x log_2^b N.",
            _arrival_bound,
            note="3 x 2^b x log_2^b N",
        ),
    ),
)
