"""The underlay of breadth-first searches: for large networks whose links are all equal.

If all links have the same weight, a route of least weight is one of fewest hops.  Executors get the
links once, as a file, and search from 64 sources at a time: a router's 64-bit word has a bit for
each source that has reached it, so that a step of all searches is one OR over each router's links.
A number of (source, router) is divided into bits: plane k has bit k, again in a word for each
router.

References
----------
Then et al., "The more the merrier: efficient multi-source graph traversal", VLDB 8, 2014.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.runtime.distribute import distribute_arrays, open_array
from scribe_spark.underlay.paths import merged_links, path_links
from scribe_spark.underlay.protocol import Kernel, Underlay, Withheld


def route_losses(pred: np.ndarray, routers: np.ndarray, losses: pd.DataFrame) -> np.ndarray:
    """Return the share of packets lost on each route: float64, shape (R, R).

    It is 1 - the product of (1 - loss) over the links of the route.  `pred` has the predecessors of
    `RouteMatrices`; a link from a router to itself is between two of its nodes.

    Examples
    --------
    >>> lossy = pd.DataFrame({"src": [4, 5], "dst": [5, 6], "loss": [0.5, 0.5]})
    >>> pred = np.array([[-1, 0, 1], [1, -1, 1], [1, 2, -1]])
    >>> route_losses(pred, np.array([4, 5, 6]), lossy)[0].tolist()
    [0.0, 0.5, 0.75]
    """
    r = len(routers)
    passes = np.ones((r, r))
    ends = [index_sorted(routers, losses[end].to_numpy()) for end in ("src", "dst")]
    passes[ends[0], ends[1]] = 1 - losses["loss"].to_numpy(np.float64)
    source = np.repeat(np.arange(r), r)
    here = np.tile(np.arange(r), r)
    kept = passes.diagonal()[source] * (source == here) + (source != here)
    route = np.flatnonzero(source != here)
    while len(route):
        before = pred[source[route], here[route]].astype(np.int64)
        kept[route] *= passes[before, here[route]]
        here[route] = before
        route = route[before != source[route]]
    return (1 - kept).reshape(r, r)


# --- searches


_WORD = 64
_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)
_FAR = np.int64(2**62)
_HOP = np.int64(2**32)  # above every position in a list of candidates


@dataclass(frozen=True, eq=False)
class HopGraph:
    """A connected graph whose links all have the same weight, in a layout for searches.

    Inside, routers are positions in the order of their number of links, most first: few words are
    read most of the time.  Links are grouped by their receiver, then by the sender's index.
    """

    #: int64, shape (R,): the position of each index.
    place: np.ndarray
    #: int64, shape (R,): the index of each position.
    index: np.ndarray
    #: int64, shape (L,): the positions of a link's ends.
    sender: np.ndarray
    receiver: np.ndarray
    #: int64, shape (R,): the first link to the router at each position.
    first: np.ndarray

    @classmethod
    def of(cls, routers: int, src: np.ndarray, dst: np.ndarray) -> HopGraph:
        """Return the graph of links ``src[i]`` to ``dst[i]`` (indices), both ways."""
        index = np.argsort(-np.bincount(dst, minlength=routers), kind="stable")
        place = np.empty(routers, dtype=np.int64)
        place[index] = np.arange(routers)
        order = np.lexsort((src, place[dst]))
        sender, receiver = place[src[order]], place[dst[order]]
        return cls(place, index, sender, receiver, np.searchsorted(receiver, np.arange(routers)))

    @functools.cached_property
    def low(self) -> list[tuple[int, np.ndarray]]:
        """For each bit of a link's number at its receiver (lowest first), which links lack the bit.

        A bit has the number of routers with such a link, and a word for each link to these routers:
        all ones if the link's number lacks the bit, else 0.
        """
        number = np.arange(len(self.receiver)) - self.first[self.receiver]
        bits = []
        for k in range(int(number.max(initial=0)).bit_length()):
            routers = int(self.receiver[number >= 1 << k].max()) + 1
            mine = number[: np.searchsorted(self.receiver, routers)]
            bits.append((routers, np.where(mine >> k & 1, np.uint64(0), _ALL)))
        return bits

    def met(self, words: np.ndarray) -> np.ndarray:
        """Return, for each router that the links of `words` lead to, the OR of their words."""
        routers = int(self.receiver[len(words) - 1]) + 1
        return np.bitwise_or.reduceat(words, self.first[:routers])


@dataclass(frozen=True, eq=False)
class Search:
    """The results of breadth-first searches from up to 64 routers to all routers."""

    graph: HopGraph
    #: int64, shape (S,): indices, ascending.
    sources: np.ndarray
    #: uint64, shape (P, R): the hops from each source to the router at each position, by bits.
    planes: np.ndarray

    @classmethod
    def of(cls, graph: HopGraph, sources: np.ndarray) -> Search:
        """Return the results of searches from `sources` (indices) to every router."""
        reached = np.zeros(len(graph.place), dtype=np.uint64)
        reached[graph.place[sources]] = _ONE << np.arange(len(sources), dtype=np.uint64)
        planes = [np.zeros_like(reached)]
        hops = 0
        while len(graph.sender):
            new = graph.met(reached[graph.sender]) & ~reached
            if not new.any():
                break
            reached |= new
            hops += 1
            if hops >> len(planes):
                planes.append(np.zeros_like(reached))
            for k, plane in enumerate(planes):
                if hops >> k & 1:
                    plane |= new
        return cls(graph, sources, np.stack(planes))

    def hops(self, source: np.ndarray, router: np.ndarray) -> np.ndarray:
        """Return the hops from each `source`, one of `sources`, to its `router`: int64."""
        return self._read(self.planes, source, self.graph.place[router])

    def last_link(self, source: np.ndarray, router: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each route, the router before the last (an index) and the last link's number.

        Of several such routers on shortest paths, it is the one of least index.
        """
        place = self.graph.place[router]
        link = self.graph.first[place] + self._read(self._last, source, place)
        return self.graph.index[self.graph.sender[link]], link

    @functools.cached_property
    def _last(self) -> np.ndarray:
        """The numbers of the routers' last links, by bits: the first link on a shortest path."""
        graph = self.graph
        # neighbours' hops differ by one at most, so two bits show that a link leads one hop further
        low = self.planes[0]
        high = self.planes[1] if len(self.planes) > 1 else np.zeros_like(low)
        carry = high ^ low
        tight = low[graph.sender] ^ low[graph.receiver]
        tight &= ~(carry[graph.sender] ^ high[graph.receiver])
        planes = np.zeros((len(graph.low), len(graph.place)), dtype=np.uint64)
        # find the least number bit by bit, from the highest: 0 if a remaining link has a 0
        for k in range(len(graph.low) - 1, -1, -1):
            routers, zero = graph.low[k]
            mine = slice(len(zero))
            some = graph.met(tight[mine] & zero)
            planes[k, :routers] = ~some
            tight[mine] &= zero ^ ~some[graph.receiver[mine]]
        return planes

    def _read(self, planes: np.ndarray, source: np.ndarray, place: np.ndarray) -> np.ndarray:
        bit = index_sorted(self.sources, source).astype(np.uint64)
        number = np.zeros(len(place), dtype=np.int64)
        for k, plane in enumerate(planes):
            number |= (plane[place] >> bit & _ONE).astype(np.int64) << k
        return number


