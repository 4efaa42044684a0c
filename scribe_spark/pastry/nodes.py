"""Overlay nodes: their nodeIds and their places on the routers.

References
----------
JSAC 2002, Section II: 128-bit nodeIds, uniformly distributed, "for instance by basing the nodeId
on a secure hash"; Section IV.A: end nodes "randomly assigned to routers ... with uniform
probability".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import draws, schemas
from scribe_spark.core import u128 as ids
from scribe_spark.runtime.sessions import local_frame

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import RunConfig

__all__ = ["make_nodes", "node_name", "node_vertices"]


def node_name(node: Column) -> Column:
    """A node's textual name."""
    return F.concat(F.lit("node-"), node.cast("string"))


def make_nodes(spark: SparkSession, config: RunConfig, routers: np.ndarray) -> DataFrame:
    """The overlay's nodes, `schemas.NODES`; nodes are numbered from 0.

    Parameters
    ----------
    routers : ndarray of int64, shape (R,)
        Ids of the routers that nodes sit on.
    """
    node = F.col("id")
    if config.overlay.node_ids == "sha1":
        digest = F.sha1(node_name(node))
        hi, lo = ids.half_of_digest(digest, 0), ids.half_of_digest(digest, 1)
    else:
        hi = draws.bits(config.seed, "nodeId hi", node)
        lo = draws.bits(config.seed, "nodeId lo", node)
    placed = spark.range(config.overlay.nodes).select(
        node.alias("node"),
        hi.alias("id_hi"),
        lo.alias("id_lo"),
        draws.below(len(routers), config.seed, "router", node).alias("place"),
    )
    places = local_frame(spark, pa.table({"place": np.arange(len(routers)), "router": routers}))
    return schemas.conform(placed.join(F.broadcast(places), "place", "inner"), schemas.NODES)


def node_vertices(nodes: DataFrame) -> DataFrame:
    """`schemas.NODE_VERTICES`: nodes as vertices of a graph.

    Parameters
    ----------
    nodes : DataFrame
        With the columns of `schemas.NODES`.
    """
    return schemas.conform(nodes.withColumnRenamed("node", "id"), schemas.NODE_VERTICES)
