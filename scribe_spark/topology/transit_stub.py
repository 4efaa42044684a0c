"""Transit-stub graphs: the network model of the Scribe papers' experiments.

Domains of transit routers form the core; each transit router has stub domains, each connected to it
by one link.  Policy weights keep a route between two routers of a domain inside it, and keep
transit traffic out of stubs.

Every draw is keyed by (seed, purpose, domain or stub number), so a stub's graph does not depend on
the number of redraws of another.  Only raw bits of the streams are used: numpy keeps those stable
between versions.

References
----------
Zegura, Calvert, Bhattacharjee, "How to model an internetwork", INFOCOM 1996 (GT-ITM).
Castro, Druschel, Kermarrec, Rowstron, "Scribe: a large-scale and decentralized application-level
multicast infrastructure", IEEE JSAC 20(8), 2002, Section IV-A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from scribe_spark import draws
from scribe_spark.config import TopologyConfig
from scribe_spark.errors import InputError
from scribe_spark.topology.connectivity import check_connectable
from scribe_spark.topology.geometry import Scales, geo, hop_diameter
from scribe_spark.topology.graph import Graph, router_frame
from scribe_spark.topology.kind import TopologyKind
from scribe_spark.topology.links import both_ways


@dataclass(frozen=True)
class Weights:
    """Policy weights of the kinds of links: w_tt, w_ts, w_ss, and 1 inside a domain."""

    inter_domain: int
    transit_stub: int
    stub_stub: int
    intra: int = 1

    @classmethod
    def of(cls, top: int, transit: int, stub: int) -> Weights:
        """Return the weights for hop diameters D_top, D_T and D_S."""

        def h(x: int) -> int:
            return x // 2 + 1

        inter_domain = h(transit)
        transit_stub = h(top * inter_domain) + h((top + 1) * transit)
        return cls(inter_domain, transit_stub, stub_stub=stub + 2 * transit_stub)


def generate(params: TopologyConfig, seed: int) -> Graph:
    """Return a transit-stub graph with exactly ``params.routers`` routers.

    Transit routers come first, domain by domain, then the stubs' routers in the order of the
    transit routers to which they belong.  Domains are numbered in the same way: transit, then
    stubs.
    """
    scales, sizes = Scales.of(params), _Sizes.of(params, seed)
    sizes.check_probabilities(params)
    places, top_links = geo(
        params.transit_domains, scales.grid, params.p_top, "p_top", _stream(seed, "top-level graph")
    )
    transit = _transit(params, sizes, scales, places, seed)
    owners, stubs = _stubs(params, sizes, scales, transit, seed)
    top_diameter = hop_diameter(params.transit_domains, top_links) or 0
    weights = Weights.of(top_diameter, transit.diameter, stubs.diameter)

    links = [
        (transit.links, weights.intra),
        (stubs.links, weights.intra),
        (_gateways(owners, stubs, seed), weights.transit_stub),
        (_inter_domain(top_links, transit, seed), weights.inter_domain),
        (_extra_transit_stub(params, owners, transit, stubs, seed), weights.transit_stub),
        (_extra_stub_stub(params, stubs, seed), weights.stub_stub),
    ]
    points = np.concatenate([transit.points, stubs.points])
    edges = pd.concat([_weighted(ends, weight, points) for ends, weight in links])
    domain = np.repeat(
        np.arange(len(transit.sizes) + len(stubs.sizes)),
        np.concatenate([transit.sizes, stubs.sizes]),
    )
    kind = np.repeat(["transit", "stub"], [transit.routers, stubs.routers])
    vertices = router_frame(np.arange(len(points)), kind, domain, points[:, 0], points[:, 1])
    return Graph(vertices, both_ways(edges), "transit-stub")


# Construction, in the order of the model's steps


@dataclass(frozen=True)
class _Sizes:
    """The sizes of domains and stubs, before any point or link is drawn."""

    #: int64, shape (T,): routers of each transit domain.
    transit: np.ndarray
    #: int64, shape (transit routers,): stubs of each transit router.
    stubs_of: np.ndarray
    #: int64, shape (stubs,): routers of each stub.
    stub: np.ndarray
    #: The number of transit domains, the first ones, with the transit scale and probability; GT-ITM
    #: draws the others with the stubs' scale and probability.
    as_transit: int

    @classmethod
    def of(cls, params: TopologyConfig, seed: int) -> _Sizes:
        def spread_each(counts: np.ndarray, mean: int, purpose: str) -> np.ndarray:
            drawn = [_spread(n, mean, _stream(seed, purpose, row)) for row, n in enumerate(counts)]
            return np.concatenate(drawn)

        domains = params.transit_domains
        transit = _spread(domains, params.transit_size, _stream(seed, "transit sizes"))
        stubs_of = spread_each(transit, params.stubs_per_transit, "stubs per router")
        stub = spread_each(stubs_of, params.stub_size, "stub sizes")
        return cls(transit, stubs_of, stub, as_transit=1 if params.gtitm_quirk else domains)

    def check_probabilities(self, params: TopologyConfig) -> None:
        """Refuse a probability that practically never gives connected domains of these sizes."""
        check_connectable(np.array([len(self.transit)]), params.p_top, "p_top")
        check_connectable(self.transit[: self.as_transit], params.p_transit, "p_transit")
        as_stub = np.concatenate([self.transit[self.as_transit :], self.stub])
        check_connectable(as_stub, params.p_stub, "p_stub")


def _transit(
    params: TopologyConfig, sizes: _Sizes, scales: Scales, places: np.ndarray, seed: int
) -> _Domains:
    """Return the transit domains, each in a square around its position, clamped into the grid."""
    graphs = []
    for domain, size in enumerate(sizes.transit.tolist()):
        as_transit = domain < sizes.as_transit
        field = "p_transit" if as_transit else "p_stub"
        scale = scales.transit if as_transit else scales.stub
        rng = _stream(seed, "transit domain", domain)
        points, links = geo(size, scale, getattr(params, field), field, rng)
        origin = np.clip(places[domain] - scale // 2, 0, scales.grid - scale)
        graphs.append((points + origin, links))
    return _join_domains(0, graphs)


def _stubs(
    params: TopologyConfig, sizes: _Sizes, scales: Scales, transit: _Domains, seed: int
) -> tuple[np.ndarray, _Domains]:
    """Return each stub's transit router, and the stubs, each in a square near that router."""
    owners = np.repeat(np.arange(transit.routers), sizes.stubs_of)
    least = np.maximum(0, transit.points - scales.stub)[owners]
    most = np.minimum(transit.points, scales.grid - scales.stub)[owners]
    graphs = []
    for stub, size in enumerate(sizes.stub.tolist()):
        points, links = geo(
            size, scales.stub, params.p_stub, "p_stub", _stream(seed, "stub domain", stub)
        )
        span = (most[stub] - least[stub] + 1).astype(np.uint64)
        shift = (_stream(seed, "stub origin", stub).random_raw(2) % span).astype(np.int64)
        graphs.append((points + least[stub] + shift, links))
    return owners, _join_domains(transit.routers, graphs)


