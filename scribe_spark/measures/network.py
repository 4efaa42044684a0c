"""The router network: its links, and how long they take.

References
----------
JSAC 2002, Section IV.A.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from scribe_spark.measures.measure import Found, Measure, Metric, RunTables
from scribe_spark.schemas import MICROSECONDS

__all__ = ["NETWORK"]


def _collect(run: RunTables) -> dict[str, Any]:
    """``core_links, core_delay_ms, routers``."""
    # sums of floats depend on their order: whole microseconds
    mean = F.avg(F.rint(F.col("delay_ms") * MICROSECONDS)) / MICROSECONDS
    (core,) = run["links"].agg(F.count(F.lit(1)).alias("n"), mean.alias("mean")).collect()
    return {
        "core_links": core["n"],
        "core_delay_ms": core["mean"],
        "routers": run["routers"].count(),
    }


def _core_delay(found: Found) -> float | None:
    return found.collected.get("network", {}).get("core_delay_ms")


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
            _core_delay,
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
