"""Transit-stub graphs: the network model of the Scribe papers' experiments.

Domains of transit routers form the core; each transit router carries stub domains, each tied to it
by one link.  Policy weights keep a route between two routers of a domain inside it, and keep
transit traffic out of stubs.

Every draw is keyed by (seed, purpose, domain or stub number), so a stub's graph does not depend on
how often another had to be redrawn.  Only raw bits of the streams are used: numpy keeps those
stable between versions.

References
----------
Zegura, Calvert, Bhattacharjee, "How to model an internetwork", INFOCOM 1996 (GT-ITM).
Castro, Druschel, Kermarrec, Rowstron, "Scribe: a large-scale and decentralized application-level
multicast infrastructure", IEEE JSAC 20(8), 2002, Section IV-A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, shortest_path

from scribe_spark import draws
from scribe_spark.config import TopologyConfig
from scribe_spark.errors import InputError
from scribe_spark.topology.graph import Graph, both_ways, router_frame

__all__ = ["Scales", "Weights", "generate", "geo", "hop_diameter", "spread"]


@dataclass(frozen=True)
class Scales:
    """Sides of the squares in which points are drawn, in grid units (1 unit = 1 ms).

    Attributes
    ----------
    grid, transit, stub : int
        G, S_T, S_S.  Squares never exceed the grid (which only tiny graphs would ask for).
    """

    grid: int
    transit: int
    stub: int

    @classmethod
    def of(cls, params: TopologyConfig) -> Scales:
        """The scales that GT-ITM's users derive from the sizes."""
        most_transit = params.transit_size + 3 * params.transit_domains
        most_stubs = params.stubs_per_transit + 3 * most_transit
        most_stub_size = params.stub_size + 3 * most_stubs
        grid = _rounded(math.sqrt(80 * params.routers))
        transit = _rounded(grid / 2)
        transit += transit % 2
        stub = _rounded(math.sqrt(16 * most_stub_size))
        return cls(grid, min(transit, grid), min(stub, grid))


@dataclass(frozen=True)
class Weights:
    """Policy weights of the kinds of links.

    Attributes
    ----------
    intra, inter_domain, transit_stub, stub_stub : int
        1, w_tt, w_ts, w_ss.
    """

    inter_domain: int
    transit_stub: int
    stub_stub: int
    intra: int = 1

    @classmethod
    def of(cls, top: int, transit: int, stub: int) -> Weights:
        """The weights for hop diameters D_top, D_T and D_S."""

        def h(x: int) -> int:
            return x // 2 + 1

        inter_domain = h(transit)
        transit_stub = h(top * inter_domain) + h((top + 1) * transit)
        return cls(inter_domain, transit_stub, stub_stub=stub + 2 * transit_stub)


@dataclass(frozen=True)
class _Domains:
    """All transit domains, or all stubs: their routers are numbered consecutively from `first`.

    Attributes
    ----------
    sizes, starts : ndarray of int64, shape (domains,)
        Routers of each domain, and the id of its first.
    points : ndarray of int64, shape (routers, 2)
        Places on the grid.
    links : ndarray of int64, shape (links, 2)
        Ids of the ends of each link inside a domain.
    diameter : int
        The largest hop diameter of a domain.
    """

    first: int
    sizes: np.ndarray
    starts: np.ndarray
    points: np.ndarray
    links: np.ndarray
    diameter: int

    @property
    def routers(self) -> int:
        return len(self.points)

    def member(self, domain: int, rng: np.random.Philox) -> int:
        """The id of a uniform router of a domain."""
        return int(self.starts[domain]) + _below(int(self.sizes[domain]), rng)


def generate(params: TopologyConfig, seed: int) -> Graph:
    """A transit-stub graph with exactly ``params.routers`` routers.

    Transit routers come first, domain by domain, then the stubs' routers in the order of the
    transit routers that carry them.  Domains are numbered likewise: transit, then stubs.

    Parameters
    ----------
    params : TopologyConfig
    seed : int
        Key of every draw.

    Raises
    ------
    InputError
        For an edge probability that practically never gives a connected domain, or extra links
        that have no pair of routers to join.
    """
    scales = Scales.of(params)
    places, top_links = geo(
        params.transit_domains, scales.grid, params.p_top, "p_top", _stream(seed, "top-level graph")
    )
    transit = _transit(params, scales, places, seed)
    owners, stubs = _stubs(params, scales, transit, seed)
    weights = Weights.of(
        hop_diameter(params.transit_domains, top_links), transit.diameter, stubs.diameter
    )

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


