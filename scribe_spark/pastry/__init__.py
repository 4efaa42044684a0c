"""Pastry: nodes, routing tables, leaf sets, and routing by supersteps."""

from scribe_spark.pastry.nodes import make_nodes, node_name
from scribe_spark.pastry.routing import Application, Overlay
from scribe_spark.pastry.tables import build_state, routing_table, table_entries

__all__ = [
    "Application",
    "Overlay",
    "build_state",
    "make_nodes",
    "node_name",
    "routing_table",
    "table_entries",
]
