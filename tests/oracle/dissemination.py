"""How a message spreads, event by event, with a heap.

1. At time 0 each source has the message, and sends it on the edges that the rule chooses.
2. A copy that is sent at t to a peer arrives at t + D.  Copies are taken in the order of the clock:
   by time (arrival, hops, sender's nodeId), by hops (hops, nodeId); then of what they carry.
   A lost copy does not arrive.
3. The first copy of a node that is no source is delivered; after the processing time the node sends
   on the edges that the rule chooses for it.  No other copy is forwarded.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Edge:
    """An edge of one group's overlay; `label` has the numbers that copies carry."""

    node: int
    peer: int
    label: tuple[int, ...]


@dataclass(frozen=True)
class First:
    """The first copy of a node; at a source `sender` and the label are -1."""

    node: int
    sender: int
    hops: int
    at_us: int
    label: tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A copy that a node gets."""

    sender: int
    receiver: int
    hops: int
    sent_us: int
    at_us: int
    label: tuple[int, ...]
    first: bool
    lost: bool = False


class Spread(NamedTuple):
    """The first copy of each node that gets one, sources too; and all copies that were sent."""

    first: dict[int, First]
    copies: list[Copy]


def spread(
    sources: Iterable[int],
    edges: Iterable[Edge],
    rule: Callable[[First, Edge], bool],
    delay: Callable[[int, int], int],
    clock: str,
    processing_us: int,
    labels: int,
    idents: Mapping[int, int] | None = None,
    is_lost: Callable[[int, int], bool] = lambda sender, receiver: False,
    withholds: Collection[int] = (),
) -> Spread:
    """Return what comes of a publication; without `idents` nodes are in the order of nodeIds.

    The nodes that withhold forward nothing; sources send.
    """
    edges_of: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        edges_of[edge.node].append(edge)
    waiting: list[tuple] = []
    first = {s: First(s, -1, 0, 0, (-1,) * labels) for s in sources}
    copies: list[Copy] = []

    def send(mine: First) -> None:
        if mine.hops and mine.node in withholds:
            return
        sent = mine.at_us + (processing_us if mine.hops else 0)
        ident = mine.node if idents is None else idents[mine.node]
        for edge in edges_of[mine.node]:
            if rule(mine, edge):
                at, hops = sent + delay(edge.node, edge.peer), mine.hops + 1
                order = (at, hops) if clock == "time" else (hops,)
                row = (mine.node, edge.peer, hops, sent, at)
                if is_lost(edge.node, edge.peer):
                    copies.append(Copy(*row, edge.label, first=False, lost=True))
                    continue
                heapq.heappush(waiting, (*order, ident, edge.label, row))

    for source in list(first.values()):
        send(source)
    while waiting:
        *_, label, (sender, receiver, hops, sent, at) = heapq.heappop(waiting)
        is_first = receiver not in first
        copies.append(Copy(sender, receiver, hops, sent, at, label, is_first))
        if is_first:
            first[receiver] = First(receiver, sender, hops, at, label)
            send(first[receiver])
    return Spread(first, copies)
