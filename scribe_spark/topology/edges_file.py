"""Networks of two files: a table of nodes, and a table of edges between nodes or between regions.

The edges have ``source, target, latency`` (a number is in ms) and, optionally, ``loss`` (0 to 1).
Both ends are regions of the nodes file, or both are nodes.  A region, or each node, is a router; an
edge from a region to itself is between two of its nodes.

References
----------
libp2p/test-plans, pull request 671, "Gossipsub interop custom graph".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from scribe_spark.config.topology import EDGES, TopologyConfig
from scribe_spark.core import draws
from scribe_spark.core.errors import InputError, listed, shown
from scribe_spark.core.inputs import Kind, first_rows, read_table
from scribe_spark.core.node_classes import FIELD as NODES
from scribe_spark.core.node_classes import NodesFile, parsed_cells, read_nodes
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.topology.checks import LOSS, latency_ms
from scribe_spark.topology.graph import Graph, Hosts, TopologyKind, router_frame
from scribe_spark.topology.links import graph_of_links, lossy_links

FIELD = "edges_file"

_COLUMNS: dict[str, Kind] = {
    "source": "name",
    "target": "name",
    "latency": "quantity",
    "loss": "optional quantity",
}


def edges_network(config: TopologyConfig) -> Graph:
    """Return the network of a config with an edges file."""
    assert config.edges_file is not None
    assert config.nodes_file is not None
    path, nodes = config.edges_file, read_nodes(config.nodes_file)
    frame = read_table(path, FIELD, _COLUMNS, optional=("loss",))
    of_regions = frame["source"].iloc[0] in nodes.regions
    names = nodes.regions if of_regions else tuple(map(str, range(nodes.count)))
    links = _links(frame, names, f"regions of {config.nodes_file}" if of_regions else "nodes", path)
    loops = (links["src"] == links["dst"]).to_numpy()
    if loops.any() and not of_regions:
        raise _refused(path, "an edge must join two different nodes", frame, loops)
    twice = links.duplicated(["src", "dst"]).to_numpy()
    if twice.any():
        raise _refused(path, "an edge occurs twice; keep one", frame, twice)
    region = np.arange(len(names)) if of_regions else nodes.region
    own_us, notes = _own_delays(links[loops], names) if of_regions else (None, list[str]())
    notes.append(
        f"two LAN links add {2 * config.lan_delay_ms:g} ms to each latency between nodes; give "
        "--lan-delay-ms 0.001 for latencies between hosts"
    )
    places = np.arange(nodes.count) if nodes.region is None or not of_regions else nodes.region
    hosts = Hosts(
        own_us=own_us, regions=nodes.regions, region=region, places=places.astype(np.int32)
    )
    losses = lossy_links(links) if links["loss"].any() else None
    routers = router_frame(np.arange(len(names)), domain=region)
    made = links.loc[~loops, ["src", "dst", "delay_ms"]].reset_index(drop=True)
    return graph_of_links(routers, made, path, hosts, losses, tuple(notes), FIELD)


def _links(frame: pd.DataFrame, names: Sequence[str], what: str, path: str) -> pd.DataFrame:
    """Return the edges as ``src, dst, delay_ms, loss``; both ends are indices in `names`."""
    at = {name: index for index, name in enumerate(names)}
    ends = {}
    for new, column in (("src", "source"), ("dst", "target")):
        index = frame[column].map(at)
        if (unknown := index.isna().to_numpy()).any():
            remedy = f"column {column} must have {what}, as the first edge"
            raise _refused(path, remedy, frame[[column]], unknown)
        ends[new] = index.to_numpy(np.int64)
    delay_ms = parsed_cells(frame, "latency", partial(latency_ms, usual="ms"), 0.0, FIELD, path)
    loss = np.zeros(len(frame))
    if "loss" in frame:
        loss = parsed_cells(frame, "loss", LOSS.number, 0.0, FIELD, path)
    return pd.DataFrame({**ends, "delay_ms": delay_ms, "loss": loss})


def _own_delays(loops: pd.DataFrame, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return the delay (us) between two nodes of each region, and a note for the user."""
    own_us = np.zeros(len(names), dtype=np.int64)
    own_us[loops["src"]] = np.rint(loops["delay_ms"] * MICROSECONDS).astype(np.int64)
    lacking = len(names) - len(loops)
    note = f"regions without an edge to themselves: {lacking:,}; their nodes have LAN links alone"
    return own_us, [note] * (lacking > 0)


def _refused(path: str, remedy: str, frame: pd.DataFrame, bad: np.ndarray) -> InputError:
    ends = frame[[name for name in ("source", "target") if name in frame]]
    return InputError(FIELD, path, f"{remedy}: {first_rows(ends, bad)}")


# --- nodes


def place_nodes(graph: Graph, path: str, nodes: int, seed: int) -> Graph:
    """Return the graph with N nodes, whose regions and rates are in the nodes file at `path`."""
    table = read_nodes(path)
    if table.count != nodes:
        raise InputError("nodes", nodes, f"must be {table.count}, the number of nodes in {path}")
    hosts = replace(graph.hosts, up_of_node=table.up, down_of_node=table.down)
    if hosts.places is None and hosts.region is not None:
        hosts = replace(hosts, places=_places(hosts, table, path, seed))
    return replace(graph, hosts=hosts)


def _places(hosts: Hosts, table: NodesFile, path: str, seed: int) -> np.ndarray | None:
    """Return the index of each node's router, drawn in its region; None for a table without any."""
    if table.region is None:
        return None
    places = np.empty(table.count, dtype=np.int32)
    for index, name in enumerate(table.regions):
        mine = np.flatnonzero(table.region == index)
        if name not in hosts.regions:
            what = f"column region: {shown(name)} of node {mine[0]} is no region of the network"
            raise InputError(NODES, path, f"{what}; give some of {listed(hosts.regions)}")
        sites = np.flatnonzero(hosts.region == hosts.regions.index(name))
        drawn = draws.bits_np(seed, "site", mine) % np.uint64(len(sites))
        places[mine] = sites[drawn.astype(np.int64)]
    return places


KIND = TopologyKind(EDGES, lambda _, config, seed: edges_network(config), is_kept=False)