def _gateways(owners: np.ndarray, stubs: _Domains, seed: int) -> np.ndarray:
    """Return one link per stub, from its transit router to a random router of the stub."""
    gateways = [
        stubs.member(stub, _stream(seed, "gateway", stub)) for stub in range(len(stubs.sizes))
    ]
    return np.column_stack([owners, gateways])


def _inter_domain(top_links: np.ndarray, transit: _Domains, seed: int) -> np.ndarray:
    """Return a link for each direction of each top-level edge, between random routers."""
    ends = []
    for one, other in np.concatenate([top_links, top_links[:, ::-1]]).tolist():
        rng = _stream(seed, "inter-domain", one * len(transit.sizes) + other)
        ends.append((transit.member(one, rng), transit.member(other, rng)))
    return _pairs(ends)


def _extra_transit_stub(
    params: TopologyConfig, owners: np.ndarray, transit: _Domains, stubs: _Domains, seed: int
) -> np.ndarray:
    """Return links from random stub routers to random transit routers of other stubs."""
    count = params.extra_transit_stub
    if count and transit.routers < 2:
        raise InputError("extra_transit_stub", count, "needs at least two transit routers")
    owner = np.repeat(owners, stubs.sizes)
    ends = []
    for extra in range(count):
        rng = _stream(seed, "extra transit-stub", extra)
        router, other = _below(stubs.routers, rng), _below(transit.routers - 1, rng)
        ends.append((other + int(other >= owner[router]), stubs.first + router))
    return _pairs(ends)


