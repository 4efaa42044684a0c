"""Overlay nodes: their nodeIds and their places on the routers.

References
----------
JSAC 2002, Section II: 128-bit nodeIds, uniformly distributed, "for instance by basing the nodeId
on a secure hash"; Section IV.A: end nodes "randomly assigned to routers ... with uniform
probability".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import draws, schemas
from scribe_spark.node_classes import share_of
from scribe_spark.runtime.batches import Batches

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import RunConfig


def node_name(node: Column) -> Column:
    """A node's textual name."""
    return F.concat(F.lit("node-"), node.cast("string"))


def draw_nodes(
    spark: SparkSession, config: RunConfig, routers: np.ndarray, shares: np.ndarray | None = None
) -> Batches:
    """The overlay's nodes, `schemas.NODES`; nodes are numbered from 0; lazy.

    Parameters
    ----------
    routers : ndarray of int64, shape (R,)
        Ids of the routers that nodes sit on.
    shares : ndarray of float64, shape (R,), optional
        Share of the nodes at each router; equal shares by default.
    """
    seed, hashed = config.seed, config.overlay.node_ids == "sha1"

    def draw(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        node = batch.column("id").to_numpy()
        hi, lo = _hashed_ids(node) if hashed else _uniform_ids(seed, node)
        place = router_index(seed, node, len(routers), shares)
        return {"node": node, "id_hi": hi, "id_lo": lo, "router": routers[place]}

    return Batches.of(spark.range(config.overlay.nodes)).each(draw, schemas.NODES)


def router_index(
    seed: int, node: np.ndarray, routers: int, shares: np.ndarray | None = None
) -> np.ndarray:
    """Return the index of the router that each node sits on: int64.

    Parameters
    ----------
    node : ndarray of int64
        Numbers of nodes.
    routers : int
        R.
    shares : ndarray of float64, shape (R,), optional
        As of :func:`draw_nodes`.
    """
    bits = draws.bits_np(seed, "router", node)
    return bits.view(np.int64) % routers if shares is None else share_of(bits, shares)


def _uniform_ids(seed: int, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both halves of nodeIds, as BIGINT."""
    halves = (draws.bits_np(seed, f"nodeId {half}", node) for half in ("hi", "lo"))
    hi, lo = (half.view(np.int64) for half in halves)
    return hi, lo


def _hashed_ids(node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both halves of the first 128 bits of SHA-1 of the nodes' names, as BIGINT."""
    digests = [hashlib.sha1(b"node-%d" % number).digest()[:16] for number in node.tolist()]
    halves = np.frombuffer(b"".join(digests), ">i8").astype(np.int64).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def node_vertices(nodes: DataFrame) -> DataFrame:
    """`schemas.NODE_VERTICES`: nodes as vertices of a graph.

    Parameters
    ----------
    nodes : DataFrame
        With the columns of `schemas.NODES`.
    """
    return schemas.conform(nodes.withColumnRenamed("node", "id"), schemas.NODE_VERTICES)
