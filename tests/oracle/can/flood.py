"""CAN multicast: which copies are sent, and the first ones (rules C7 to C11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..dissemination import Copy, Spread, spread
from .can import Can
from .space import Point

DIRECTED, CORNER, OPTIMAL = "directed", "corner", "optimal"


def flood(
    can: Can,
    source: int,
    flooding: str,
    delay: Callable[[int, int], int] | None = None,
    processing: int = 0,
) -> Spread:
    """Return what comes of a publication; a copy's `way` is (dimension, direction).

    Parameters
    ----------
    flooding : {"directed", "corner", "optimal"}
    delay : callable, optional
        By the clock of time; None: by hops.
    """
    forward = {
        DIRECTED: lambda node, got: directed(can, source, node, got),
        CORNER: lambda node, got: corner(can, source, node, got),
        OPTIMAL: lambda node, _: optimal(can, source, node),
    }[flooding]
    return spread(source, forward, can.idents, delay, processing)


def directed(
    can: Can, source: int, node: int, got: Copy | None
) -> list[tuple[int, tuple[int, int]]]:
    """Return (receiver, (dimension, direction)) of each copy, by rules 1 to 3 (C7)."""
    chosen = []
    for neighbour, (dimension, direction) in can.across[node].items():
        if got is not None:
            along, going = got.way
            if not (dimension < along or (dimension == along and direction == going)):
                continue
        if before_half_way(can, source, node, dimension, direction):
            chosen.append((neighbour, (dimension, direction)))
    return chosen


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


def corner(can: Can, source: int, node: int, got: Copy | None) -> list[tuple[int, tuple[int, int]]]:
    """Return the copies of rules 1 to 3 that rule 5 leaves (C9)."""
    return [
        (neighbour, way)
        for neighbour, way in directed(can, source, node, got)
        if way[0] != 0 or holds_corner(can, node, neighbour)
    ]


def holds_corner(can: Can, node: int, neighbour: int) -> bool:
    """Tell whether a zone holds another's lower corner in all dimensions but the first."""
    mine, theirs = can.zones[node], can.zones[neighbour]
    return all(
        mine.low[at] <= theirs.low[at] < mine.low[at] + mine.side[at]
        for at in range(1, can.space.dimensions)
    )


def optimal(can: Can, source: int, node: int) -> list[tuple[int, tuple[int, int]]]:
    """Return a copy to each neighbour whose parent the node is (C10)."""
    return [
        (neighbour, way)
        for neighbour, way in can.across[node].items()
        if neighbour != source and parent(can, source, neighbour) == node
    ]


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
    """Return (hops, delay, first_from) of each member but the source that got it.

    By hops the delay is the number of hops.
    """
    return {
        node: (found.first[node].hop, found.first[node].arrives, found.first[node].sender)
        for node in set(members) - {source}
        if node in found.first
    }


def duplicates(found: Spread, members: Iterable[int], source: int) -> int:
    """Return how many copies came to members but the source that had one already."""
    others = set(members) - {source}
    taken = sum(copy.receiver in others for copy in found.copies)
    return taken - len(others & found.first.keys())
