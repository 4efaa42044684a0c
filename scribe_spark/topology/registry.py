"""The kinds of topology, by name, and the graph of a config.

A new kind is a module with a :class:`~scribe_spark.topology.graph.TopologyKind`, and one line
below; users call :func:`register_topology`.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from pyspark.sql import SparkSession
from typing_extensions import TypeIs

from scribe_spark.config import NetworkConfig, TopologyConfig
from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.core.arrays import NONE, find_sorted
from scribe_spark.core.errors import InputError, listed
from scribe_spark.core.inputs import Kind, check_each_node, exists, is_local, read_table
from scribe_spark.core.registry import Registry
from scribe_spark.topology import edges_file, regions, transit_stub
from scribe_spark.topology.checks import check
from scribe_spark.topology.graph import Graph, TopologyKind
from scribe_spark.topology.graph_files import edge_list, graph_file, is_graph_file, remote_edge_list
from scribe_spark.topology.kinds import PAIR_DELAYS, POWER_LAW, TOPOHUB, with_nodes
from scribe_spark.topology.links import FIELD, from_given

_KINDS: Registry[TopologyKind] = Registry(
    "kind of topology",
    *(transit_stub.KIND, POWER_LAW, TOPOHUB, regions.KIND, PAIR_DELAYS, edges_file.KIND),
)

#: Remove a user's kind of topology by its name.
unregister_topology = _KINDS.unregister


def register_topology(kind: TopologyKind) -> TopologyKind:
    """Add a kind of topology to this process; configs can then name it.

    Raises
    ------
    ValueError
        The package has a kind of that name.
    """
    return _KINDS.register(kind)


def find(topology: str | GivenGraph) -> tuple[TopologyKind, str] | None:
    """Return the kind and the argument in a text ``KIND:ARGUMENT``; None for other texts."""
    if isinstance(topology, GivenGraph):
        return None
    name, colon, argument = topology.partition(":")
    kind = _KINDS.get(name)
    return None if kind is None or bool(colon) != bool(kind.argument) else (kind, argument)


def is_path(topology: str | GivenGraph) -> TypeIs[str]:
    """Return True if `topology` is the path or URL of a file."""
    return isinstance(topology, str) and find(topology) is None


def needs_spark(topology: str | GivenGraph) -> bool:
    """Return True if only Spark can read `topology`: a URL of another machine."""
    return is_path(topology) and not is_local(topology) and not is_graph_file(topology)


def load(config: NetworkConfig, spark: SparkSession | None = None) -> Graph:
    """Return the checked router graph of a config; `spark` reads URLs of other machines."""
    graph = _loaded(config, spark)
    if graph.pairs is not None:
        graph = with_nodes(graph, config.overlay.nodes)
    if config.topology.nodes_file is not None:
        graph = edges_file.place_nodes(
            graph, config.topology.nodes_file, config.overlay.nodes, config.seed
        )
    if graph.pairs is not None:
        return graph
    if config.topology.node_routers is not None:
        graph = _place_nodes(graph, config.topology.node_routers, config.overlay.nodes)
    return _direct(graph) if config.topology.routes == "direct" else graph


def _loaded(config: NetworkConfig, spark: SparkSession | None) -> Graph:
    topology = config.topology.kind
    if isinstance(topology, GivenGraph):
        return from_given(topology)
    if (found := find(topology)) is not None:
        make = _kept if found[0].is_kept else _checked  # a run needs its graph twice
        return make(*found, config.topology, config.seed)
    if not is_local(topology):
        if is_graph_file(topology):
            remedy = "is not on this machine; copy the file to a local path"
            raise InputError(FIELD, topology, remedy)
        if spark is None:
            remedy = "is not on this machine; reading it takes a Spark session"
            raise InputError(FIELD, topology, remedy)
        return remote_edge_list(topology, spark)
    if not exists(topology, FIELD):
        raise InputError(FIELD, topology, _unknown(topology))
    return graph_file(topology) if is_graph_file(topology) else edge_list(topology)


def _checked(kind: TopologyKind, argument: str, config: TopologyConfig, seed: int) -> Graph:
    graph = kind.make(argument, config, seed)
    check(graph)
    return graph


_kept = functools.lru_cache(maxsize=2)(_checked)


def _unknown(topology: str) -> str:
    if topology.startswith("graph:"):
        return "stands for a graph that was given in Python; give that graph again"
    names = listed(kind.spelling for kind in _KINDS.values())
    return f"does not exist; give {names}, or the path of a GML or GraphML file or an edge list"


# --- settings that change a graph

_NODE_ROUTERS = "node_routers"
_ROUTER_COLUMNS: dict[str, Kind] = {"node": "int", "router": "int"}


def _place_nodes(graph: Graph, path: str, nodes: int) -> Graph:
    """Return the graph with N nodes, whose routers are in the table at `path`: ``node, router``."""
    if not is_local(path):
        raise InputError(
            _NODE_ROUTERS, path, "is not on this machine; copy the file to a local path"
        )
    frame = read_table(path, _NODE_ROUTERS, _ROUTER_COLUMNS)
    node, router = (frame[name].to_numpy(np.int64) for name in _ROUTER_COLUMNS)
    check_each_node(node, nodes, _NODE_ROUTERS, path)
    at = find_sorted(graph.vertices["id"].to_numpy(np.int64), router)
    if (at == NONE).any():
        row = int(np.argmax(at == NONE))
        remedy = f"router={router[row]} of node={node[row]} is not a router of the network"
        raise InputError(_NODE_ROUTERS, path, remedy)
    places = np.empty(nodes, dtype=np.int32)
    places[node] = at
    return replace(graph, hosts=replace(graph.hosts, places=places))


def _direct(graph: Graph) -> Graph:
    """Return the graph with links of equal weight, so that a link is the route of its ends."""
    ids, edges = graph.vertices["id"], graph.edges
    lacking = len(ids) * (len(ids) - 1) - len(edges)
    if lacking:
        degree = edges["src"].value_counts()
        one = int(ids[ids.map(degree).fillna(0) < len(ids) - 1].iloc[0])
        others = ids[(ids != one) & ~ids.isin(edges.loc[edges["src"] == one, "dst"])]
        remedy = (
            f"needs a link between any two routers; routers {one} and {int(others.iloc[0])} of "
            f"{graph.source} have none (pairs without one: {lacking // 2:,}); give shortest"
        )
        raise InputError("routes", "direct", remedy)
    return replace(graph, edges=edges.assign(weight=1.0))
