"""The rates of links: by class, from files, refused; and the narrowest link of a route."""

import re

import numpy as np
import pandas as pd
import pytest

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.topology import checks as rates
from scribe_spark.topology.links import graph_of_links
from scribe_spark.topology.registry import load
from scribe_spark.underlay.matrices import MatrixUnderlay, compute_routes
from scribe_spark.underlay.protocol import narrowest

LINKS = [(1, 2, 1.0, 8e6), (2, 3, 1.0, 3e6), (3, 1, 5.0, 9e6), (3, 2, 1.0, 7e6), (3, 9, 1.0, 5e5)]
FRAME = pd.DataFrame(LINKS, columns=["src", "dst", "delay_ms", "rate"])
GML = """graph [ directed 0 node [ id 1 ] node [ id 2 ] node [ id 3 ]
  edge [ source 1 target 1 latency "1 ms" ]
  edge [ source 1 target 2 latency "1 ms" bandwidth "8 Mbit" ]
  edge [ source 2 target 3 latency "1 ms" bandwidth "3 Mbit" ] ]"""


def test_links_of_a_transit_stub_network_have_the_rates_of_their_classes():
    config = RunConfig(nodes=9, stub_rate="7Mbit/s", transit_rate="2Gbit/s")
    graph = load(config)
    kinds = dict(graph.vertices[["id", "kind"]].to_numpy())
    each = {("stub", "stub"): 7_000_000, ("transit", "transit"): 2_000_000_000}
    wanted = [
        each.get((kinds[src], kinds[dst]), 1_500_000)
        for src, dst in graph.edges[["src", "dst"]].to_numpy()
    ]
    assert len(set(wanted)) == 3
    assert rates.link_rates(graph, config.topology).tolist() == wanted


@pytest.mark.parametrize("name", ["links.csv", "links.gml"])
def test_files_give_rates(tmp_path, name):
    path = tmp_path / name
    path.write_text(GML if name.endswith("gml") else FRAME[:2].to_csv(index=False))
    graph = load(config := RunConfig(topology=str(path)))
    assert graph.edges["src"].tolist() == [1, 2, 2, 3]
    found = rates.link_rates(graph, config.topology)
    assert found.tolist() == [8_000_000, 8_000_000, 3_000_000, 3_000_000]


def test_networks_without_rates_or_without_kept_routes(monkeypatch):
    config = RunConfig(nodes=9)
    path = graph_of_links(None, FRAME.drop(columns="rate"), "links")
    assert rates.link_rates(path, config.topology) is None
    rated = graph_of_links(None, FRAME, "links")
    assert len(rates.link_rates(rated, config.topology)) == len(rated.edges)
    monkeypatch.setattr(rates, "MOST_ROUTERS", 3)
    assert rates.link_rates(rated, config.topology) is None


REFUSED = [
    ("bandwidth '0 Mbit' must be above 0", "8 Mbit", "0 Mbit"),
    ("edge 1 to 2 (line 3) has no bandwidth; other edges have one", ' bandwidth "8 Mbit"', ""),
]


@pytest.mark.parametrize(("words", "text", "instead"), REFUSED)
def test_strange_bandwidths_of_edges_are_refused(tmp_path, words, text, instead):
    path = tmp_path / "links.gml"
    path.write_text(GML.replace(text, instead))
    with pytest.raises(InputError, match=re.escape(words)):
        load(RunConfig(topology=str(path)))


def test_the_narrowest_link_of_each_route(spark):
    graph = graph_of_links(None, FRAME, "links")
    ids = graph.vertices["id"].to_numpy()
    routes = compute_routes(spark, ids, graph.edges, "delay", 1)
    bits = rates.link_rates(graph, RunConfig(nodes=9).topology)
    links = graph.edges.assign(rate=bits)
    kernel = MatrixUnderlay.of(spark, routes, len(links), 500, None, links).kernel
    ends = np.array([(1, 3), (3, 1), (1, 9), (9, 9), (2, 3)])
    a, b = kernel.index(ends[:, 0]), kernel.index(ends[:, 1])
    assert narrowest(kernel, a, b).tolist() == [3e6, 7e6, 5e5, np.inf, 3e6]
    row, link = kernel.route_links(a, b)
    there = links.iloc[link]
    on = sorted(zip(row.tolist(), there["src"], there["dst"], strict=True))
    assert on == [
        *((0, 1, 2), (0, 2, 3), (1, 2, 1), (1, 3, 2), (2, 1, 2), (2, 2, 3), (2, 3, 9)),
        (4, 2, 3),
    ]