def _extra_stub_stub(params: TopologyConfig, stubs: _Domains, seed: int) -> np.ndarray:
    """Return links from random stub routers to random routers of other stubs."""
    count = params.extra_stub_stub
    if count and len(stubs.sizes) < 2:
        raise InputError("extra_stub_stub", count, "needs at least two stubs")
    stub_of = np.repeat(np.arange(len(stubs.sizes)), stubs.sizes)
    ends = []
    for extra in range(count):
        rng = _stream(seed, "extra stub-stub", extra)
        router = _below(stubs.routers, rng)
        size, start = int(stubs.sizes[stub_of[router]]), int(stubs.starts[stub_of[router]])
        other = stubs.first + _below(stubs.routers - size, rng)
        ends.append((stubs.first + router, other + size * int(other >= start)))
    return _pairs(ends)


def _weighted(ends: np.ndarray, weight: int, points: np.ndarray) -> pd.DataFrame:
    """Return links with a weight and their rounded Euclidean length (1 unit = 1 ms)."""
    across = (points[ends[:, 0]] - points[ends[:, 1]]).astype(np.float64)
    return pd.DataFrame(
        {
            "src": ends[:, 0],
            "dst": ends[:, 1],
            "delay_ms": np.floor(np.hypot(across[:, 0], across[:, 1]) + 0.5),
            "weight": float(weight),
        }
    )


def _stream(seed: int, purpose: str, row: int = 0) -> np.random.Philox:
    return draws.stream(seed, f"transit-stub {purpose}", row)


def _pairs(ends: list[tuple[int, int]]) -> np.ndarray:
    return np.array(ends, dtype=np.int64).reshape(-1, 2)


# --- domains side by side


@dataclass(frozen=True)
class _Domains:
    """All transit domains, or all stubs; their routers have consecutive numbers."""

    first: int
    #: int64, shape (domains,): the number of routers of each domain, and the id of its first
    #: router.
    sizes: np.ndarray
    starts: np.ndarray
    #: int64, shape (routers, 2): positions on the grid.
    points: np.ndarray
    #: int64, shape (links, 2): the ids of the ends of each link inside a domain.
    links: np.ndarray
    #: The largest hop diameter of a domain.
    diameter: int

    @property
    def routers(self) -> int:
        return len(self.points)

    def member(self, domain: int, rng: np.random.Philox) -> int:
        """Return the id of a random router of a domain."""
        return int(self.starts[domain]) + _below(int(self.sizes[domain]), rng)


def _join_domains(first: int, graphs: list[tuple[np.ndarray, np.ndarray]]) -> _Domains:
    """Return the graphs of domains as one object, with routers numbered from `first`."""
    sizes = np.array([len(points) for points, _ in graphs], dtype=np.int64)
    starts = first + np.cumsum(sizes) - sizes
    return _Domains(
        first=first,
        sizes=sizes,
        starts=starts,
        points=np.concatenate([points for points, _ in graphs]),
        links=np.concatenate(
            [links + start for (_, links), start in zip(graphs, starts, strict=True)]
        ),
        diameter=max(hop_diameter(len(points), links) or 0 for points, links in graphs),
    )


def _spread(n: int, mean: int, rng: np.random.Philox) -> np.ndarray:
    """Return `n` counts >= 1 with the sum ``n * mean``, scattered around `mean`: int64.

    3n times, a random count that exceeds 1 gives one unit to a random count.
    """
    counts = [mean] * n
    for giver, taker in rng.random_raw(6 * n).reshape(-1, 2) % np.uint64(n):
        if counts[giver] > 1:
            counts[giver] -= 1
            counts[taker] += 1
    return np.array(counts, dtype=np.int64)


def _below(n: int, rng: np.random.Philox) -> int:
    """Return a uniform whole number in [0, n), from the next bits of a stream."""
    return int(rng.random_raw()) % n


KIND = TopologyKind("transit-stub", lambda _, config, seed: generate(config, seed))
