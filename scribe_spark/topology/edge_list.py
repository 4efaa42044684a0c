"""A router graph from a CSV or Parquet table of its links: ``src, dst, delay_ms[, weight]``."""

from __future__ import annotations

from pyspark.sql import SparkSession

from scribe_spark.config.given_graph import MOST_ROWS
from scribe_spark.inputs import read_table
from scribe_spark.remote_inputs import collect_remote
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.links import EDGE_COLUMNS, FIELD, graph_of_links


def edge_list(path: str) -> Graph:
    """The graph of a local edge list: CSV or Parquet with ``src, dst, delay_ms[, weight]``.

    Raises
    ------
    InputError
        Missing or malformed table, or a graph that cannot be simulated.
    """
    edges = read_table(path, FIELD, EDGE_COLUMNS, optional=("weight",))
    return graph_of_links(None, edges, path)


def remote_edge_list(url: str, spark: SparkSession) -> Graph:
    """The graph of an edge list that only Spark can reach; as :func:`edge_list`."""
    edges = collect_remote(spark, url, FIELD, EDGE_COLUMNS, optional=("weight",), most=MOST_ROWS)
    return graph_of_links(None, edges, url)
