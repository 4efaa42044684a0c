"""The underlay of breadth-first searches: for large networks whose links are all equal.

Executors get the links once, as a file.  A search serves all rows of its source, so rows are
grouped by source first.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.core.arrays import index_sorted
from scribe_spark.runtime.distribute import distribute_arrays, open_array
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.underlay.breadth_first import HopGraph, hops, nearest, searches
from scribe_spark.underlay.paths import merged_links, path_links
from scribe_spark.underlay.protocol import RouterIds, Underlay


@dataclass(frozen=True)
class HopKernel(RouterIds):
    """The queries of kernels by breadth-first searches, over distributed arrays."""

    routers: str
    links: str
    hop_us: int

    @property
    def arrays(self) -> tuple[str, ...]:
        return self.routers, self.links

    @property
    def graph(self) -> HopGraph:
        """The links in the layout for searches."""
        return _graph(self.routers, self.links)

    @property
    def all_pairs_limit(self) -> int:
        """See `Kernel`; it is large, as 64 short searches share one pass over the links."""
        return 1024

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        return nearest(self.graph, queries, candidates, starts)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return hops(self.graph, a, b) * self.hop_us

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        graph = self.graph
        totals = np.zeros(len(graph.sender), dtype=np.int64)
        for rows, search in searches(graph, a):
            row, link = path_links(search.last_link, a[rows], b[rows])
            np.add.at(totals, link, packets[rows][row])
        return _on_links(graph, totals)

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        graph = self.graph
        totals = np.zeros(len(graph.sender), dtype=np.int64)
        for rows, search in searches(graph, a):
            ends = tree[rows], a[rows], b[rows]
            np.add.at(totals, merged_links(search.last_link, len(graph.place), *ends), 1)
        return _on_links(graph, totals)


def _on_links(graph: HopGraph, totals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ends of each link with packets, and the number of packets."""
    link = np.flatnonzero(totals)
    sender, receiver = (graph.index[end[link]] for end in (graph.sender, graph.receiver))
    return sender, receiver, totals[link]


@functools.lru_cache(maxsize=1)
def _graph(routers: str, links: str) -> HopGraph:
    return HopGraph.of(len(open_array(routers)), *open_array(links))


class HopUnderlay(Underlay):
    """An underlay over links of one weight and delay."""

    @classmethod
    def of(
        cls, spark: SparkSession, routers: np.ndarray, links: pd.DataFrame, lan_us: int
    ) -> HopUnderlay:
        """Distribute the graph to all executors, once.

        `links` has ``src, dst, delay_ms``; all have one weight and one delay.
        """
        ends = np.stack([index_sorted(routers, links[end].to_numpy()) for end in ("src", "dst")])
        hop_us = round(links["delay_ms"].max() * MICROSECONDS) if len(links) else 0
        names = distribute_arrays(spark, routers=routers, links=ends)
        return cls(HopKernel(names[0], names[1], hop_us), routers, len(links), lan_us)

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        return super().delay(frame.repartition(a).sortWithinPartitions(a), a, b, into)
