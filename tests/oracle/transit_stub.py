"""Tell which invariants of the transit-stub model a topology breaks (JSAC section IV.A).

The model is that of transit-stub.md.

A topology is a list of routers and a dict of directed links.  The check knows nothing of how it
was drawn, so it looks at what must hold for every draw.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from .routes import Link, shortest_routes

TRANSIT, STUB = "transit", "stub"


class Router(TypedDict):
    """A router; ``domain`` numbers are unique over transit domains and stubs together."""

    router: int
    kind: str
    domain: int
    x: int
    y: int


@dataclass(frozen=True)
class Params:
    """Parameters of the model: T, N_T, K, N_S, the extra edges, and the GT-ITM quirk.

    With the quirk, only one transit domain is drawn with the transit scale; the others are drawn
    with the stub scale.
    """

    transit_domains: int = 10
    transit_routers: int = 5
    stubs_per_transit_router: int = 10
    stub_routers: int = 10
    extra_transit_stub: int = 0
    extra_stub_stub: int = 0
    quirk: bool = True

    @property
    def has_extras(self) -> bool:
        """Tell whether a stub may have more than its own gateway link."""
        return self.extra_transit_stub > 0 or self.extra_stub_stub > 0


@dataclass(frozen=True)
class Scales:
    """Side lengths, in grid units, of the grid, of a transit domain and of a stub."""

    grid: int
    transit: int
    stub: int


@dataclass(frozen=True)
class Weights:
    """Policy weights of the links, by kind of link."""

    intra: int
    transit_transit: int
    transit_stub: int
    stub_stub: int


@dataclass(frozen=True)
class Topology:
    """A topology, indexed for the checks."""

    routers: dict[int, Router]
    links: dict[Link, tuple[int, int]]
    domains: dict[int, list[int]]
    kinds: dict[int, str]
    neighbours: dict[int, set[int]]

    def domains_of_kind(self, kind: str) -> list[int]:
        """Return the domains of a kind, sorted."""
        return sorted(domain for domain, its_kind in self.kinds.items() if its_kind == kind)

    def domain(self, router: int) -> int:
        """Return the domain of a router."""
        return self.routers[router]["domain"]

    def kind(self, router: int) -> str:
        """Return the kind of a router."""
        return self.routers[router]["kind"]

    def undirected(self) -> list[Link]:
        """Return every undirected link once, the lower router first."""
        return sorted({(min(link), max(link)) for link in self.links})

    def gateway_links(self) -> list[Link]:
        """Return every transit-stub link once, as (transit router, stub router)."""
        return [
            (src, dst)
            for src, dst in sorted(self.links)
            if self.kind(src) == TRANSIT and self.kind(dst) == STUB
        ]

    def homes(self) -> dict[int, list[int]]:
        """Return for each stub the transit routers that it is linked to."""
        homes: dict[int, list[int]] = {stub: [] for stub in self.domains_of_kind(STUB)}
        for transit, router in self.gateway_links():
            homes[self.domain(router)].append(transit)
        return homes


def check(
    routers: Sequence[Router],
    links: Mapping[Link, tuple[int, int]],
    params: Params,
    paths: bool = True,
) -> list[str]:
    """Return the invariants that a topology breaks, each as a sentence; none if it is sound.

    Parameters
    ----------
    routers : sequence of Router
        Dicts with router, kind, domain, x, y.
    links : mapping of (src, dst) to (weight, delay_ms)
        Directed links.
    params : Params
        Parameters of the model.
    paths : bool
        Also route between all pairs of routers, which takes minutes for 5050 of them.
    """
    broken = list(malformed(routers, links))
    if broken:
        return broken  # the other checks rely on well-formed input
    topology = index(routers, links)
    broken += counts(topology, params)
    broken += disconnected_domains(topology)
    broken += stub_links(topology, params)
    if broken:
        return broken  # weights and places rely on connected domains and their gateways
    broken += inter_domain_links(topology)
    broken += stub_counts(topology, params)
    broken += wrong_weights(topology)
    broken += wrong_lengths(topology)
    broken += shared_places(topology)
    broken += wrong_places(topology, params)
    if paths:
        broken += stray_paths(topology, params)
    return broken


def index(routers: Iterable[Router], links: Mapping[Link, tuple[int, int]]) -> Topology:
    """Index well-formed routers and links."""
    by_number = {router["router"]: router for router in routers}
    domains: dict[int, list[int]] = {}
    for number, router in by_number.items():
        domains.setdefault(router["domain"], []).append(number)
    return Topology(
        routers=by_number,
        links=dict(links),
        domains=domains,
        kinds={router["domain"]: router["kind"] for router in by_number.values()},
        neighbours=adjacency(links),
    )


# --- Shape --------------------------------------------------------------------------------------


def malformed(routers: Sequence[Router], links: Mapping[Link, tuple[int, int]]) -> Iterator[str]:
    """Yield faults of the tables themselves: ids, kinds, one-way links, unequal directions."""
    known = {router["router"] for router in routers}
    if len(known) != len(routers):
        yield "router ids are not unique"
    kinds: dict[int, str] = {}
    for router in routers:
        if router["kind"] not in (TRANSIT, STUB):
            yield f"router {router['router']} is of unknown kind {router['kind']!r}"
        if kinds.setdefault(router["domain"], router["kind"]) != router["kind"]:
            yield f"domain {router['domain']} has transit and stub routers"
    for (src, dst), cost in sorted(links.items()):
        if src == dst:
            yield f"router {src} is linked to itself"
        if src not in known or dst not in known:
            yield f"link {src}-{dst} has an end that is no router"
        if links.get((dst, src)) != cost:
            yield f"link {src}-{dst} is missing or different in the other direction"


def counts(topology: Topology, params: Params) -> Iterator[str]:
    """Yield wrong totals: spread() keeps every sum, so all of them are exact."""
    transit_total = params.transit_domains * params.transit_routers
    stub_total = transit_total * params.stubs_per_transit_router
    kinds = Counter(router["kind"] for router in topology.routers.values())
    found_and_expected = {
        "routers": (len(topology.routers), transit_total + stub_total * params.stub_routers),
        "transit routers": (kinds[TRANSIT], transit_total),
        "transit domains": (len(topology.domains_of_kind(TRANSIT)), params.transit_domains),
        "stubs": (len(topology.domains_of_kind(STUB)), stub_total),
    }
    for what, (found, expected) in found_and_expected.items():
        if found != expected:
            yield f"{found} {what}, expected {expected}"


def disconnected_domains(topology: Topology) -> Iterator[str]:
    """Yield domains that their own links do not connect, and a disconnected top level."""
    for domain, members in sorted(topology.domains.items()):
        if hop_diameter(members, internal_links(topology, domain)) is None:
            yield f"{topology.kinds[domain]} domain {domain} is not connected by its own links"
    if hop_diameter(topology.domains_of_kind(TRANSIT), top_level_links(topology)) is None:
        yield "the transit domains are not connected with one another"


def stub_links(topology: Topology, params: Params) -> Iterator[str]:
    """Yield stubs without exactly one gateway link, and links that the model has none of."""
    homes = topology.homes()
    for stub, transits in homes.items():
        if not transits or (len(transits) > 1 and params.extra_transit_stub == 0):
            yield f"stub {stub} has {len(transits)} gateway links"
    extra = sum(len(transits) for transits in homes.values()) - len(homes)
    if extra > params.extra_transit_stub:
        yield f"{extra} extra transit-stub links, at most {params.extra_transit_stub} expected"
    stub_stub = sum(link_kind(topology, link) == "stub_stub" for link in topology.undirected())
    if stub_stub > params.extra_stub_stub:
        yield f"{stub_stub} stub-stub links, at most {params.extra_stub_stub} expected"


def inter_domain_links(topology: Topology) -> Iterator[str]:
    """Yield pairs of transit domains with more than the two links of a top-level edge."""
    pairs: Counter[Link] = Counter()
    for a, b in topology.undirected():
        if link_kind(topology, (a, b)) == "transit_transit":
            low, high = sorted((topology.domain(a), topology.domain(b)))
            pairs[low, high] += 1
    for (low, high), number in sorted(pairs.items()):
        if number > 2:
            yield f"{number} links between transit domains {low} and {high}, at most 2 expected"


def stub_counts(topology: Topology, params: Params) -> Iterator[str]:
    """Yield wrong sums of stubs per transit domain and of routers per transit router.

    With extra links the transit router that a stub belongs to cannot be told, so nothing is.
    """
    if params.has_extras:
        return
    stubs_of: dict[int, list[int]] = {}
    for stub, (transit,) in topology.homes().items():
        stubs_of.setdefault(transit, []).append(stub)
    for domain in topology.domains_of_kind(TRANSIT):
        members = topology.domains[domain]
        found = sum(len(stubs_of.get(transit, [])) for transit in members)
        expected = params.stubs_per_transit_router * len(members)
        if found != expected:
            yield f"{found} stubs at transit domain {domain}, expected {expected}"
        for transit in members:
            if transit not in stubs_of:
                yield f"transit router {transit} has no stub"
    for transit, stubs in sorted(stubs_of.items()):
        found = sum(len(topology.domains[stub]) for stub in stubs)
        expected = params.stub_routers * len(stubs)
        if found != expected:
            yield f"{found} stub routers at transit router {transit}, expected {expected}"


# --- Policy weights -----------------------------------------------------------------------------


def half_up(diameter: int) -> int:
    """Return h(x) = floor(x / 2) + 1."""
    return diameter // 2 + 1


def policy_weights(d_top: int, d_transit: int, d_stub: int) -> Weights:
    """Return the weights that follow from the largest hop diameters of top level and domains."""
    w_tt = half_up(d_transit)
    w_ts = half_up(d_top * w_tt) + half_up((d_top + 1) * d_transit)
    return Weights(intra=1, transit_transit=w_tt, transit_stub=w_ts, stub_stub=d_stub + 2 * w_ts)


def diameters(topology: Topology) -> tuple[int, int, int]:
    """Return D_top, D_T and D_S of a topology whose domains are connected."""

    def largest(kind: str) -> int:
        return max(
            hop_diameter(topology.domains[domain], internal_links(topology, domain)) or 0
            for domain in topology.domains_of_kind(kind)
        )

    d_top = hop_diameter(topology.domains_of_kind(TRANSIT), top_level_links(topology)) or 0
    return d_top, largest(TRANSIT), largest(STUB)


def wrong_weights(topology: Topology) -> Iterator[str]:
    """Yield links whose weight is not what the formulas give for their kind."""
    weights = policy_weights(*diameters(topology))
    for link in topology.undirected():
        kind = link_kind(topology, link)
        expected = getattr(weights, kind)
        found = topology.links[link][0]
        if found != expected:
            yield f"{kind} link {link[0]}-{link[1]} has weight {found}, expected {expected}"


def link_kind(topology: Topology, link: Link) -> str:
    """Return the name, as in `Weights`, of the kind of a link."""
    a, b = link
    if topology.domain(a) == topology.domain(b):
        return "intra"
    kinds = {topology.kind(a), topology.kind(b)}
    if kinds == {TRANSIT}:
        return "transit_transit"
    return "stub_stub" if kinds == {STUB} else "transit_stub"


def internal_links(topology: Topology, domain: int) -> set[Link]:
    """Return the directed links with both ends in a domain."""
    members = set(topology.domains[domain])
    return {(a, b) for a in members for b in topology.neighbours.get(a, set()) & members}


def top_level_links(topology: Topology) -> set[Link]:
    """Return the pairs of transit domains that have a link, both ways round."""
    return {
        (topology.domain(a), topology.domain(b))
        for a, b in topology.links
        if link_kind(topology, (a, b)) == "transit_transit"
    }


def adjacency(links: Iterable[Link]) -> dict[int, set[int]]:
    """Return the vertices that each vertex has a link to."""
    neighbours: dict[int, set[int]] = {}
    for a, b in links:
        neighbours.setdefault(a, set()).add(b)
    return neighbours


def hop_diameter(vertices: Iterable[int], links: Iterable[Link]) -> int | None:
    """Return the most hops between any two vertices; None if they are not connected."""
    vertices = list(vertices)
    neighbours = adjacency(links)
    most = 0
    for start in vertices:
        hops = hops_from(start, neighbours)
        if set(hops) != set(vertices):
            return None
        most = max(most, *hops.values())
    return most


def hops_from(start: int, neighbours: Mapping[int, set[int]]) -> dict[int, int]:
    """Return the least hops from a vertex to each that it reaches: breadth first."""
    hops = {start: 0}
    queue = [start]
    for vertex in queue:
        for neighbour in sorted(neighbours.get(vertex, ())):
            if neighbour not in hops:
                hops[neighbour] = hops[vertex] + 1
                queue.append(neighbour)
    return hops


# --- Lengths and places -------------------------------------------------------------------------


def scales(params: Params) -> Scales:
    """Return the side lengths of grid, transit domain and stub."""
    max_transit = params.transit_routers + 3 * params.transit_domains
    max_stubs = params.stubs_per_transit_router + 3 * max_transit
    max_stub_routers = params.stub_routers + 3 * max_stubs
    transit_total = params.transit_domains * params.transit_routers
    router_total = transit_total * (1 + params.stubs_per_transit_router * params.stub_routers)
    grid = rounded_root(80 * router_total)
    transit = (grid + 1) // 2  # half of an odd grid is rounded up
    return Scales(grid, transit + transit % 2, rounded_root(16 * max_stub_routers))


def rounded_root(square: int) -> int:
    """Return the square root of a whole number, rounded; it is never halfway between two."""
    root = math.isqrt(square)
    return root + 1 if square > root * root + root else root


def length(a: Router, b: Router) -> int:
    """Return the rounded Euclidean distance of two routers."""
    return rounded_root((a["x"] - b["x"]) ** 2 + (a["y"] - b["y"]) ** 2)


def wrong_lengths(topology: Topology) -> Iterator[str]:
    """Yield links whose delay is not the distance of their ends (1 unit = 1 ms)."""
    for a, b in topology.undirected():
        expected = length(topology.routers[a], topology.routers[b])
        found = topology.links[a, b][1]
        if found != expected:
            yield f"link {a}-{b} has delay {found} ms, expected {expected}"


def shared_places(topology: Topology) -> Iterator[str]:
    """Yield domains in which two routers stand on the same point."""
    for domain, members in sorted(topology.domains.items()):
        points = {(topology.routers[r]["x"], topology.routers[r]["y"]) for r in members}
        if len(points) != len(members):
            yield f"domain {domain} has two routers on one point"


def wrong_places(topology: Topology, params: Params) -> Iterator[str]:
    """Yield domains that are too wide, off the grid, or too far from their transit router."""
    side = scales(params)
    wide = []
    for domain in topology.domains_of_kind(TRANSIT):
        allowed = side.transit if not params.quirk else max(side.transit, side.stub)
        if not fits(topology, domain, allowed):
            yield f"transit domain {domain} does not fit into a square of side {allowed}"
        if not fits(topology, domain, side.stub):
            wide.append(domain)
        if not on_grid(topology, domain, max(side.grid, allowed)):
            yield f"transit domain {domain} is off the grid"
    if params.quirk and len(wide) > 1:
        yield f"transit domains {wide} are wider than {side.stub}, only one may be"
    for stub, transits in topology.homes().items():
        if not any(near_home(topology, stub, transit, side) for transit in transits):
            yield f"stub {stub} is not in a square near its transit router"


def extent(topology: Topology, domain: int, axis: str) -> tuple[int, int]:
    """Return least and greatest coordinate of a domain's routers."""
    values = [
        topology.routers[r]["x"] if axis == "x" else topology.routers[r]["y"]
        for r in topology.domains[domain]
    ]
    return min(values), max(values)