def spread(n: int, mean: int, rng: np.random.Philox) -> np.ndarray:
    """`n` counts >= 1 whose sum is ``n * mean``, scattered around `mean`.

    3n times a uniform count that exceeds 1 gives one unit to a uniform count.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    counts = [mean] * n
    for giver, taker in _bits(rng, 6 * n).reshape(-1, 2) % np.uint64(n):
        if counts[giver] > 1:
            counts[giver] -= 1
            counts[taker] += 1
    return np.array(counts, dtype=np.int64)


def geo(
    n: int, scale: int, p: float, field: str, rng: np.random.Philox
) -> tuple[np.ndarray, np.ndarray]:
    """A connected pure random graph on distinct uniform points of the grid [0, scale)^2.

    Every pair is linked with probability `p`; points and links are all redrawn until the graph is
    connected.

    Parameters
    ----------
    field : str
        The parameter that `p` is, for the error message.

    Returns
    -------
    points : ndarray of int64, shape (n, 2)
    links : ndarray of int64, shape (links, 2)
        Positions i < j of the ends.

    Raises
    ------
    InputError
        More points than grid cells, or no connected graph in a bounded number of attempts.
    """
    if n > scale * scale:
        raise InputError(field, p, f"cannot place {n} routers on {scale} x {scale} grid points")
    pairs = np.column_stack(np.triu_indices(n, 1))
    # ten thousand attempts for a domain of the usual size; large domains, where connectivity sets
    # in abruptly with p, get fewer, so that giving up takes seconds at most
    attempts = max(100, min(10_000, 10_000_000 // (len(pairs) + 1)))
    for _ in range(attempts):
        points = _points(n, scale, rng)
        links = pairs[draws.uniform(rng, len(pairs)) < p]
        if len(links) >= n - 1 and _is_connected(n, links):
            return points, links
    remedy = f"gave no connected domain of {n} routers in {attempts:,} draws; raise it towards 1"
    raise InputError(field, p, remedy)


def hop_diameter(n: int, links: np.ndarray) -> int:
    """The longest of the shortest paths of a connected graph, in hops."""
    return int(shortest_path(_matrix(n, links), directed=False, unweighted=True).max())


# Construction, in the order of the model's steps


def _transit(params: TopologyConfig, scales: Scales, places: np.ndarray, seed: int) -> _Domains:
    """Transit domains, each in a square centred on its place and clamped into the grid."""
    sizes = spread(params.transit_domains, params.transit_size, _stream(seed, "transit sizes"))
    graphs = []
    for domain, size in enumerate(sizes.tolist()):
        # GT-ITM draws every transit domain but the first with the stubs' parameters
        as_stub = params.gtitm_quirk and domain > 0
        field = "p_stub" if as_stub else "p_transit"
        scale = scales.stub if as_stub else scales.transit
        rng = _stream(seed, "transit domain", domain)
        points, links = geo(size, scale, getattr(params, field), field, rng)
        origin = np.clip(places[domain] - scale // 2, 0, scales.grid - scale)
        graphs.append((points + origin, links))
    return _joined(0, graphs)


def _stubs(
    params: TopologyConfig, scales: Scales, transit: _Domains, seed: int
) -> tuple[np.ndarray, _Domains]:
    """Each stub's transit router, and the stubs, each in a square near that router."""
    per_router = np.concatenate(
        [
            spread(size, params.stubs_per_transit, _stream(seed, "stubs per router", domain))
            for domain, size in enumerate(transit.sizes.tolist())
        ]
    )
    sizes = np.concatenate(
        [
            spread(count, params.stub_size, _stream(seed, "stub sizes", router))
            for router, count in enumerate(per_router.tolist())
        ]
    )
    owners = np.repeat(np.arange(transit.routers), per_router)
    least = np.maximum(0, transit.points - scales.stub)[owners]
    most = np.minimum(transit.points, scales.grid - scales.stub)[owners]
    graphs = []
    for stub, size in enumerate(sizes.tolist()):
        points, links = geo(
            size, scales.stub, params.p_stub, "p_stub", _stream(seed, "stub domain", stub)
        )
        span = (most[stub] - least[stub] + 1).astype(np.uint64)
        shift = (_bits(_stream(seed, "stub origin", stub), 2) % span).astype(np.int64)
        graphs.append((points + least[stub] + shift, links))
    return owners, _joined(transit.routers, graphs)


