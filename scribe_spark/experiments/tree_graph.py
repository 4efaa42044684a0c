"""The multicast trees of a run: as a table, and as a graph whose vertices are nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.multicast import Multicast
from scribe_spark.pastry import node_vertices
from scribe_spark.runtime.batches import Batches
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.schemas import TREE_GRAPH_EDGES, WRITTEN, conform

__all__ = ["TreeGraph", "tree_edges"]


@dataclass(frozen=True)
class TreeGraph(GraphTables):
    """The trees of all groups and systems in one graph.

    Attributes
    ----------
    vertices : DataFrame
        `schemas.NODE_VERTICES`: every node, those in no tree too.
    edges : DataFrame
        `schemas.TREE_GRAPH_EDGES`: one row per copy that a node sends to a node.  For IP multicast
        and naive unicast these go from a group's source to each of its other members.
    """

    vertices: DataFrame
    edges: DataFrame

    @classmethod
    def of(cls, nodes: DataFrame, tree_edges: DataFrame) -> TreeGraph:
        """From the tables of a run.

        Parameters
        ----------
        nodes : DataFrame
            `schemas.NODES`.
        tree_edges : DataFrame
            With the columns of `schemas.TREE_EDGES`.
        """
        ends = tree_edges.withColumnsRenamed({"parent": "src", "child": "dst"})
        return cls(node_vertices(nodes), conform(ends, TREE_GRAPH_EDGES))


def tree_edges(systems: Iterable[Multicast]) -> Batches:
    """The table ``tree_edges`` as a run writes it, of all systems together."""
    return Batches.union([_edges(system) for system in systems])


def _edges(system: Multicast) -> Batches:
    name, merged = system.system, system.merged

    def edges(batch: pa.RecordBatch) -> dict[str, pa.Array]:
        told = {
            "system": pa.repeat(pa.scalar(name), len(batch)),
            "merged": pa.repeat(pa.scalar(merged), len(batch)),
        }
        return told | {column: batch.column(column) for column in _EDGE}

    return Batches.of(system.tree_edges, _EDGE).each(edges, WRITTEN["tree_edges"])


_EDGE = ("group", "parent", "child", "parent_router", "child_router")
