"""What Scribe is compared with: IP multicast and naive unicast over the same routes.

References
----------
JSAC 2002, Section IV.A ("IP multicast routing used a shortest path tree formed by the merge of the
unicast routes from the source to each recipient"), Section IV.D (naive multicast).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.schemas import Multicast
from scribe_spark.underlay.matrices import Underlay

__all__ = ["ip_multicast", "naive_unicast", "unicasts"]

IP_MULTICAST, NAIVE_UNICAST = "ip_multicast", "naive_unicast"


def unicasts(groups: DataFrame, members: DataFrame, underlay: Underlay) -> DataFrame:
    """One route from each group's source to each other member; both baselines are made of these.

    Parameters
    ----------
    groups : DataFrame
        ``group, source, source_router``.
    members : DataFrame
        ``group, node, router``.

    Returns
    -------
    DataFrame
        ``group, parent, child, parent_router, child_router, delay_us``.
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


def ip_multicast(star: DataFrame) -> Multicast:
    """Routers duplicate: the merge of the routes, no state in end nodes."""
    return Multicast(IP_MULTICAST, star, _deliveries(star), merged=True)


def naive_unicast(star: DataFrame) -> Multicast:
    """The source sends a packet to every member."""
    return Multicast(NAIVE_UNICAST, star, _deliveries(star))


def _deliveries(star: DataFrame) -> DataFrame:
    return star.select("group", F.col("child").alias("node"), F.lit(1).alias("hops"), "delay_us")
