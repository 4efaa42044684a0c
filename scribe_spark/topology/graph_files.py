"""Router graphs in files of graph formats: GML (Shadow, Topology Zoo) and GraphML (Topology Zoo).

:mod:`.gml` and :mod:`.graphml` read the elements of a file, :mod:`.attributes` their attributes.

References
----------
Shadow, "Network Graph Specification" (shadow.github.io): ``latency``, ``packet_loss``, ``jitter``
of edges, ``host_bandwidth_up`` and ``host_bandwidth_down`` of nodes.
Knight, Nguyen, Falkner, Bowden, Roughan, "The Internet Topology Zoo", IEEE JSAC 29(9), 2011:
``Latitude``, ``Longitude``, ``LinkSpeedRaw``.
"""

from __future__ import annotations

from scribe_spark.core.input_files import read_packed
from scribe_spark.core.paths import local_path
from scribe_spark.errors import InputError, one_line
from scribe_spark.topology.attributes import graph_of_elements
from scribe_spark.topology.gml import read_gml
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.graphml import read_graphml
from scribe_spark.topology.links import FIELD

#: The greatest file; each element needs a kilobyte of memory.
_MOST_BYTES = 2**28

_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def is_graph_file(path: str) -> bool:
    """Return True if a path has the ending of a graph format, or of a compressed one."""
    return _format_of(path) is not None


def graph_file(path: str) -> Graph:
    """Return the router graph of a local GML or GraphML file."""
    name = _format_of(path)
    assert name is not None
    text = _text(path, name)
    try:
        elements = _FORMATS[name](text)
    except ValueError as error:
        raise InputError(FIELD, path, f"cannot be read as {name}: {error}") from None
    return graph_of_elements(elements, path)


def _format_of(path: str) -> str | None:
    name = path.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return {"gml": "GML", "graphml": "GraphML"}.get(name.rpartition(".")[2])


def _text(path: str, name: str) -> str:
    try:
        return read_packed(local_path(path), _MOST_BYTES).decode("utf-8-sig")
    except Exception as error:  # each compression has its own errors
        raise InputError(FIELD, path, f"cannot be read as {name}: {one_line(error)}") from None


_FORMATS = {"GML": read_gml, "GraphML": read_graphml}