def fits(topology: Topology, domain: int, side: int) -> bool:
    """Tell whether a domain's routers fit into a square of ``side`` by ``side`` points."""
    extents = [extent(topology, domain, axis) for axis in "xy"]
    return all(high - low < side for low, high in extents)


def on_grid(topology: Topology, domain: int, grid: int) -> bool:
    """Tell whether all coordinates of a domain are in [0, grid)."""
    extents = [extent(topology, domain, axis) for axis in "xy"]
    return all(low >= 0 and high < grid for low, high in extents)


def near_home(topology: Topology, stub: int, transit: int, side: Scales) -> bool:
    """Tell whether a stub can have been placed about a transit router.

    There must be an origin in [max(0, X - S_S), min(X, G - S_S)) on each axis from which the
    stub's square covers its routers.  Where that range is empty, as it is for X = 0, its lower
    end is the origin.
    """
    for axis, centre in (
        ("x", topology.routers[transit]["x"]),
        ("y", topology.routers[transit]["y"]),
    ):
        low, high = extent(topology, stub, axis)
        first = max(0, centre - side.stub)
        last = max(first, min(centre, side.grid - side.stub) - 1)
        if max(first, high - side.stub + 1) > min(last, low):
            return False
    return True


# --- Routes -------------------------------------------------------------------------------------


def stray_paths(topology: Topology, params: Params) -> Iterator[str]:
    """Yield routes that leave a domain to return to it, or pass through a foreign stub.

    With extra links, a stub with two ways out may be left on the way between two of its own
    routers, unless its weights forbid it (2 w_ts > D_S); then that is not reported.
    """
    d_top, d_transit, d_stub = diameters(topology)
    weights = policy_weights(d_top, d_transit, d_stub)
    stubs_hold = not params.has_extras or 2 * weights.transit_stub > d_stub
    routes = shortest_routes(sorted(topology.routers), topology.links)
    for source in sorted(topology.routers):
        for target in sorted(topology.routers):
            ends = {topology.domain(source), topology.domain(target)}
            visited = {topology.domain(router) for router in routes.path(source, target)}
            if len(ends) == 1 and visited != ends:
                if stubs_hold or topology.kind(source) == TRANSIT:
                    yield f"the route from {source} to {target} leaves their domain"
            elif any(topology.kinds[domain] == STUB for domain in visited - ends):
                yield f"the route from {source} to {target} passes through a foreign stub"
