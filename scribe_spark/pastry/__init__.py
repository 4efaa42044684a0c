"""Pastry: nodes, routing tables, leaf sets, and the next hop of a message."""

from scribe_spark.pastry.nodes import make_nodes, node_name, node_vertices
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.registry import (
    OverlayKind,
    build_overlay,
    register_overlay,
    unregister_overlay,
)
from scribe_spark.pastry.routing_table import routing_table, table_entries

__all__ = [
    "OverlayKind",
    "PastryOverlay",
    "build_overlay",
    "make_nodes",
    "node_name",
    "node_vertices",
    "register_overlay",
    "routing_table",
    "table_entries",
    "unregister_overlay",
]
