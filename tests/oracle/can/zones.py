"""Points, zones and neighbours of a CAN; joins and greedy routes (rules C1 to C6, C12).

References
----------
Ratnasamy, Francis, Handley, Karp, Shenker, "A scalable content-addressable network", SIGCOMM 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

Point = tuple[int, ...]
#: draw(purpose, *numbers) -> 64 bits, unsigned.
Draw = Callable[..., int]

ALL_NODES = -1  # the group of the CAN of all nodes


@dataclass(frozen=True)
class Space:
    """The torus: `dimensions` (d), each of ``2**width`` places; a zone is halved `bits` times."""

    dimensions: int
    bits: int

    @staticmethod
    def of(dimensions: int, bits: int | None = None) -> Space:
        """Return the space of a config: at most 40 bits, 30 a dimension (C1)."""
        most = min(40, 30 * dimensions)
        return Space(dimensions, most if bits is None else min(bits, most))

    @property
    def width(self) -> int:
        """Return c: U = 2^c."""
        return -(-self.bits // self.dimensions)

    @property
    def places(self) -> int:
        """Return U."""
        return 1 << self.width

    def point(self, bits: int) -> Point:
        """Return the coordinates of `bits` bits, which the dimensions take in turns (C1)."""
        coordinates = [0] * self.dimensions
        taken = [0] * self.dimensions
        for k in range(self.bits):
            at = k % self.dimensions
            taken[at] += 1
            bit = bits >> (self.bits - 1 - k) & 1
            coordinates[at] |= bit << (self.width - taken[at])
        return tuple(coordinates)

    def first_bits(self, number: int, length: int) -> Point:
        """Return the point that is the first bits of a number of `length` bits."""
        return self.point(number >> (length - self.bits))


def place_of_order(delays: Sequence[int]) -> int:
    """Return the place of an order of landmarks (delays by router id) among all orders (C3)."""
    order = sorted(range(len(delays)), key=lambda landmark: (delays[landmark], landmark))
    return list(permutations(range(len(delays)))).index(tuple(order))


@dataclass(frozen=True)
class Points:
    """Where nodes join: `landmarks` are routers, none for uniform points (C2, C3)."""

    space: Space
    draw: Draw
    router: Mapping[int, int]
    delay: Mapping[int, Mapping[int, int]]
    landmarks: tuple[int, ...] = ()

    def __call__(self, group: int, node: int) -> Point:
        """Return the point of (group, node)."""
        drawn = self.draw("can point", group, node)
        if self.landmarks:
            near = [self.delay[self.router[node]][one] for one in sorted(self.landmarks)]
            orders = len(list(permutations(near)))
            portion = 2**64 // orders
            drawn = place_of_order(near) * portion + drawn % portion
        return self.space.first_bits(drawn, 64)


#: (node, neighbour, dimension, direction): the neighbour is across the face of that direction.
Adjacency = tuple[int, int, int, int]


@dataclass(frozen=True)
class Zone:
    """A box of the torus: half open, its sides powers of two."""

    #: The least coordinate and the length in each dimension.
    low: Point
    side: Point
    depth: int = 0  # How many halvings made it
    #: Bit k (the first is the highest of ``depth`` bits) says which half the k-th halving left: 1
    #: is the upper one.
    prefix: int = 0

    @staticmethod
    def whole(space: Space) -> Zone:
        """Return the whole torus."""
        return Zone((0,) * space.dimensions, (space.places,) * space.dimensions)

    def holds(self, point: Point) -> bool:
        """Tell whether a point is in the zone."""
        return all(
            low <= at < low + side for low, side, at in zip(self.low, self.side, point, strict=True)
        )

    def halves(self) -> tuple[Zone, Zone]:
        """Return the lower and the upper half."""
        at = self.depth % len(self.low)
        half = self.side[at] // 2
        side = (*self.side[:at], half, *self.side[at + 1 :])
        above = (*self.low[:at], self.low[at] + half, *self.low[at + 1 :])
        return (
            Zone(self.low, side, self.depth + 1, self.prefix * 2),
            Zone(above, side, self.depth + 1, self.prefix * 2 + 1),
        )


class NoRoom(ValueError):
    """A zone that is too small to be halved."""


def owner(zones: Mapping[int, Zone], point: Point) -> int:
    """Return the node whose zone holds a point."""
    (node,) = (node for node, zone in zones.items() if zone.holds(point))
    return node


def join(zones: dict[int, Zone], node: int, point: Point, space: Space) -> int | None:
    """Let a node join: the newcomer takes the half with its point; return the former owner."""
    if not zones:
        zones[node] = Zone.whole(space)
        return None
    before = owner(zones, point)
    if zones[before].depth == space.bits:
        raise NoRoom(f"the zone of node {before} cannot be halved for node {node}")
    lower, upper = zones[before].halves()
    mine, rest = (lower, upper) if lower.holds(point) else (upper, lower)
    zones[node], zones[before] = mine, rest
    return before


def build(joins: Iterable[tuple[int, Point]], space: Space) -> dict[int, Zone]:
    """Return the zone of each node after all joins, in the order given."""
    zones: dict[int, Zone] = {}
    for node, point in joins:
        join(zones, node, point, space)
    return zones


# --- Neighbours ---------------------------------------------------------------------------------


def overlap(x: Zone, y: Zone, dimension: int) -> bool:
    """Tell whether the intervals of two zones in a dimension have a point in common."""
    a, b = x.low[dimension], y.low[dimension]
    return a < b + y.side[dimension] and b < a + x.side[dimension]


def face(x: Zone, y: Zone, space: Space) -> tuple[int, int] | None:
    """Return (dimension, direction) of the face of x that y is across; None: no neighbour (C6).

    Direction 1 is the upper face, -1 the lower one. Where y is across both (each zone has half of
    the dimension) it counts as across the lower one.
    """
    apart = (at for at in range(space.dimensions) if not overlap(x, y, at))
    at = next(apart, None)
    if at is None or next(apart, None) is not None:
        return None
    if (y.low[at] + y.side[at]) % space.places == x.low[at]:
        return at, -1
    if (x.low[at] + x.side[at]) % space.places == y.low[at]:
        return at, 1
    return None


def adjacencies(zones: Mapping[int, Zone], space: Space) -> set[Adjacency]:
    """Return who is across which face of whom."""
    found = {(x, y): face(zones[x], zones[y], space) for x in zones for y in zones if x != y}
    return {(x, y, *where) for (x, y), where in found.items() if where is not None}


def neighbours(adjacent: Iterable[Adjacency]) -> dict[int, set[int]]:
    """Return the distinct neighbours of each node that has some."""
    found: dict[int, set[int]] = {}
    for x, y, _, _ in adjacent:
        found.setdefault(x, set()).add(y)
    return found


# --- one CAN --------------------------------------------------------------------------------------


class Can:
    """The CAN of nodes that joined in the order given."""

    def __init__(
        self, order: list[int], idents: Mapping[int, int], points: Points, group: int
    ) -> None:
        self.order, self.idents, self.group = order, idents, group
        self.points: dict[int, Point] = {node: points(group, node) for node in order}
        self.space: Space = points.space
        self.zones = build([(node, self.points[node]) for node in order], self.space)
        self.adjacent = adjacencies(self.zones, self.space)
        self.across: dict[int, dict[int, tuple[int, int]]] = {node: {} for node in order}
        for x, y, dimension, direction in self.adjacent:
            self.across[x][y] = dimension, direction

    def owner(self, point: Point) -> int:
        """Return the node whose zone holds a point."""
        return owner(self.zones, point)

    def distance(self, node: int, point: Point) -> int:
        """Return the squared distance of a node's zone from a point (C12)."""
        zone, places = self.zones[node], self.space.places
        total = 0
        for low, side, at in zip(zone.low, zone.side, point, strict=True):
            if not low <= at < low + side:
                total += min((low - at) % places, (at - low - side + 1) % places) ** 2
        return total

    def next_hop(self, node: int, point: Point) -> int | None:
        """Return the next hop of a greedy route; None where the message is there (C12)."""
        here = self.distance(node, point)
        if here == 0:
            return None
        following = min(
            self.across[node], key=lambda one: (self.distance(one, point), self.idents[one])
        )
        assert self.distance(following, point) < here, "a hop that is no nearer"
        return following

    def route(self, node: int, point: Point) -> list[int]:
        """Return the nodes of a greedy route, both ends."""
        visited = [node]
        while (following := self.next_hop(visited[-1], point)) is not None:
            visited.append(following)
        return visited


def join_order(
    nodes: Iterable[int], first: int | None, idents: Mapping[int, int], draw: Draw, group: int
) -> list[int]:
    """Return in which order nodes join: the source, if there is one, then by a draw (C4)."""
    rest = sorted(
        (node for node in nodes if node != first),
        key=lambda node: (draw("can order", group, node), idents[node]),
    )
    return rest if first is None else [first, *rest]


def group_can(
    group: int, members: Iterable[int], source: int, idents: Mapping[int, int], points: Points
) -> Can:
    """Return a group's CAN."""
    order = join_order(members, source, idents, points.draw, group)
    return Can(order, idents, points, group)


def global_can(idents: Mapping[int, int], points: Points) -> Can:
    """Return the CAN of all nodes."""
    order = join_order(idents, None, idents, points.draw, ALL_NODES)
    return Can(order, idents, points, ALL_NODES)
