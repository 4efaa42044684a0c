"""Rounds of Overcast's kernel in process, on networks with routes and rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from periods import PlayedPeriods

from scribe_spark.config import TopologyConfig
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.overcast.config import OvercastConfig
from scribe_spark.systems.overcast.overlay import Overcast
from scribe_spark.topology import transit_stub
from scribe_spark.topology.checks import link_rates
from scribe_spark.topology.links import graph_of_links
from scribe_spark.underlay.dijkstra import LinkArrays, route_block
from scribe_spark.underlay.paths import last_links, merged_links, path_links

NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Routed:
    """Routes between routers 0 to R - 1 (`underlay.protocol.Kernel`)."""

    withheld: ClassVar[None] = None
    delay_us: np.ndarray
    pred: np.ndarray
    links: np.ndarray  # src * R + dst, ascending
    link_rates: np.ndarray
    jitter: int = 0

    @classmethod
    def of_graph(cls, graph, config) -> Routed:
        """The network of a graph whose routers are 0 to R - 1."""
        routers, edges = graph.vertices["id"].to_numpy(), graph.edges
        found = route_block(LinkArrays.of(routers, edges, "delay", 1), routers)
        links = edges["src"].to_numpy() * len(routers) + edges["dst"].to_numpy()
        return cls(*found, links, link_rates(graph, config))

    def index(self, routers):
        return routers

    def ids(self, index):
        return index

    def losses(self, a, b):
        """No packet is lost."""

    def delays(self, a, b):
        return self.delay_us[a, b]

    def route_links(self, a, b):
        route, link = path_links(last_links(self.pred), a, b)
        return route, np.searchsorted(self.links, link)

    def merged_packets(self, tree, a, b):
        on_links = merged_links(last_links(self.pred), len(self.pred), tree, a, b)
        link, packets = np.unique(on_links, return_counts=True)
        return *np.divmod(link, len(self.pred)), packets


def paper_network(seed: int) -> Routed:
    """600 routers, of which 0 to 23 are transit routers."""
    sizes = {"transit_domains": 3, "transit_size": 8, "stubs_per_transit": 1, "stub_size": 24}
    config = TopologyConfig(**sizes, p_top=0.5, p_transit=0.5, p_stub=0.5)
    graph = transit_stub.KIND.make("", config, seed)
    kinds = graph.vertices["kind"].to_numpy()
    assert len(kinds) == 600
    assert (kinds[:24] == "transit").all()
    assert (kinds[24:] == "stub").all()
    return Routed.of_graph(graph, config)


class Played(PlayedPeriods):
    """Groups 0 to G - 1 in one builder; node i is at position i and at router ``router[i]``."""

    drops_empty: ClassVar[bool] = False

    def __init__(self, kernel, router, rules=None, groups=1, seed=1, node=None) -> None:
        self.kernel, self.router, number = kernel, router, np.arange(len(router))
        ids = number.astype(np.uint64)
        ring = Ring(ids, ids, number if node is None else node, router)
        system = Overcast(OvercastConfig(**(rules or {})).for_tasks())
        super().__init__(system, Network(ring, kernel, 1000, seed), range(groups))


def small_network(seed: int, routers: int = 12) -> Routed:
    """A ring of routers with shortcuts; delays and rates are drawn."""
    drawn = np.random.default_rng(seed)
    pairs = {(at, (at + 1) % routers) for at in range(routers)}
    pairs |= {tuple(drawn.choice(routers, 2, replace=False).tolist()) for _ in range(routers // 2)}
    rates, delays = (
        drawn.choice([1e6, 2e6, 5e6, 45e6], len(pairs)),
        drawn.integers(1, 9, len(pairs)),
    )
    links = pd.DataFrame(sorted(pairs), columns=["src", "dst"])
    graph = graph_of_links(None, links.assign(delay_ms=delays * 1.0, rate=rates), "drawn")
    return Routed.of_graph(graph, TopologyConfig())
