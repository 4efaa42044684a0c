"""Overlay nodes: their nodeIds and their routers.

References
----------
JSAC 2002, Section II: 128-bit nodeIds, uniformly distributed, "for instance by basing the nodeId
on a secure hash"; Section IV.A: end nodes "randomly assigned to routers ... with uniform
probability".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.core import draws
from scribe_spark.core.node_classes import share_of
from scribe_spark.runtime.batches import Batches

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import ExperimentConfig


def draw_nodes(
    spark: SparkSession,
    config: ExperimentConfig,
    routers: np.ndarray,
    shares: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Batches:
    """Return the nodes of the overlay, numbered from 0: `schemas.NODES`; lazy.

    Parameters
    ----------
    routers : ndarray of int64, shape (R,)
        The ids of the routers that nodes can be attached to.
    shares : ndarray of float64, shape (R,), optional
        The fraction of the nodes at each router; by default equal fractions.
    places : ndarray of int32, shape (N,), optional
        The index of each node's router; by default routers are drawn.
    """
    rows = node_rows(config, routers, shares, places)

    def draw(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
        return rows(batch.column("id").to_numpy())

    return Batches.numbered(spark, config.overlay.nodes).each(draw, schemas.NODES)


def node_rows(
    config: ExperimentConfig,
    routers: np.ndarray,
    shares: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Return the function from numbers of nodes to their columns ``node, id_hi, id_lo, router``.

    The parameters are those of :func:`draw_nodes`.
    """
    seed, hashed = config.seed, config.overlay.node_ids == "sha1"

    def draw(node: np.ndarray) -> dict[str, np.ndarray]:
        hi, lo = _hashed_ids(node) if hashed else _uniform_ids(seed, node)
        place = router_index(seed, node, len(routers), shares, places)
        return {"node": node, "id_hi": hi, "id_lo": lo, "router": routers[place]}

    return draw


def router_index(
    seed: int,
    node: np.ndarray,
    routers: int,
    shares: np.ndarray | None = None,
    places: np.ndarray | None = None,
) -> np.ndarray:
    """Return the index of each node's router in `routers`: int64; see :func:`draw_nodes`."""
    if places is not None:
        return places[node].astype(np.int64)
    bits = draws.bits_np(seed, "router", node)
    return bits.view(np.int64) % routers if shares is None else share_of(bits, shares)


def _uniform_ids(seed: int, node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return random nodeIds as two halves (BIGINT), keyed by seed and node."""
    halves = (draws.bits_np(seed, f"nodeId {half}", node) for half in ("hi", "lo"))
    hi, lo = (half.view(np.int64) for half in halves)
    return hi, lo


def _hashed_ids(node: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nodeIds as two halves (BIGINT): the first 128 bits of SHA-1 of the nodes' names."""
    digests = [hashlib.sha1(b"node-%d" % number).digest()[:16] for number in node.tolist()]
    halves = np.frombuffer(b"".join(digests), ">i8").astype(np.int64).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def node_vertices(nodes: DataFrame) -> DataFrame:
    """Return nodes as vertices of a graph: `schemas.NODE_VERTICES`.

    Parameters
    ----------
    nodes : DataFrame
        The nodes: `schemas.NODES`.
    """
    return schemas.conform(nodes.withColumnRenamed("node", "id"), schemas.NODE_VERTICES)
