"""Transit-stub graphs: the network model of the Scribe papers' experiments.

Domains of transit routers form the core; each transit router has stub domains, each connected to it
by one link.  Policy weights keep a route between two routers of a domain inside it, and keep
transit traffic out of stubs.  Every draw is keyed by (seed, purpose, domain or stub number), so a
stub's graph does not depend on the number of redraws of another.  Only raw bits of the streams are
used, which numpy keeps stable.  All links of a domain are redrawn until it is connected;
settings with which this practically never ends are refused after :data:`MOST_DRAWS`.

References
----------
Zegura, Calvert, Bhattacharjee, "How to model an internetwork", INFOCOM 1996 (GT-ITM).
Castro et al., "Scribe: a large-scale and decentralized application-level multicast infrastructure",
IEEE JSAC 20(8), 2002, Section IV-A.  Gilbert, "Random graphs", Ann. Math. Stat. 30, 1959.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from scribe_spark.config import TopologyConfig
from scribe_spark.core import draws
from scribe_spark.core.errors import InputError
from scribe_spark.topology.graph import Graph, TopologyKind, router_frame
from scribe_spark.topology.links import both_ways

#: The greatest number of pairs of routers that are drawn until all domains are connected: some
#: seconds' work.
MOST_DRAWS = 500_000_000

#: The constant cost of a domain's draw, in pairs.
_OVERHEAD = 5_000


# --- random graphs on points of a plane


@dataclass(frozen=True)
class Scales:
    """The sides of the squares (grid units, 1 ms) in which the points of routers are drawn."""

    grid: int
    transit: int
    stub: int

    @classmethod
    def of(cls, params: TopologyConfig) -> Scales:
        """Return the sides of squares that GT-ITM's users derive from the sizes in `params`."""
        most_transit = params.transit_size + 3 * params.transit_domains
        most_stubs = params.stubs_per_transit + 3 * most_transit
        most_stub_size = params.stub_size + 3 * most_stubs
        grid = _rounded(math.sqrt(80 * params.routers))
        transit = _rounded(grid / 2)
        transit += transit % 2
        stub = _rounded(math.sqrt(16 * most_stub_size))
        return cls(grid, min(transit, grid), min(stub, grid))


