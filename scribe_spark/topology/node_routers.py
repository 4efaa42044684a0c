"""A table with the router of each node, in place of random routers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.errors import InputError
from scribe_spark.inputs import Kind, check_each_node, is_local, read_table
from scribe_spark.topology.graph import Graph

_FIELD = "node_routers"
_COLUMNS: dict[str, Kind] = {"node": "int", "router": "int"}


def place_nodes(graph: Graph, path: str, nodes: int) -> Graph:
    """Return a graph whose N nodes are at the routers of a table ``node, router``."""
    if not is_local(path):
        raise InputError(_FIELD, path, "is not on this machine; copy the file to a local path")
    frame = read_table(path, _FIELD, _COLUMNS)
    node, router = (frame[name].to_numpy(np.int64) for name in _COLUMNS)
    check_each_node(node, nodes, _FIELD, path)
    at = find_sorted(graph.vertices["id"].to_numpy(np.int64), router)
    if (at == NONE).any():
        row = int(np.argmax(at == NONE))
        remedy = f"router={router[row]} of node={node[row]} is not a router of the network"
        raise InputError(_FIELD, path, remedy)
    places = np.empty(nodes, dtype=np.int32)
    places[node] = at
    return replace(graph, hosts=replace(graph.hosts, places=places))
