"""Kinds of topology that need a function each: power-law, topohub, pairs.

References
----------
Barabasi and Albert, "Emergence of scaling in random networks", Science 286, 1999: a new router
links to routers in proportion to the links they have, and degrees fall off as k**-3.
Batagelj and Brandes, "Efficient generation of large random networks", Phys. Rev. E 71, 2005: a
random element of the list of all links' ends is such a router.
Sanders and Schulz, "Scalable generation of scale-free graphs", Inf. Proc. Letters 116, 2016: draws
that refer to other draws are resolved afterwards, all at once.
JSAC 2002, Section IV.A (102,639 routers).  Jurkiewicz, "TopoHub", SoftwareX 24, 2023.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd

from scribe_spark.config.topology import PAIRS, TopologyConfig
from scribe_spark.core import draws
from scribe_spark.core.errors import InputError, listed
from scribe_spark.core.pair_delay import PairDelay, parse_jitter
from scribe_spark.topology.graph import Graph, Hosts, TopologyKind, router_frame
from scribe_spark.topology.links import FIELD, both_ways, graph_of_links, no_links

# --- power-law


#: The delay of every link; the distance D then counts hops.
_HOP_MS = 1.0


def power_law(routers: int, links: int, seed: int) -> Graph:
    """Return a connected graph that grows router by router; a new one has links to earlier ones.

    The undirected links, at least R - 1, are spread evenly over the routers that bring them.  Of
    several links between two routers one is kept, so there are a few fewer.
    """
    brought = np.diff(np.arange(routers) * links // max(1, routers - 1))
    newer = np.repeat(np.arange(1, routers), brought)
    # link i has ends 2 i (the newer router) and 2 i + 1, which is drawn from all ends of the links
    # that were there before the newer router
    before = 2 * np.repeat(np.cumsum(brought) - brought, brought)
    shares = draws.uniform(draws.stream(seed, "power law"), len(newer))
    drawn = (shares * before).astype(np.int64)
    end = drawn.copy()
    while (unknown := (end % 2 == 1) & (before > 0)).any():  # it refers to a drawn end: follow it
        at = end[unknown] // 2
        end[unknown] = np.where(before[at] > 0, drawn[at], _OLDEST)
    older = np.where((before > 0) & (end != _OLDEST), newer[end // 2], 0)
    edges = pd.DataFrame({"src": newer, "dst": older, "delay_ms": _HOP_MS, "weight": 1.0})
    return Graph(router_frame(np.arange(routers)), both_ways(edges), "power-law")


_OLDEST = -2  # even, as an end that is known: router 0, the first link's older end


POWER_LAW = TopologyKind(
    "power-law",
    lambda _, config, seed: power_law(config.power_law_routers, config.power_law_links, seed),
)


# --- topohub


#: Light in fibre: 5 microseconds per kilometre.
KM_PER_MS = 200.0


def topohub_network(name: str) -> Graph:
    """Return a network of the topohub package, for example ``sndlib/germany50``.

    The delay of a link is the time of light in fibre; ``x`` and ``y`` are longitude and latitude.
    """
    source = f"topohub:{name}"
    try:
        import topohub
    except ImportError:
        remedy = "needs the topohub package: pip install 'scribe_spark[topohub]'"
        raise InputError(FIELD, source, remedy) from None
    data = Path(str(resources.files(topohub))) / "data"
    files = sorted(data.rglob("*.json"))
    names = [file.relative_to(data).with_suffix("").as_posix() for file in files]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        remedy = f"is unknown to topohub; it has {listed(near or names)}"
        raise InputError(FIELD, source, remedy)
    network = topohub.get(name)
    ids = [int(node["id"]) for node in network["nodes"]]
    x, y = np.array([node["pos"] for node in network["nodes"]], dtype=np.float64).T
    links = [(int(e["source"]), int(e["target"]), e["dist"]) for e in network["edges"]]
    edges = pd.DataFrame(links, columns=["src", "dst", "delay_ms"])
    edges = edges.astype({"src": "int64", "dst": "int64", "delay_ms": "float64"})
    edges["delay_ms"] /= KM_PER_MS
    return graph_of_links(router_frame(ids, x=x, y=y), edges, source)


TOPOHUB = TopologyKind("topohub", lambda name, config, seed: topohub_network(name), argument="NAME")


# --- pairs


_NOTES = (
    "pairs: each node is its own router, and IP multicast takes the direct delay; there are no "
    "links, so link stress is left out"
)


def pair_network(config: TopologyConfig) -> Graph:
    """Return the network of pairs of a config, still without nodes (see :func:`with_nodes`)."""
    law = PairDelay.parse(config.pair_delay)
    return Graph(router_frame([]), no_links(), PAIRS, notes=(_NOTES,), pairs=law)


def with_nodes(graph: Graph, nodes: int) -> Graph:
    """Return the network of pairs with N nodes; router i is the router of node i."""
    places = np.arange(nodes, dtype=np.int32)
    return replace(graph, vertices=router_frame(np.arange(nodes)), hosts=Hosts(places=places))


def jitter_of(config: TopologyConfig) -> int:
    """Return the greatest additional delay of copies in millionths of a pair's delay."""
    return 0 if config.message_jitter is None else parse_jitter(config.message_jitter)


PAIR_DELAYS = TopologyKind(PAIRS, lambda _, config, seed: pair_network(config))
