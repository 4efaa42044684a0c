"""Statistics of a network, to check it before a run."""

from __future__ import annotations

import numpy as np

from scribe_spark import draws
from scribe_spark.topology.checks import MOST_ROUTERS
from scribe_spark.topology.graph import Graph
from scribe_spark.underlay.dijkstra import LinkArrays, accumulate, route_block

#: The number of routers whose routes are counted in a large network.
_SAMPLE = 200

#: The number of routes in memory at once.
_ROUTES = 2_500_000


def statistics(graph: Graph, tie: str, seed: int) -> dict[str, str]:
    """Return sizes and means over links and routes, as texts by name.

    Means of routes are over ordered pairs of distinct routers; in a network with more than 10,000
    routers, over the pairs from 200 of them.
    """
    routers, edges = graph.vertices["id"].to_numpy(), graph.edges
    links = LinkArrays.of(routers, edges, tie, seed)
    r = len(routers)
    sampled = r if r <= MOST_ROUTERS else _SAMPLE
    sources = draws.distinct_below(r, sampled, seed, "sampled routers", 0)
    delay_us = hops = 0
    block = max(1, _ROUTES // r)
    for start in range(0, sampled, block):
        delay, pred = route_block(links, sources[start : start + block])
        delay_us += int(delay.sum(dtype=np.int64))
        hops += int(accumulate(pred, (pred >= 0).astype(np.int64)).sum())
    pairs = max(1, sampled * (r - 1))
    note = "" if sampled == r else f"  (from {sampled:,} sampled routers)"
    delays = edges["delay_ms"] if len(edges) else np.zeros(1)
    least, middle, most = delays.min(), np.median(delays), delays.max()
    return {
        "routers": f"{r:,}",
        "links (directed)": f"{len(edges):,}",
        "link delays": f"{least:g} to {most:g} ms, median {middle:g} ms",
        "mean link delay": f"{edges['delay_ms'].mean() if len(edges) else 0:.2f} ms",
        "mean route delay": f"{delay_us / pairs / 1000:.2f} ms{note}",
        "mean route hops": f"{hops / pairs:.2f}{note}",
        "connected": "yes",  # other graphs are refused when they are loaded
    }
