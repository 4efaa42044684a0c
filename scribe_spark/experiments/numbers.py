"""The numbers of a run (`metrics.json`), out of the tables that its phases have saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.config import RunConfig
from scribe_spark.experiments.simulation import systems
from scribe_spark.measures import metrics
from scribe_spark.measures.published import published
from scribe_spark.schemas import MICROSECONDS

__all__ = ["metrics_of"]


def metrics_of(saved: Mapping[str, DataFrame], config: RunConfig) -> list[dict[str, Any]]:
    """The rows of `metrics.json`.

    Parameters
    ----------
    saved : mapping of str to DataFrame
        The tables of all phases, by name.
    """
    # sums of floats depend on their order: whole microseconds here, sorted rows below
    mean = F.avg(F.round(F.col("delay_ms") * MICROSECONDS)) / MICROSECONDS
    (core,) = saved["links"].agg(F.count(F.lit(1)).alias("n"), mean.alias("mean")).collect()
    size = metrics.Size(config.overlay.nodes, saved["routers"].count(), core["n"])
    routes: pd.DataFrame = saved["pastry_routes"].select("hops", "delay_ms", "direct_ms").toPandas()
    routes = routes.sort_values(list(routes.columns), ignore_index=True)
    spread: pd.DataFrame = saved["distributions"].toPandas()
    rdps = metrics.rdp(saved["deliveries"])
    (tables,) = saved["table_entries"].collect()
    extra = {
        "topology.core_delay.mean": core["mean"],
        "pastry.table_entries.mean": tables["entries"] / config.overlay.nodes,
        **_joining(saved),
    }
    known = published(config, systems(config))
    return metrics.numbers(size, spread, rdps, routes, extra, config.overlay.b, known)


def _joining(saved: Mapping[str, DataFrame]) -> dict[str, float]:
    """What variants add to joining, and how many nodes they left overloaded."""
    if "extra_joins" not in saved:
        return {}
    over = {row["system"]: row["nodes"] for row in saved["overloaded"].collect()}
    found = {f"{system}.overloaded": nodes for system, nodes in over.items()}
    members = saved["members"].count()
    sums = F.count(F.lit(1)).alias("joins"), F.sum("probes").alias("probes")
    sent = {
        row["system"]: row for row in saved["extra_joins"].groupBy("system").agg(*sums).collect()
    }
    for system in over:
        joins, probes = (sent[system][n] if system in sent else 0 for n in ("joins", "probes"))
        found[f"{system}.extra_joins"] = joins
        if members + joins:
            found[f"{system}.probes_per_join"] = probes / (members + joins)
    return found
