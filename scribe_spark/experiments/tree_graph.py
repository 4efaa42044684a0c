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
