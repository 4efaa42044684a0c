"""Errors for networks in which messages cannot be routed; without Spark."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from scribe_spark.core import draws
from scribe_spark.core.arrays import NONE, depths, index_sorted
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.topology.checks import MOST_ROUTERS, check_routable
from scribe_spark.topology.graph import Graph
from scribe_spark.underlay import dijkstra

#: The number of routers whose routes are checked, if routes could be too long.
_SOURCES = 64


def check_routes(graph: Graph, tie: str, seed: int, most: int = MOST_ROUTERS) -> None:
    """Refuse a graph whose routes cannot be found, or take too long.

    Some routes are checked here; matrices check all in networks with up to `most` routers.
    """
    if graph.pairs is not None:
        return
    check_routable(graph, tie, most)
    routers, edges = graph.vertices["id"].to_numpy(), graph.edges
    links = None if len(routers) > most else dijkstra.LinkArrays.of(routers, edges, tie, seed)
    link_us = round(edges["delay_ms"].max() * MICROSECONDS) if len(edges) else 0
    if (len(routers) - 1) * link_us < dijkstra.TOO_LONG:  # no route passes a router twice
        return
    if links is None:
        _check_hops(routers, edges[["src", "dst"]].to_numpy(), link_us)
    else:
        sources = np.unique(np.linspace(0, len(routers) - 1, _SOURCES).astype(np.int64))
        dijkstra.refuse_long(routers, sources, dijkstra.route_block(links, sources)[0])


def _check_hops(routers: np.ndarray, ends: np.ndarray, hop_us: int) -> None:
    """Refuse a network of equal links whose longest routes take too long."""
    src, dst = (index_sorted(routers, end) for end in ends.T)
    graph = csr_array((np.ones(len(src)), (src, dst)), shape=(len(routers), len(routers)))
    # No route is longer than two routes from one router.  So all routes take less than 2**32
    # microseconds, which kernels can store, if those from this router are not refused.
    one_end = int(_hops(graph, 0).argmax())
    dijkstra.refuse_long(routers, np.array([one_end]), _hops(graph, one_end)[None] * hop_us)


def _hops(graph: csr_array, source: int) -> np.ndarray:
    """Return the number of hops from the router `source` to each router: int64, shape (R,)."""
    _, before = breadth_first_order(graph, source)
    return depths(np.where(before < 0, NONE, before).astype(np.int64))


# --- statistics of a network


#: The number of routers whose routes are counted in a large network.
_SAMPLE = 200

#: The number of routes in memory at once.
_ROUTES = 2_500_000


def statistics(graph: Graph, tie: str, seed: int) -> dict[str, str]:
    """Return sizes of a graph, and means over its links and ordered pairs: name -> text."""
    if graph.pairs is not None:
        return {"nodes": f"{len(graph.vertices):,}", "delays of pairs": str(graph.pairs)}
    routers, edges = graph.vertices["id"].to_numpy(), graph.edges
    links = dijkstra.LinkArrays.of(routers, edges, tie, seed)
    r = len(routers)
    sampled = r if r <= MOST_ROUTERS else _SAMPLE
    sources = draws.distinct_below(r, sampled, seed, "sampled routers", 0)
    delay_us = hops = 0
    block = max(1, _ROUTES // r)
    for start in range(0, sampled, block):
        delay, pred = dijkstra.route_block(links, sources[start : start + block])
        delay_us += int(delay.sum(dtype=np.int64))
        hops += int(dijkstra.accumulate(pred, (pred >= 0).astype(np.int64)).sum())
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
