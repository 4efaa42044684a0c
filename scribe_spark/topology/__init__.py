"""The router network: transit-stub graphs, real networks, the user's own; all as one `Topology`."""

from scribe_spark.topology.checks import check
from scribe_spark.topology.graph import Graph, GraphFramesMissing, Topology
from scribe_spark.topology.sources import from_frames, from_graphframe, load

__all__ = [
    "Graph",
    "GraphFramesMissing",
    "Topology",
    "check",
    "from_frames",
    "from_graphframe",
    "load",
]
