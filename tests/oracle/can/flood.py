"""CAN multicast (rules C7 to C11), what joining costs (C13 to C16), CAN as the overlay (C17)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from ..dissemination import Edge, First, Spread, spread
from ..ring import BITS
from .zones import Can, Point, Points, global_can

DIRECTED, CORNER, OPTIMAL = "directed", "corner", "optimal"


def flood(
    can: Can,
    source: int,
    flooding: str,
    delay: Callable[[int, int], int] | None = None,
    processing: int = 0,
) -> Spread:
    """Return what comes of a publication; without `delay`, by hops without processing."""
    edges = [Edge(x, y, way) for x, across in can.across.items() for y, way in across.items()]
    goes_on = {DIRECTED: directed, CORNER: corner, OPTIMAL: optimal}[flooding]

    def rule(first: First, edge: Edge) -> bool:
        return goes_on(can, source, first, edge)

    if delay is None:
        return spread([source], edges, rule, lambda *_: 1, "hops", 0, 2, can.idents)
    return spread([source], edges, rule, delay, "time", processing, 2, can.idents)


def directed(can: Can, source: int, first: First, edge: Edge) -> bool:
    """Tell whether rules 1 to 3 let a copy go (C7)."""
    dimension, direction = edge.label
    if first.hops:
        along, going = first.label
        if not (dimension < along or (dimension == along and direction == going)):
            return False
    return before_half_way(can, source, edge.node, dimension, direction)


def middle(can: Can, source: int) -> Point:
    """Return l: the middle of the source's zone (C7)."""
    zone = can.zones[source]
    return tuple(low + side // 2 for low, side in zip(zone.low, zone.side, strict=True))


def before_half_way(can: Can, source: int, node: int, dimension: int, direction: int) -> bool:
    """Tell whether rule 3 lets a copy across a face."""
    places, start = can.space.places, middle(can, source)[dimension]
    zone = can.zones[node]
    if direction > 0:
        return 0 < (zone.low[dimension] + zone.side[dimension] - start) % places < places / 2
    return (start - zone.low[dimension]) % places < places / 2


def corner(can: Can, source: int, first: First, edge: Edge) -> bool:
    """Tell whether rule 5 lets a copy go, too (C9)."""
    return directed(can, source, first, edge) and (
        edge.label[0] != 0 or holds_corner(can, edge.node, edge.peer)
    )


def holds_corner(can: Can, node: int, neighbour: int) -> bool:
    """Tell whether a zone holds another's lower corner in all dimensions but the first."""
    mine, theirs = can.zones[node], can.zones[neighbour]
    return all(
        mine.low[at] <= theirs.low[at] < mine.low[at] + mine.side[at]
        for at in range(1, can.space.dimensions)
    )


def optimal(can: Can, source: int, first: First, edge: Edge) -> bool:
    """Tell whether the node is the parent of its neighbour (C10)."""
    return edge.peer != source and parent(can, source, edge.peer) == edge.node


def parent(can: Can, source: int, node: int) -> int:
    """Return the one node that sends to a node other than the source (C10)."""
    start, zone, places = middle(can, source), can.zones[node], can.space.places
    at = first_apart(can, source, node)
    assert at is not None
    if 0 < (zone.low[at] - start[at]) % places < places / 2:
        beside = (zone.low[at] - 1) % places
    else:
        beside = (zone.low[at] + zone.side[at]) % places
    return can.owner((*start[:at], beside, *zone.low[at + 1 :]))


def first_apart(can: Can, source: int, node: int) -> int | None:
    """Return i(y): the least dimension in which a zone does not hold the source's middle (C8)."""
    start, zone = middle(can, source), can.zones[node]
    for at in range(can.space.dimensions):
        if not zone.low[at] <= start[at] < zone.low[at] + zone.side[at]:
            return at
    return None


def deliveries(
    found: Spread, members: Iterable[int], source: int
) -> dict[int, tuple[int, int, int]]:
    """Return (hops, delay or hops, first_from) of each member but the source that got it."""
    return {
        node: (found.first[node].hops, found.first[node].at_us, found.first[node].sender)
        for node in set(members) - {source}
        if node in found.first
    }


def duplicates(found: Spread, members: Iterable[int], source: int) -> int:
    """Return how many copies came to members but the source that had one already."""
    others = set(members) - {source}
    taken = sum(copy.receiver in others for copy in found.copies)
    return taken - len(others & found.first.keys())


# --- what joining costs, and what nodes keep ------------------------------------------------------


#: (sender, receiver, kind) -> messages.
Messages = Counter[tuple[int, int, str]]


def contacts(can: Can, everybody: Can, group_id: int) -> Messages:
    """Return the CONTACT messages of a group: each node's route to the groupId's point (C13)."""
    target = can.space.first_bits(group_id, 128)
    found: Messages = Counter()
    for node in can.order:
        found.update((a, b, "CONTACT") for a, b in pairwise(everybody.route(node, target)))
    return found


def joins(can: Can) -> Messages:
    """Return the JOIN messages: to the contact, and on to the newcomer's point (C14)."""
    found: Messages = Counter()
    contact = can.order[0]
    for node in can.order[1:]:
        found[node, contact, "JOIN"] += 1
        at = contact
        while (following := can.next_hop(at, can.points[node])) not in (None, node):
            assert following is not None
            found[at, following, "JOIN"] += 1
            at = following
    return found


def control(can: Can, everybody: Can, group_id: int) -> Messages:
    """Return the messages of building a group's CAN that are counted (C15 says which are not)."""
    return contacts(can, everybody, group_id) + joins(can)


def state(can: Can) -> dict[int, int]:
    """Return the number of neighbours of each node that has some (C16)."""
    return {node: len(across) for node, across in can.across.items() if across}


# --- CAN as the overlay ---------------------------------------------------------------------------


class CanOverlay:
    """A CAN of all nodes; ``proximity(x, y)`` is D."""

    def __init__(
        self, ids: Mapping[int, int], points: Points, proximity: Callable[[int, int], int]
    ) -> None:
        self.ids, self.space, self.proximity = ids, points.space, proximity
        self.can = global_can(ids, points)

    def root(self, key: int) -> int:
        """Return the owner of the key's point."""
        return self.can.owner(self.space.first_bits(key, BITS))

    def next_hop(self, node: int, key: int) -> int | None:
        """Return the next hop; None at the root."""
        return self.can.next_hop(node, self.space.first_bits(key, BITS))

    def routing_table(self, node: int) -> set[tuple[int, int, int]]:
        """Return (row, col, neighbour): the dimension; 0 across the lower face, 1 the upper."""
        return {
            (dimension, int(direction > 0), neighbour)
            for neighbour, (dimension, direction) in self.can.across[node].items()
        }

    def route(self, node: int, key: int) -> list[int]:
        """Return the nodes of a route to the root of a key, both ends."""
        return self.can.route(node, self.space.first_bits(key, BITS))
