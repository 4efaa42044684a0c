"""How a message spreads, event by event, with a heap.

1. At time 0 each source has the message, and sends it on the edges that the rule chooses.
2. A copy that is sent at t to a peer arrives at t + D.  Copies are taken in the order of the clock:
   by time (arrival, hops, sender), by hops (hops, sender); then of what they carry.
3. The first copy of a node that is no source is delivered; after the processing time the node sends
   on the edges that the rule chooses for it.  No other copy is forwarded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass


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


def spread(
    sources: list[int],
    edges: list[Edge],
    rule: Callable[[First, Edge], bool],
    delay: Callable[[int, int], int],
    clock: str,
    processing_us: int,
    labels: int,
) -> tuple[dict[int, First], list[Copy]]:
    """The first copy of each node that gets one, sources too; and all copies."""
    waiting: list[tuple] = []
    first = {s: First(s, -1, 0, 0, (-1,) * labels) for s in sources}
    copies: list[Copy] = []

    def send(mine: First) -> None:
        sent = mine.at_us + (processing_us if mine.hops else 0)
        for edge in edges:
            if edge.node == mine.node and rule(mine, edge):
                at, hops = sent + delay(edge.node, edge.peer), mine.hops + 1
                order = (at, hops) if clock == "time" else (hops,)
                row = (edge.peer, hops, sent, at)
                heapq.heappush(waiting, (*order, mine.node, edge.label, row))

    for source in first.values():
        send(source)
    while waiting:
        *_, sender, label, (receiver, hops, sent, at) = heapq.heappop(waiting)
        is_first = receiver not in first
        copies.append(Copy(sender, receiver, hops, sent, at, label, is_first))
        if is_first:
            first[receiver] = First(receiver, sender, hops, at, label)
            send(first[receiver])
    return first, copies
