"""The overlay as a graph: nodes are vertices; leaves and table entries are edges.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.schemas import LEAF_SET, OVERLAY_EDGES, ROUTING_TABLE_ENTRY, conform


def overlay_edges(knowledge: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the edges of all nodes to existing nodes: `schemas.OVERLAY_EDGES`.

    A node that is in another node's leaf set and in its routing table has two edges from there. A
    GraphFrame needs a vertex at both ends of an edge, so edges to other nodes are left out.
    """
    edges = leaf_set_edges(knowledge).unionByName(routing_table_edges(knowledge))
    return edges.join(nodes.select(F.col("node").alias("dst")), "dst", "left_semi").select(
        OVERLAY_EDGES.names
    )


def leaf_set_edges(knowledge: DataFrame) -> DataFrame:
    """Return the edges of all leaf sets (`schemas.KNOWLEDGE`): `schemas.OVERLAY_EDGES`."""
    leaves = knowledge.select("node", "smaller", F.posexplode("leaf_set").alias("index", "leaf"))
    clockwise = F.col("index") - F.col("smaller")
    edges = leaves.select(
        F.col("node").alias("src"),
        F.col("leaf.entry").alias("dst"),
        F.lit(LEAF_SET).alias("kind"),
        F.lit(None).alias("row"),
        F.lit(None).alias("col"),
        # the node itself, at 0, is not in its leaf set
        F.when(clockwise < 0, clockwise).otherwise(clockwise + 1).alias("place"),
    )
    return conform(edges, OVERLAY_EDGES)


def routing_table_edges(knowledge: DataFrame) -> DataFrame:
    """Return the edges of all routing tables (`schemas.KNOWLEDGE`): `schemas.OVERLAY_EDGES`."""
    entries = knowledge.select("node", F.explode("routing_table").alias("cell"))
    edges = entries.select(
        F.col("node").alias("src"),
        F.col("cell.entry").alias("dst"),
        F.lit(ROUTING_TABLE_ENTRY).alias("kind"),
        F.col("cell.row").alias("row"),
        F.col("cell.col").alias("col"),
        F.lit(None).alias("place"),
    )
    return conform(edges, OVERLAY_EDGES)
