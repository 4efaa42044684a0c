"""The rates of links between routers, in bits per second.

They are in the network's file, or follow from the class of a link: between transit routers, between
a transit router and a stub, or between routers of stubs.

References
----------
Jannotti et al., "Overcast: reliable multicasting with an overlay network", OSDI 2000, gives each of
these classes of a transit-stub network one rate (recalled).
"""

from __future__ import annotations

import numpy as np

from scribe_spark.config import ExperimentConfig, TopologyConfig
from scribe_spark.core.errors import InputError
from scribe_spark.topology.checks import MOST_ROUTERS
from scribe_spark.topology.graph import Graph


def link_rates(graph: Graph, config: TopologyConfig) -> np.ndarray | None:
    """Return the rate (bit/s) of each row of ``graph.edges``: int64.

    The result is None if the rates are unknown, or if the network is too large for its routes to be
    kept.
    """
    edges, vertices = graph.edges, graph.vertices
    if len(vertices) > MOST_ROUTERS:
        return None
    if "rate" in edges:
        return edges["rate"].to_numpy(np.int64)
    kinds = vertices.set_index("id")["kind"]
    if not kinds.isin(("transit", "stub")).all():
        return None
    transit = [(kinds.loc[edges[end]] == "transit").to_numpy(np.int64) for end in ("src", "dst")]
    return np.array(config.rates_of_links)[sum(transit)]


def refuse_network(config: ExperimentConfig, graph: Graph) -> None:
    """Refuse settings of systems, or of links, that do not fit to a network."""
    has_rates = link_rates(graph, config.topology) is not None
    if config.bandwidth.link_rates and not has_rates:
        remedy = f"needs rates of links on kept routes, which {graph.source} does not have"
        raise InputError("link_rates", True, remedy)
    config.refuse_network(graph.source, len(graph.vertices), has_rates)
