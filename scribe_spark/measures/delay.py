"""Delay penalty relative to IP multicast: RAD, RMD and RDP; and the depth of trees.

RAD of a group is the ratio of the mean delays over its members, RMD that of the maximum delays,
and RDP of a member the ratio of its own delays.

References
----------
JSAC 2002, Section IV.B (Figure 7), Section III (depth).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from scribe_spark.measures.distributions import histogram_metrics, values_of
from scribe_spark.measures.formulas import RDP_BOUNDS, rad, rmd
from scribe_spark.measures.group_size import group_of_rank_1
from scribe_spark.measures.measure import Distribution, Found, Measure, Metric, RunTables, trees
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.systems import baseline

__all__ = ["DELAY", "first_copies", "group_delay", "rdp"]


def first_copies(deliveries: DataFrame) -> DataFrame:
    """Keep each member's first copy, where copies reach a node more than once.

    Parameters
    ----------
    deliveries : DataFrame
        ``group, node, hops, delay_us``: a row for each copy that a member gets.

    Returns
    -------
    DataFrame
        The same columns, one row for each group and node: least delay, then fewest hops.
    """
    first = F.min(F.struct("delay_us", "hops")).alias("first")
    return (
        deliveries.groupBy("group", "node")
        .agg(first)
        .select("group", "node", F.col("first.hops"), F.col("first.delay_us"))
    )


def group_delay(deliveries: DataFrame, groups: DataFrame) -> DataFrame:
    """`schemas.GROUP_DELAY`: RAD and RMD of every group that reaches some member, per system.

    Parameters
    ----------
    deliveries : DataFrame
        `schemas.DELIVERIES`.
    groups : DataFrame
        ``group, size``.
    """
    # whole microseconds, so that sums do not depend on their order
    delay_us = F.rint(F.col("delay_ms") * MICROSECONDS).cast("bigint")
    spent = deliveries.groupBy("system", "group").agg(
        F.sum(delay_us).alias("total"),
        F.max(delay_us).alias("most"),
        F.count(F.lit(1)).alias("reached"),
    )
    same_group = Window.partitionBy("group")

    def of_baseline(column: str) -> Column:
        return F.max(F.when(F.col("system") == baseline().name, F.col(column))).over(same_group)

    both = spent.select(
        "system",
        "group",
        *("total", "most", "reached"),
        of_baseline("total").alias("base_total"),
        of_baseline("most").alias("base_most"),
        of_baseline("reached").alias("base_reached"),
    ).where(F.col("base_reached").isNotNull())
    sums = ("total", "reached", "base_total", "base_reached")
    return both.join(F.broadcast(groups.select("group", "size")), "group", "inner").select(
        "system",
        "group",
        "size",
        rad(*map(F.col, sums)).alias("rad"),
        rmd(F.col("most"), F.col("base_most")).alias("rmd"),
    )


def rdp(deliveries: DataFrame, group: int, systems: list[str]) -> dict[str, dict[str, float]]:
    """RDP of one group's members, per system: mean, median, shares below 1, 2.25 and 4.

    Parameters
    ----------
    deliveries : DataFrame
        `schemas.DELIVERIES`.
    group : int
        The group's number.
    systems : list of str
        Those asked for; a system that reaches nobody is left out.
    """
    mine = deliveries.where(F.col("group") == group)
    base = mine.where(F.col("system") == baseline().name)
    base = base.select("node", F.col("delay_ms").alias("base"))
    asked = mine.where(F.col("system").isin(systems)).select("system", "node", "delay_ms")
    # as a share of 1e9: whole numbers, so that the mean does not depend on the order of rows
    ratio = F.round(F.col("delay_ms") / F.col("base") * 10**9).cast("bigint")
    ratios = asked.join(base.hint("shuffle_hash"), "node", "inner").select(
        "system", ratio.alias("ratio")
    )

    def share_below(bound: float) -> Column:
        return F.avg((F.col("ratio") < int(bound * 10**9)).cast("int"))

    rows = ratios.groupBy("system").agg(
        (F.avg("ratio") / 1e9).alias("mean"),
        (F.percentile("ratio", 0.5) / 1e9).alias("median"),
        *(share_below(bound).alias(name) for name, bound in RDP_BOUNDS.items()),
    )
    return {row["system"]: _without(row.asDict(), "system") for row in rows.collect()}


def _without(record: dict, name: str) -> dict:
    return {key: value for key, value in record.items() if key != name}


# --- what a run has of them


def _collect(run: RunTables) -> dict[str, dict[str, float]]:
    """RDP of the group of rank 1."""
    largest = group_of_rank_1(run["groups"])
    if largest is None:
        return {}
    return rdp(run["deliveries"], largest, [s.name for s in run.systems if trees(s)])


def _rad(run: RunTables) -> DataFrame:
    return values_of(run.of_systems("group_delay", trees), "rad")


def _rmd(run: RunTables) -> DataFrame:
    return values_of(run.of_systems("group_delay", trees), "rmd")


def _depth(run: RunTables) -> DataFrame:
    return values_of(run.of_systems("deliveries", trees), "hops")


def _rdp_metric(name: str, unit: str, what: str) -> Metric:
    def value(found: Found, system: str) -> float | None:
        return found.collected.get("delay", {}).get(system, {}).get(name)

    definition = f"{what} RDP (delay / delay by IP multicast) over the members of the largest group"
    return Metric(f"rdp.{name}", unit, "IV.B", f"{definition}.", value, trees)


def _rdp_metrics() -> tuple[Metric, ...]:
    return (
        _rdp_metric("mean", "x", "Mean"),
        _rdp_metric("median", "x", "Median"),
        *(
            _rdp_metric(name, "of members", f"Share below {bound} of the")
            for name, bound in RDP_BOUNDS.items()
        ),
    )


DELAY = Measure(
    "delay",
    collect=_collect,
    early=True,
    distributions=(
        Distribution("rad", "7", _rad),
        Distribution("rmd", "7", _rmd),
        Distribution("depth", "III", _depth),
    ),
    metrics=(
        *histogram_metrics(
            "rad",
            "x",
            "7",
            "RAD of a group (mean delay of its members / that by IP multicast), over the groups",
            trees,
            ("median", "max"),
        ),
        *histogram_metrics(
            "rmd",
            "x",
            "7",
            "RMD of a group (greatest delay of a member / that by IP multicast), over the groups",
            trees,
            ("median", "max"),
        ),
        *_rdp_metrics(),
        *histogram_metrics(
            "depth",
            "hops",
            "III",
            "number of hops from the root to a member, over all members of all groups",
            trees,
            ("mean", "max"),
        ),
    ),
)
