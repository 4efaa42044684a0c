"""What ``scribe-spark topology`` tells of a network."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import worlds

from scribe_spark.topology import Graph
from scribe_spark.topology.graph import router_frame
from scribe_spark.topology.links import both_ways
from scribe_spark.underlay import routable as module
from scribe_spark.underlay.routable import statistics


def graph_of(one: worlds.World) -> Graph:
    return Graph(router_frame(one.case.routers), worlds.link_frame(one.case))


def test_means_over_all_ordered_pairs():
    for one in worlds.worlds()[:60]:
        pairs = [(a, b) for a in one.case.routers for b in one.case.routers if a != b]
        delay = sum(one.routes.delay[a][b] for a, b in pairs) / max(1, len(pairs)) / 1000
        hops = sum(len(one.routes.path_links(a, b)) for a, b in pairs) / max(1, len(pairs))
        told = statistics(graph_of(one), "delay", 1)
        assert told["routers"] == f"{len(one.case.routers):,}"
        assert told["links (directed)"] == f"{len(one.case.links):,}"
        assert told["mean route delay"] == f"{delay:.2f} ms"
        assert told["mean route hops"] == f"{hops:.2f}"


@pytest.mark.parametrize(
    ("delays", "told"),
    [
        ([4.0, 6.0], "4 to 6 ms, median 5 ms"),  # both ways: 4, 4, 6, 6
        ([1.0, 2.0, 9.0], "1 to 9 ms, median 2 ms"),
        ([1.0, 2.0, 4.5, 9.0], "1 to 9 ms, median 3.25 ms"),
        ([], "0 to 0 ms, median 0 ms"),
    ],
)
def test_the_median_of_an_even_number_of_links_is_between_two(delays, told):
    at = np.arange(len(delays))
    links = pd.DataFrame({"src": at, "dst": at + 1, "delay_ms": delays, "weight": 1.0})
    graph = Graph(router_frame(np.arange(len(delays) + 1)), both_ways(links))
    assert statistics(graph, "delay", 1)["link delays"] == told


def test_a_large_network_is_sampled(monkeypatch):
    one = worlds.worlds()[3]
    monkeypatch.setattr(module, "MOST_ROUTERS", 2)
    monkeypatch.setattr(module, "_SAMPLE", 2)
    told = statistics(graph_of(one), "delay", 1)
    assert told["mean route hops"].endswith("(from 2 sampled routers)")


def test_memory_does_not_grow_with_routers_times_links():
    """500 routers and 40,000 directed links: all pairs of them would be 160 MB a number."""
    ends = np.random.default_rng(1).integers(0, 500, (20_000, 2))
    ends = np.concatenate([np.column_stack([np.arange(499), np.arange(1, 500)]), ends])
    ends = ends[ends[:, 0] != ends[:, 1]]
    links = pd.DataFrame({"src": ends[:, 0], "dst": ends[:, 1], "delay_ms": 1.0, "weight": 1.0})
    graph = Graph(router_frame(np.arange(500)), both_ways(links))
    tracemalloc.start()
    try:
        statistics(graph, "delay", 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6


def test_long_routes_do_not_multiply_the_work():
    """A line of 2,000 routers: 4,000,000 routes of 667 links in the mean."""
    routers = np.arange(2_000)
    line = pd.DataFrame({"src": routers[:-1], "dst": routers[1:], "delay_ms": 1.0, "weight": 1.0})
    graph = Graph(router_frame(routers), both_ways(line))
    began = time.process_time()
    told = statistics(graph, "delay", 1)
    assert told["mean route hops"] == f"{(len(routers) + 1) / 3:.2f}"
    assert time.process_time() - began < 10  # 1 s; link by link 26 s
