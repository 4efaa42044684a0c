"""The cost of joining, in systems that change another system's trees by additional JOINs.

References
----------
JSAC 2002, Section IV.E (the bottleneck remover: stress of joining, probes per JOIN).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.measures.distributions import histogram_metrics, values_in
from scribe_spark.measures.link_stress import PACKET_NUMBERS
from scribe_spark.measures.measure import Distribution, Measure, Metric, RunTables, collected
from scribe_spark.measures.stress import count_stress, link_stress
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import System
from scribe_spark.underlay.protocol import Underlay


def join_stress(
    extra: DataFrame,
    links: DataFrame,
    underlay: Underlay,
    joins_after: Mapping[str, str],
    buckets: int = 1,
) -> DataFrame:
    """Count packets per directed link while all members join, additional JOINs included.

    Joining puts the packets of a multicast on the links in the opposite direction. An additional
    JOIN is counted on the route from the node that received it, as for a tree edge. `joins_after`
    has, for each system, the system whose trees it changes.
    """
    sent = extra.withColumn("merged", F.lit(False))
    added = link_stress(count_stress(sent, underlay, buckets)).frame
    started = F.create_map(*(F.lit(name) for pair in joins_after.items() for name in pair))
    first = extra.select("system").distinct().withColumn("first", started[F.col("system")])
    of_first = links.withColumnRenamed("system", "first").join(F.broadcast(first), "first", "inner")
    both = added.unionByName(of_first.drop("first"))
    return both.groupBy("system", "kind", "src", "dst").agg(F.sum("packets").alias("packets"))


# --- the measure


def sends_more_joins(system: System) -> bool:
    """Return True for systems that change another system's trees by additional JOINs."""
    return system.joins_after is not None


def has_limit(system: System) -> bool:
    """Return True for systems with a limit of children."""
    return system.limited


def _collect(run: RunTables) -> dict[str, dict[str, Any]]:
    """Return ``overloaded``, ``extra_joins`` and ``probes_per_join`` by system."""
    if "extra_joins" not in run:
        return {}
    over = {row["system"]: row["nodes"] for row in run["overloaded"].collect()}
    members = run["members"].count()
    sums = F.count(F.lit(1)).alias("joins"), F.sum("probes").alias("probes")
    rows = run["extra_joins"].groupBy("system").agg(*sums).collect()
    sent = {row["system"]: (row["joins"], row["probes"]) for row in rows}
    found = {}
    for system in run.systems:
        joins, probes = sent.get(system.name, (0, 0))
        all_joins = members + joins
        found[system.name] = {
            "overloaded": over.get(system.name),
            "extra_joins": joins,
            "probes_per_join": probes / all_joins if all_joins else None,
        }
    return found


def _packets(run: RunTables) -> Batches | None:
    if "extra_joins" not in run or run.underlay is None or not run.underlay.kernel.has_links:
        return None
    joins_after = {s.name: s.joins_after for s in run.systems if s.joins_after is not None}
    if not joins_after:
        return None
    tables = run["extra_joins"], run["link_stress"]
    joining = join_stress(*tables, run.underlay, joins_after, run.buckets)
    return values_in(Batches.of(joining, ["system", "packets"]), "packets")


JOINING = Measure(
    "joining",
    collect=_collect,
    early=True,
    distributions=(Distribution("join_stress", "IV.E", _packets),),
    metrics=(
        Metric(
            "overloaded",
            "nodes",
            "IV.E",
            "Nodes that have more children than their limit at the end.",
            collected("joining", "overloaded"),
            has_limit,
            note="have more children than their limit",
        ),
        Metric(
            "extra_joins",
            "messages",
            "IV.E",
            "JOINs of dropped children: to siblings, and after refusals.",
            collected("joining", "extra_joins"),
            sends_more_joins,
            note="JOINs to siblings, and those that a refusal led to",
        ),
        Metric(
            "probes_per_join",
            "probes",
            "IV.E",
            "Probes / (JOINs of members and of dropped children).",
            collected("joining", "probes_per_join"),
            sends_more_joins,
            note="probes / (JOINs of members and of dropped children)",
        ),
        *histogram_metrics(
            "join_stress",
            "IV.E",
            "packets on a directed link, when every member joins",
            sends_more_joins,
            PACKET_NUMBERS,
        ),
    ),
)
