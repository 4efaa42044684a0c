"""Router graphs in files of graph formats: GML (Shadow, Topology Zoo) and GraphML (Topology Zoo).

NetworkX parses them; :mod:`.attributes` reads the elements.

References
----------
Shadow, "Network Graph Specification" (shadow.github.io): ``latency``, ``packet_loss``, ``jitter``
of edges, ``host_bandwidth_up`` and ``host_bandwidth_down`` of nodes.
Knight, Nguyen, Falkner, Bowden, Roughan, "The Internet Topology Zoo", IEEE JSAC 29(9), 2011:
``Latitude``, ``Longitude``, ``LinkSpeedRaw``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from scribe_spark.core.input_files import read_packed
from scribe_spark.core.paths import local_path
from scribe_spark.errors import InputError, one_line
from scribe_spark.topology.attributes import Elements, graph_of_elements
from scribe_spark.topology.graph import Graph
from scribe_spark.topology.links import FIELD

#: The greatest file; NetworkX needs some kilobytes of memory for each element.
_MOST_BYTES = 2**28

_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


def is_graph_file(path: str) -> bool:
    """Return True if a path has the ending of a graph format, or of a compressed one."""
    return _format_of(path) is not None


def graph_file(path: str) -> Graph:
    """Return the router graph of a local GML or GraphML file."""
    name = _format_of(path)
    assert name is not None
    parse, line_of = _FORMATS[name]
    text = _text(path, name)
    try:
        graph = parse(text)
    except Exception as error:  # NetworkX raises errors of several kinds
        remedy = f"cannot be read as {name}: {one_line(error)}"
        raise InputError(FIELD, path, remedy) from None

    def line(*ends: Any) -> int | None:
        found = line_of(text, *map(str, ends))
        return found or line_of(text, *map(str, ends[::-1]))  # an edge without a direction

    nodes = list(graph.nodes(data=True))
    edges = list(graph.edges(data=True))
    return graph_of_elements(Elements(nodes, edges, graph.is_directed(), line), path)


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


# --- GML

_GRAPH = re.compile(r"\bgraph\s*\[")


def _parse_gml(text: str) -> Any:
    """Parse GML; it may have parallel links with or without ``multigraph``."""
    if not re.search(r"(?m)^\s*multigraph\s", text):
        text = _GRAPH.sub(r"\g<0> multigraph 1 ", text, count=1)
    import networkx as nx  # imported here, as it takes long and few runs need it

    return nx.parse_gml(text, label="id")


def _line_of_gml(text: str, *ends: str) -> int | None:
    kind, keys = ("node", ("id",)) if len(ends) == 1 else ("edge", ("source", "target"))
    wanted = [rf'\b{key}\s+"?{re.escape(end)}"?\s' for key, end in zip(keys, ends, strict=True)]
    blocks = re.finditer(rf"\b{kind}\s*\[([^\[\]]*)", text)
    return _line(text, blocks, wanted, 1)


# --- GraphML


def _parse_graphml(text: str) -> Any:
    import networkx as nx

    return nx.parse_graphml(text, force_multigraph=True)


def _line_of_graphml(text: str, *ends: str) -> int | None:
    kind, keys = ("node", ("id",)) if len(ends) == 1 else ("edge", ("source", "target"))
    wanted = [rf"\b{key}=[\"']{re.escape(end)}[\"']" for key, end in zip(keys, ends, strict=True)]
    return _line(text, re.finditer(rf"<{kind}\b[^>]*>", text), wanted, 0)


def _line(text: str, blocks: Any, wanted: list[str], group: int) -> int | None:
    """Return the line of the first block that has all wanted entries."""
    for block in blocks:
        if all(re.search(one, block[group] + " ") for one in wanted):
            return text.count("\n", 0, block.start()) + 1
    return None


_FORMATS: dict[str, tuple[Callable[[str], Any], Callable[..., int | None]]] = {
    "GML": (_parse_gml, _line_of_gml),
    "GraphML": (_parse_graphml, _line_of_graphml),
}
