"""Publication, copies and deliveries (rules B7 to B9)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from .roots import hop_to_key
from .session import Session


@dataclass(frozen=True)
class Copy:
    """A copy that a node sends to a node; hop, sent and arrives count from the publication."""

    partition: int
    sender: int
    receiver: int
    hop: int
    sent: int
    arrives: int


@dataclass
class Published:
    """What came of a publication."""

    copies: list[Copy]
    first: dict[tuple[int, int], Copy]
    deliveries: dict[int, tuple[int, int, int]]  # Of each member but the source that got it
    duplicates: int  # Payload copies to members other than the source that are not their deliveries


def publish(session: Session, source: int, way: str = "root") -> Published:
    """Publish messages in fixed meshes; return the number of lazy heartbeats.

    ``play(program, name)`` plays a program and returns the number of messages per superstep.
    """
    first_root = session.roots[0]
    start = way_to_root(session, source, way)
    copies: list[Copy] = []
    first: dict[tuple[int, int], Copy] = {}
    if start is not None:
        for partition, root in session.roots.items():
            spread(session, partition, root, start, copies, first)
    deliveries = {}
    for member in session.joined:
        if member == source:
            continue
        if member == first_root and start is not None:
            deliveries[member] = (*start, source)
            continue
        got = [copy for (_, node), copy in first.items() if node == member]
        if got:
            one = min(got, key=lambda copy: (*order(session, copy), copy.partition))
            deliveries[member] = (one.hop, one.arrives, one.sender)
    to_members = [c for c in copies if c.receiver in session.joined and c.receiver != source]
    by_copy = deliveries.keys() - {first_root}
    return Published(copies, first, deliveries, len(to_members) - len(by_copy))


def way_to_root(session: Session, source: int, way: str) -> tuple[int, int] | None:
    """Return (hops, delay) with which the root of partition 0 has the publication (B8).

    None where a routed publication ends at another node: nobody gets it (B3 says so of a JOIN).
    """
    overlay, root = session.overlay, session.roots[0]
    if source == root:
        return 0, 0
    if way != "routed":
        return 1, overlay.proximity(source, root)
    visited, delay = [source], 0
    while (
        following := hop_to_key(overlay, visited[-1], session.keys[0], session.options.root)
    ) is not None:
        delay += overlay.proximity(visited[-1], following)
        if following in visited:
            return None
        visited.append(following)
    return (len(visited) - 1, delay) if visited[-1] == root else None


def spread(
    session: Session,
    partition: int,
    root: int,
    start: tuple[int, int],
    copies: list[Copy],
    first: dict[tuple[int, int], Copy],
) -> None:
    """Send a partition's copies, the first that arrives at a node before all others (B7, B9)."""
    proximity = session.overlay.proximity
    arriving: list[tuple[tuple[int, int, int], int, Copy]] = []

    def send(node: int, to: set[int], hops: int, now: int) -> None:
        for receiver in to:
            arrives = now + proximity(node, receiver)
            copy = Copy(partition, node, receiver, hops + 1, now, arrives)
            copies.append(copy)
            heapq.heappush(arriving, (order(session, copy), len(copies), copy))

    first_root = session.roots[0]
    if partition == 0:
        send(root, session.next_hops(0, root), *start)
    elif partition in {session.joined[member] for member in session.answered}:
        # B8's "has joined" is read as: the root has got its JOIN. Perfect tables bring every JOIN.
        send(first_root, {root}, *start)
    while arriving:
        *_, copy = heapq.heappop(arriving)
        node = copy.receiver
        if (partition, node) in first:
            continue
        first[partition, node] = copy
        if (partition, node) != (0, first_root):  # the publication comes before all copies (B9)
            send(node, session.next_hops(partition, node), copy.hop, copy.arrives)


def order(session: Session, copy: Copy) -> tuple[int, int, int]:
    """Return the sort key of "the first copy": delay, hops, the sender's nodeId (B9)."""
    return copy.arrives, copy.hop, session.overlay.ids[copy.sender]
