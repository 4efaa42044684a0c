"""One publication spreads over directed edges: who gets it first, from whom; a priority queue.

Two clocks. By hops: what is sent in round r arrives in round r + 1. By time: a copy sent at t
arrives at t + D(sender, receiver), and a node forwards its first copy `processing` later. The
first copy is the one that arrives first; ties go to the fewest hops, then to the smallest nodeId
of the sender.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Copy:
    """A copy that a node sends to a node.

    Attributes
    ----------
    hop : int
        1 for the source's copies.
    sent, arrives : int
        Microseconds from the publication on; by hops, rounds.
    way : hashable
        What the receiver's forwarding rule reads of the copy.
    """

    sender: int
    receiver: int
    hop: int
    sent: int
    arrives: int
    way: Hashable = None


#: forward(node, first copy or None at the source) -> (receiver, way) of each copy that it sends.
Forward = Callable[[int, Copy | None], Iterable[tuple[int, Hashable]]]


@dataclass
class Spread:
    """What came of a publication: every copy that was sent, and the first that each node got."""

    copies: list[Copy]
    first: dict[int, Copy]


def spread(
    source: int,
    forward: Forward,
    idents: Mapping[int, int],
    delay: Callable[[int, int], int] | None = None,
    processing: int = 0,
) -> Spread:
    """Return the copies of a publication.

    Parameters
    ----------
    forward : callable
        Which copies a node sends when it gets its first copy.
    idents : mapping of node to nodeId
        They break ties.
    delay : callable, optional
        D(sender, receiver), by time; None: by hops.
    """
    copies: list[Copy] = []
    first: dict[int, Copy] = {}
    arriving: list[tuple[tuple[int, int, int, int], Copy]] = []

    def send(node: int, got: Copy | None) -> None:
        now = 0 if got is None else got.arrives
        if delay is not None:
            now += processing if got is not None else 0
        hop = 1 if got is None else got.hop + 1
        for receiver, way in forward(node, got):
            arrives = now + (1 if delay is None else delay(node, receiver))
            copy = Copy(node, receiver, hop, now, arrives, way)
            copies.append(copy)
            heapq.heappush(arriving, ((arrives, hop, idents[node], len(copies)), copy))

    send(source, None)
    while arriving:
        _, copy = heapq.heappop(arriving)
        if copy.receiver != source and copy.receiver not in first:
            first[copy.receiver] = copy
            send(copy.receiver, copy)
    return Spread(copies, first)
