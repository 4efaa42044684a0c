"""The router network: drawn, real or the user's own; all as one `Topology`."""

from scribe_spark.runtime.graph_frame import GraphFramesMissing
from scribe_spark.topology.checks import check, check_routable
from scribe_spark.topology.frames import Topology, from_frames
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.kind import TopologyKind
from scribe_spark.topology.links import graph_of_links
from scribe_spark.topology.registry import is_path, load, needs_spark, register_topology

__all__ = [
    "Graph",
    "GraphFramesMissing",
    "TopologyKind",
    "Topology",
    "check",
    "check_routable",
    "from_frames",
    "graph_of_links",
    "is_path",
    "load",
    "needs_spark",
    "register_topology",
]
