"""The router network: generated, real or the user's own.

Names are loaded at their first use, so that Spark tasks that only need the rates of routers
(`hosts`) load no module of the config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scribe_spark.core.registry import load as load_name

if TYPE_CHECKING:
    from scribe_spark.runtime.graph_frame import GraphFramesMissing
    from scribe_spark.topology.checks import check, check_routable
    from scribe_spark.topology.frames import Topology, from_frames
    from scribe_spark.topology.graph import Graph, TopologyKind
    from scribe_spark.topology.links import graph_of_links
    from scribe_spark.topology.registry import is_path, load, needs_spark, register_topology

__all__ = [
    "Graph",
    "GraphFramesMissing",
    "Topology",
    "TopologyKind",
    "check",
    "check_routable",
    "from_frames",
    "graph_of_links",
    "is_path",
    "load",
    "needs_spark",
    "register_topology",
]

#: The module of each name.
_HOMES = {
    "Graph": "topology.graph",
    "GraphFramesMissing": "runtime.graph_frame",
    "Topology": "topology.frames",
    "TopologyKind": "topology.graph",
    "check": "topology.checks",
    "check_routable": "topology.checks",
    "from_frames": "topology.frames",
    "graph_of_links": "topology.links",
    "is_path": "topology.registry",
    "load": "topology.registry",
    "needs_spark": "topology.registry",
    "register_topology": "topology.registry",
}


def __getattr__(name: str) -> Any:
    """Return a name of :data:`__all__`, loaded at its first use."""
    value = load_name("scribe_spark", name, _HOMES)
    globals()[name] = value
    return value
