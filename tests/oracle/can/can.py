"""One CAN: who is in it, its zones and neighbours, greedy routes (rules C4, C12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from . import zones as zoning
from .zones import ALL_NODES, Draw, Point, Points, Space


class Can:
    """A CAN after all joins.

    Attributes
    ----------
    order : list of node
        In which they have joined.
    zones : dict of node to Zone
    adjacent : set of (x, y, dimension, direction)
        y is across that face of x.
    """

    def __init__(
        self, order: list[int], idents: Mapping[int, int], points: Points, group: int
    ) -> None:
        self.order, self.idents, self.group = order, idents, group
        self.points: dict[int, Point] = {node: points(group, node) for node in order}
        self.space: Space = points.space
        self.zones = zoning.build([(node, self.points[node]) for node in order], self.space)
        self.adjacent = zoning.adjacencies(self.zones, self.space)
        self.across: dict[int, dict[int, tuple[int, int]]] = {node: {} for node in order}
        for x, y, dimension, direction in self.adjacent:
            self.across[x][y] = dimension, direction

    def owner(self, point: Point) -> int:
        """Return the node whose zone holds a point."""
        return zoning.owner(self.zones, point)

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
