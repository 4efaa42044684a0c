"""Pastry: nodes, routing tables, leaf sets, and the next hop of a message."""

from scribe_spark.pastry.knowledge import routing_table, table_entries
from scribe_spark.pastry.nodes import draw_nodes, node_name, node_vertices
from scribe_spark.pastry.overlay import PastryOverlay

__all__ = [
    "PastryOverlay",
    "draw_nodes",
    "node_name",
    "node_vertices",
    "routing_table",
    "table_entries",
]
