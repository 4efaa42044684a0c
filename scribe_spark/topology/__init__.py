"""The router network: drawn, real or the user's own; all as one `Topology`."""

from scribe_spark.topology.checks import check, check_routable
from scribe_spark.topology.graph import Graph, GraphFramesMissing, Topology
from scribe_spark.topology.sources import from_frames, from_graphframe, load

__all__ = [
    "Graph",
    "GraphFramesMissing",
    "Topology",
    "check",
    "check_routable",
    "from_frames",
    "from_graphframe",
    "load",
]
