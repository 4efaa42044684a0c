"""The multicast trees of a run as a graph whose vertices are nodes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from scribe_spark.pastry import node_vertices
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.schemas import TREE_GRAPH_EDGES, conform


@dataclass(frozen=True)
class TreeGraph(GraphTables):
    """The trees of all groups and systems in one graph.

    Attributes
    ----------
    vertices : DataFrame
        Every node, also nodes in no tree: ``id, id_hi, id_lo, router``.
    edges : DataFrame
        One row per copy from node to node: ``src, dst, system, group``.  For IP multicast and naive
        unicast, edges go from a group's source to each of its other members.
    """

    vertices: DataFrame
    edges: DataFrame

    @classmethod
    def of(cls, nodes: DataFrame, tree_edges: DataFrame) -> TreeGraph:
        """Return the graph of a run's tables.

        Parameters
        ----------
        nodes : DataFrame
            The nodes: ``node, id_hi, id_lo, router``.
        tree_edges : DataFrame
            ``system, group, parent, child``.
        """
        ends = tree_edges.withColumnsRenamed({"parent": "src", "child": "dst"})
        return cls(node_vertices(nodes), conform(ends, TREE_GRAPH_EDGES))
