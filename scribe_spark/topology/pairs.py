"""A network without a graph: each node is its own router, and each pair of nodes has a delay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scribe_spark.config.topology import PAIRS, TopologyConfig
from scribe_spark.core.pair_delay import PairDelay, parse_jitter
from scribe_spark.topology.graph import Graph, Hosts, TopologyKind, router_frame
from scribe_spark.topology.links import no_links

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


KIND = TopologyKind(PAIRS, lambda _, config, seed: pair_network(config))