@dataclass
class Draws:
    """Draws of pure random graphs on points of a plane, and how many pairs may still be drawn."""

    left: int = MOST_DRAWS

    def geo(
        self, n: int, scale: int, p: float, field: str, rng: np.random.Philox
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a connected random graph on distinct uniform points of the grid [0, scale)^2.

        Every pair is linked with probability `p`, the setting `field`; points and links are all
        redrawn until the graph is connected.  The result is coordinates (n, 2), and the positions
        i < j of ends.
        """
        if n > scale * scale:
            raise InputError(field, p, f"cannot place {n} routers on {scale} x {scale} grid points")
        pairs = np.column_stack(np.triu_indices(n, 1))
        while self.left > 0:
            self.left -= len(pairs) + _OVERHEAD
            points = _points(n, scale, rng)
            links = pairs[draws.uniform(rng, len(pairs)) < p]
            if len(links) >= n - 1 and hop_diameter(n, links) is not None:
                return points, links
        remedy = f"practically never gives a connected domain of {n:,} routers; raise it, or make "
        raise InputError(field, p, f"{remedy}domains smaller")


def hop_diameter(n: int, links: np.ndarray) -> int | None:
    """Return the greatest distance of two routers in hops; None if the graph is not connected.

    Sets of routers are bits of whole numbers: domains are small and many.
    """
    everyone, ends = (1 << n) - 1, links.tolist()
    within = [1 << router for router in range(n)]  # the routers within some hops of each
    hops = 0
    while any(reached != everyone for reached in within):
        before = within.copy()
        for a, b in ends:
            within[a] |= before[b]
            within[b] |= before[a]
        if within == before:
            return None
        hops += 1
    return hops


def _points(n: int, scale: int, rng: np.random.Philox) -> np.ndarray:
    """Return the first `n` distinct points of a stream of grid points in [0, scale)^2: (n, 2)."""
    drawn = rng.random_raw(n) % np.uint64(scale * scale)
    while len(cells := pd.unique(drawn)) < n:
        drawn = np.concatenate([drawn, rng.random_raw(n) % np.uint64(scale * scale)])
    x, y = np.divmod(cells[:n].astype(np.int64), scale)
    return np.column_stack([x, y])


def _rounded(x: float) -> int:
    """Return the nearest whole number; halves are rounded up."""
    return math.floor(x + 0.5)


# --- transit-stub graphs


@dataclass(frozen=True)
class LinkWeights:
    """Policy weights: transit to transit, transit to stub, stub to stub; 1 inside a domain."""

    inter_domain: int
    transit_stub: int
    stub_stub: int
    intra: int = 1

    @classmethod
    def of(cls, top: int, transit: int, stub: int) -> LinkWeights:
        """Return the policy weights of links, from the hop diameters of domains and their graph."""

        def h(x: int) -> int:
            return x // 2 + 1

        inter_domain = h(transit)
        transit_stub = h(top * inter_domain) + h((top + 1) * transit)
        return cls(inter_domain, transit_stub, stub_stub=stub + 2 * transit_stub)


def generate(params: TopologyConfig, seed: int) -> Graph:
    """Return a transit-stub graph with exactly ``params.routers`` routers: transit, then stubs."""
    scales, sizes, drawn = Scales.of(params), _Sizes.of(params, seed), Draws()
    places, top_links = drawn.geo(
        params.transit_domains, scales.grid, params.p_top, "p_top", _stream(seed, "top-level graph")
    )
    transit = _transit(params, sizes, scales, places, seed, drawn)
    owners, stubs = _stubs(params, sizes, scales, transit, seed, drawn)
    top_diameter = hop_diameter(params.transit_domains, top_links) or 0
    weights = LinkWeights.of(top_diameter, transit.diameter, stubs.diameter)

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
    """The numbers of routers of each domain and stub, before any point or link is drawn."""

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


def _transit(
    params: TopologyConfig,
    sizes: _Sizes,
    scales: Scales,
    places: np.ndarray,
    seed: int,
    drawn: Draws,
) -> _Domains:
    """Return the routers and links of the transit domains, drawn."""
    graphs = []
    for domain, size in enumerate(sizes.transit.tolist()):
        as_transit = domain < sizes.as_transit
        field = "p_transit" if as_transit else "p_stub"
        scale = scales.transit if as_transit else scales.stub
        rng = _stream(seed, "transit domain", domain)
        points, links = drawn.geo(size, scale, getattr(params, field), field, rng)
        origin = np.clip(places[domain] - scale // 2, 0, scales.grid - scale)
        graphs.append((points + origin, links))
    return _join_domains(0, graphs)


def _stubs(
    params: TopologyConfig,
    sizes: _Sizes,
    scales: Scales,
    transit: _Domains,
    seed: int,
    drawn: Draws,
) -> tuple[np.ndarray, _Domains]:
    """Return the transit router of each stub, and the routers and links of all stubs, drawn."""
    owners = np.repeat(np.arange(transit.routers), sizes.stubs_of)
    least = np.maximum(0, transit.points - scales.stub)[owners]
    most = np.minimum(transit.points, scales.grid - scales.stub)[owners]
    graphs = []
    for stub, size in enumerate(sizes.stub.tolist()):
        points, links = drawn.geo(
            size, scales.stub, params.p_stub, "p_stub", _stream(seed, "stub domain", stub)
        )
        span = (most[stub] - least[stub] + 1).astype(np.uint64)
        shift = (_stream(seed, "stub origin", stub).random_raw(2) % span).astype(np.int64)
        graphs.append((points + least[stub] + shift, links))
    return owners, _join_domains(transit.routers, graphs)


def _gateways(owners: np.ndarray, stubs: _Domains, seed: int) -> np.ndarray:
    """Return a link for each stub, from its transit router (`owners`) to a random router in it."""
    gateways = [
        stubs.member(stub, _stream(seed, "gateway", stub)) for stub in range(len(stubs.sizes))
    ]
    return np.column_stack([owners, gateways])


def _inter_domain(top_links: np.ndarray, transit: _Domains, seed: int) -> np.ndarray:
    """Return links between random routers of two domains, two for each edge of `top_links`."""
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
    """Return links (`ends`) with a weight; a delay is the rounded distance of the ends' points."""
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
    """All transit domains, or all stubs, as a graph; a domain's routers have adjacent numbers."""

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
    """Return the graphs of domains as one object; the first router gets the number `first`."""
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
    """Return `n` random counts of at least 1 with the sum ``n * mean``, around `mean`: int64."""
    counts = [mean] * n
    for giver, taker in rng.random_raw(6 * n).reshape(-1, 2) % np.uint64(n):
        if counts[giver] > 1:
            counts[giver] -= 1
            counts[taker] += 1
    return np.array(counts, dtype=np.int64)


def _below(n: int, rng: np.random.Philox) -> int:
    """Return a uniform whole number in [0, n), from the next bits of the stream `rng`."""
    return int(rng.random_raw()) % n


KIND = TopologyKind("transit-stub", lambda _, config, seed: generate(config, seed))