def searches(graph: HopGraph, source: np.ndarray) -> Iterator[tuple[np.ndarray, Search]]:
    """Search from each different router in `source`; yield indices in `source`, and a search."""
    distinct, number = np.unique(source, return_inverse=True)
    by_source = np.argsort(number, kind="stable")
    number = number[by_source]
    for at in range(0, len(distinct), _WORD):
        mine = slice(*np.searchsorted(number, [at, at + _WORD]))
        yield by_source[mine], Search.of(graph, distinct[at : at + _WORD])


def hops(graph: HopGraph, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the number of hops from router a to router b (indices), row by row: int64."""
    found = np.empty(len(a), dtype=np.int64)
    for rows, search in searches(graph, a):
        found[rows] = search.hops(a[rows], b[rows])
    return found


def nearest(
    graph: HopGraph, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """Return each query's nearest candidate in each segment, as `Kernel.nearest`."""
    found = np.empty((len(queries), len(starts)), dtype=np.int64)
    ends = np.r_[starts[1:], len(candidates)]
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        found[:, k] = start + _nearest_of(graph, candidates[start:end])[queries]
    return found


def _nearest_of(graph: HopGraph, candidates: np.ndarray) -> np.ndarray:
    """Return the index in `candidates` of each router's nearest one; of equals, the first."""
    best = np.full(len(graph.place), _FAR)
    np.minimum.at(best, graph.place[candidates], np.arange(len(candidates)))
    while len(graph.sender):
        # hops and position in one number, so that the least is the nearest and then the first
        through = np.minimum.reduceat(best[graph.sender], graph.first) + _HOP
        if (through >= best).all():
            break
        best = np.minimum(best, through)
    return best[graph.place] % _HOP


# --- the underlay


@dataclass(frozen=True)
class HopKernel(Kernel):
    """The queries of routes by breadth-first searches, over distributed arrays."""

    routers: str
    links: str
    hop_us: int
    withheld: Withheld | None = field(default=None, kw_only=True)

    @property
    def arrays(self) -> tuple[str, ...]:
        return self.routers, self.links

    @property
    def graph(self) -> HopGraph:
        """The graph of the links, in the layout for searches."""
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
    """Return sender, receiver and number of packets of each link that has packets."""
    link = np.flatnonzero(totals)
    sender, receiver = (graph.index[end[link]] for end in (graph.sender, graph.receiver))
    return sender, receiver, totals[link]


@functools.lru_cache(maxsize=1)
def _graph(routers: str, links: str) -> HopGraph:
    return HopGraph.of(len(open_array(routers)), *open_array(links))


class HopUnderlay(Underlay):
    """An underlay whose links have one weight and one delay; routes are searched on demand."""

    @classmethod
    def of(
        cls, spark: SparkSession, routers: np.ndarray, links: pd.DataFrame, lan_us: int
    ) -> HopUnderlay:
        """Return an underlay whose graph every executor gets once."""
        ends = np.stack([index_sorted(routers, links[end].to_numpy()) for end in ("src", "dst")])
        hop_us = round(links["delay_ms"].max() * MICROSECONDS) if len(links) else 0
        names = distribute_arrays(spark, routers=routers, links=ends)
        return cls(HopKernel(names[0], names[1], hop_us), routers, len(links), lan_us)

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        return super().delay(frame.repartition(a).sortWithinPartitions(a), a, b, into)
