"""The unicast routes from each group's source to its members; both baselines are made of these."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.underlay.protocol import Underlay

__all__ = ["deliveries_of", "unicasts"]


def unicasts(groups: DataFrame, members: DataFrame, underlay: Underlay) -> DataFrame:
    """One route from each group's source to each other member, with its delay.

    Parameters
    ----------
    groups : DataFrame
        ``group, source, source_router``.
    members : DataFrame
        ``group, node, router``.

    Returns
    -------
    DataFrame
        ``group, parent, child, parent_router, child_router, delay_us``; the parent is the source.
    """
    sources = F.broadcast(groups.select("group", "source", "source_router"))
    others = members.join(sources, "group", "inner").where(F.col("node") != F.col("source"))
    star = others.select(
        "group",
        F.col("source").alias("parent"),
        F.col("node").alias("child"),
        F.col("source_router").alias("parent_router"),
        F.col("router").alias("child_router"),
    )
    return underlay.delay(star, "parent_router", "child_router")


def deliveries_of(star: DataFrame) -> DataFrame:
    """``group, node, hops, delay_us``: each route of :func:`unicasts` delivers to its end."""
    return star.select("group", F.col("child").alias("node"), F.lit(1).alias("hops"), "delay_us")
