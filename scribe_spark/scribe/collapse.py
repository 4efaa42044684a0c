"""Collapse: long paths without branches are cut short.

References
----------
JSAC 2002, Section IV.F: "the algorithm collapses long paths in the tree by removing nodes that are
not members of a group and have only one entry in the group's children table".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.scribe.forest import EDGE, Forest, Variant, timed_edges

__all__ = ["collapse"]

_GROUP = ["group", "node"]


def collapse(forest: Forest) -> Variant:
    """Remove non-members with a single child, repeatedly, until none is left.

    The parent of a node that leaves has as many children as before, so who leaves is known
    beforehand: a round cuts a link of every chain, from its head on.
    """
    edges = forest.edges.select(EDGE)
    leaving, _ = superstep.materialise(_leaving(edges, forest.members, forest.groups))
    chains = edges.join(_as(leaving, "parent"), ["group", "parent"], "left_semi")
    # the last to go: `child` of a chain's link is marked when it leaves, too
    marked, _ = superstep.materialise(_marked(chains, leaving).repartition("parent"))
    links = marked.select(
        "group",
        F.col("parent").alias("child"),
        F.col("child").alias("heir"),
        F.col("child_router").alias("heir_router"),
        F.col("leaves").alias("heir_leaves"),
    )
    heads = edges.join(_as(leaving, "parent"), ["group", "parent"], "left_anti")

    def step(taken: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        gone = taken.where("leaves").select("group", "parent", "parent_router", "child")
        heirs = gone.hint("shuffle_hash").join(links, ["group", "child"], "inner")
        return heirs.select(
            "group",
            "parent",
            F.col("heir").alias("child"),
            "parent_router",
            F.col("heir_router").alias("child_router"),
            F.col("heir_leaves").alias("leaves"),
        ).repartition("child")

    rounds = superstep.run("collapse", _marked(heads, leaving), step, progress=forest.progress)
    for table in (marked, leaving):
        superstep.release(table)
    if not rounds.tables:
        return Variant(forest.edges)
    kept = timed_edges(rounds.union().where(~F.col("leaves")), forest.overlay.underlay)
    rounds.release()
    return Variant(kept, held=[kept])


def _leaving(edges: DataFrame, members: DataFrame, groups: DataFrame) -> DataFrame:
    """``group, node`` of those with one child that are neither members nor roots, by node."""
    held = edges.groupBy("group", F.col("parent").alias("node")).agg(F.count("*").alias("children"))
    single = held.where("children = 1").select(_GROUP)
    roots = F.broadcast(groups.select("group", F.col("root").alias("node")))
    outside = single.join(members.select(_GROUP).hint("shuffle_hash"), _GROUP, "left_anti")
    return outside.join(roots, _GROUP, "left_anti")


def _marked(edges: DataFrame, leaving: DataFrame) -> DataFrame:
    """`edges`, partitioned by child, with ``leaves``: whether the child does."""
    goes = _as(leaving, "child").withColumn("leaves", F.lit(True))
    joined = edges.join(goes.hint("shuffle_hash"), ["group", "child"], "left")
    return joined.select(*EDGE, F.coalesce("leaves", F.lit(False)).alias("leaves"))


def _as(nodes: DataFrame, column: str) -> DataFrame:
    return nodes.withColumnRenamed("node", column)