def _gateways(owners: np.ndarray, stubs: _Domains, seed: int) -> np.ndarray:
    """One link per stub: its transit router to a uniform router of the stub."""
    gateways = [
        stubs.member(stub, _stream(seed, "gateway", stub)) for stub in range(len(stubs.sizes))
    ]
    return np.column_stack([owners, gateways])


def _inter_domain(top_links: np.ndarray, transit: _Domains, seed: int) -> np.ndarray:
    """A link for each direction of each top-level edge, between uniform routers."""
    ends = []
    for one, other in np.concatenate([top_links, top_links[:, ::-1]]).tolist():
        rng = _stream(seed, "inter-domain", one * len(transit.sizes) + other)
        ends.append((transit.member(one, rng), transit.member(other, rng)))
    return _pairs(ends)


def _extra_transit_stub(
    params: TopologyConfig, owners: np.ndarray, transit: _Domains, stubs: _Domains, seed: int
) -> np.ndarray:
    """Links of a uniform stub router to a uniform transit router that does not carry its stub."""
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
    """Links of a uniform stub router to a uniform router of another stub."""
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


def _joined(first: int, graphs: list[tuple[np.ndarray, np.ndarray]]) -> _Domains:
    """Domains' graphs side by side, routers numbered from `first`."""
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
        diameter=max(hop_diameter(len(points), links) for points, links in graphs),
    )


def _weighted(ends: np.ndarray, weight: int, points: np.ndarray) -> pd.DataFrame:
    """Links with their length, the rounded Euclidean distance (1 unit = 1 ms), and weight."""
    across = (points[ends[:, 0]] - points[ends[:, 1]]).astype(np.float64)
    return pd.DataFrame(
        {
            "src": ends[:, 0],
            "dst": ends[:, 1],
            "delay_ms": np.floor(np.hypot(across[:, 0], across[:, 1]) + 0.5),
            "weight": float(weight),
        }
    )


# Draws, and small graphs


def _stream(seed: int, purpose: str, row: int = 0) -> np.random.Philox:
    return draws.stream(seed, f"transit-stub {purpose}", row)


def _bits(rng: np.random.Philox, count: int) -> np.ndarray:
    return rng.random_raw(count)


def _below(n: int, rng: np.random.Philox) -> int:
    return int(rng.random_raw()) % n


def _points(n: int, scale: int, rng: np.random.Philox) -> np.ndarray:
    """`n` distinct uniform grid points: the first distinct ones of a stream, in its order."""
    drawn = _bits(rng, n) % np.uint64(scale * scale)
    while len(cells := pd.unique(drawn)) < n:
        drawn = np.concatenate([drawn, _bits(rng, n) % np.uint64(scale * scale)])
    x, y = np.divmod(cells[:n].astype(np.int64), scale)
    return np.column_stack([x, y])


def _pairs(ends: list[tuple[int, int]]) -> np.ndarray:
    return np.array(ends, dtype=np.int64).reshape(-1, 2)


def _matrix(n: int, links: np.ndarray):
    ones = np.ones(len(links), dtype=np.int8)
    return coo_array((ones, (links[:, 0], links[:, 1])), shape=(n, n)).tocsr()


def _is_connected(n: int, links: np.ndarray) -> bool:
    return connected_components(_matrix(n, links), directed=False, return_labels=False) == 1


def _rounded(x: float) -> int:
    """To the nearest whole number, halves up."""
    return math.floor(x + 0.5)
