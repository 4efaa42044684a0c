"""Zones of a CAN, one join after the other, and who abuts whom, by looking at all pairs.

References
----------
Ratnasamy, Francis, Handley, Karp, Shenker, "A scalable content-addressable network", SIGCOMM 2001.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Point = tuple[int, ...]
#: (node, neighbour, dimension, direction): the neighbour is across the face of that direction.
Adjacency = tuple[int, int, int, int]


@dataclass(frozen=True)
class Zone:
    """A box of the torus of ``2**width`` in each dimension: half open, its sides powers of two.

    Attributes
    ----------
    low, side : tuple of int
        The least coordinate and the length in each dimension.
    depth : int
        How many halvings made it.
    prefix : int
        Bit k (the first is the highest of ``depth`` bits) says which half the k-th halving left:
        1 is the upper one.
    """

    low: Point
    side: Point
    depth: int = 0
    prefix: int = 0

    @staticmethod
    def whole(dimensions: int, width: int) -> Zone:
        """Return the whole torus."""
        return Zone((0,) * dimensions, (1 << width,) * dimensions)

    def holds(self, point: Point) -> bool:
        """Tell whether a point is in the zone."""
        return all(
            low <= at < low + side for low, side, at in zip(self.low, self.side, point, strict=True)
        )

    def splits_along(self) -> int:
        """Return the dimension of the next halving: they take turns."""
        return self.depth % len(self.low)

    def can_split(self) -> bool:
        """Tell whether the next halving leaves whole numbers."""
        return self.side[self.splits_along()] >= 2

    def halves(self) -> tuple[Zone, Zone]:
        """Return the lower and the upper half."""
        at = self.splits_along()
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


def join(zones: dict[int, Zone], node: int, point: Point, width: int) -> int | None:
    """Let a node join: the newcomer takes the half with its point, the owner the other one.

    Returns
    -------
    int or None
        Whose zone was split; None for the first node, which gets the whole torus.
    """
    if not zones:
        zones[node] = Zone.whole(len(point), width)
        return None
    before = owner(zones, point)
    if not zones[before].can_split():
        raise NoRoom(f"the zone of node {before} cannot be halved for node {node}")
    lower, upper = zones[before].halves()
    mine, rest = (lower, upper) if lower.holds(point) else (upper, lower)
    zones[node], zones[before] = mine, rest
    return before


def build(joins: Iterable[tuple[int, Point]], width: int) -> dict[int, Zone]:
    """Return the zone of each node after all joins, in the order given."""
    zones: dict[int, Zone] = {}
    for node, point in joins:
        join(zones, node, point, width)
    return zones


# --- Neighbours ---------------------------------------------------------------------------------


def overlap(x: Zone, y: Zone, dimension: int) -> bool:
    """Tell whether the intervals of two zones in a dimension have a point in common."""
    a, b = x.low[dimension], y.low[dimension]
    return a < b + y.side[dimension] and b < a + x.side[dimension]


def abuts(x: Zone, y: Zone, dimension: int, direction: int, width: int) -> bool:
    """Tell whether y begins where x ends in a dimension; direction -1: the other way round."""
    if direction < 0:
        return abuts(y, x, dimension, 1, width)
    return (x.low[dimension] + x.side[dimension]) % (1 << width) == y.low[dimension]


def faces(x: Zone, y: Zone, width: int) -> list[tuple[int, int]]:
    """Return (dimension, direction) of each face of x that y is across.

    Zones are neighbours if they overlap in all dimensions but one, and abut in that one.  On a
    torus y can be across both faces of a dimension: then it is there twice.
    """
    dimensions = range(len(x.low))
    return [
        (at, direction)
        for at in dimensions
        for direction in (-1, 1)
        if abuts(x, y, at, direction, width)
        and all(overlap(x, y, other) for other in dimensions if other != at)
    ]


def adjacencies(zones: Mapping[int, Zone], width: int) -> set[Adjacency]:
    """Return who is across which face of whom; a node is not its own neighbour."""
    return {
        (x, y, dimension, direction)
        for x in zones
        for y in zones
        if x != y
        for dimension, direction in faces(zones[x], zones[y], width)
    }


def neighbours(adjacent: Iterable[Adjacency]) -> dict[int, set[int]]:
    """Return the distinct neighbours of each node that has some."""
    found: dict[int, set[int]] = {}
    for x, y, _, _ in adjacent:
        found.setdefault(x, set()).add(y)
    return found


# --- Invariants ---------------------------------------------------------------------------------


def volume(zone: Zone) -> int:
    """Return how many points of whole coordinates a zone has."""
    product = 1
    for side in zone.side:
        product *= side
    return product


def tiles(zones: Mapping[int, Zone], dimensions: int, width: int) -> bool:
    """Tell whether no two zones overlap, and all of them together are the torus."""
    every = list(zones.values())
    apart = all(
        not all(overlap(x, y, at) for at in range(dimensions))
        for number, x in enumerate(every)
        for y in every[:number]
    )
    return apart and sum(map(volume, every)) == 1 << width * dimensions


def symmetric(adjacent: Iterable[Adjacency]) -> bool:
    """Tell whether whoever is across a face has this node across the opposite one."""
    rows = set(adjacent)
    return rows == {(y, x, dimension, -direction) for x, y, dimension, direction in rows}


def distance(a: int, b: int, width: int) -> int:
    """Return the distance of two coordinates on the circle, the shorter way round."""
    forth = (b - a) % (1 << width)
    return min(forth, (1 << width) - forth)


def box(zone: Zone) -> Sequence[tuple[int, int]]:
    """Return (low, high) of each dimension, for reading."""
    return [(low, low + side) for low, side in zip(zone.low, zone.side, strict=True)]
