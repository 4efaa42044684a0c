"""The router network: the number of links and their delays.

References
----------
JSAC 2002, Section IV.A.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scribe_spark.measures.measure import Measure, Metric, RunTables, collected
from scribe_spark.schemas import MICROSECONDS


def _collect(run: RunTables) -> dict[str, Any]:
    """Return ``core_links, core_delay_ms, routers``."""
    delay_ms = run.batches("links", ["delay_ms"]).frame.toArrow().column("delay_ms").to_numpy()
    # integers, because sums of floats depend on their order
    mean = np.rint(delay_ms * MICROSECONDS).mean() / MICROSECONDS if len(delay_ms) else None
    return {
        "core_links": len(delay_ms),
        "core_delay_ms": mean,
        "routers": len(run.batches("routers", ["router"]).frame.toArrow()),
    }


NETWORK = Measure(
    "network",
    collect=_collect,
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
