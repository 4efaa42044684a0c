"""Roots, JOIN, TREE, member lists and publications of one group (rules B1 to B9)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ..dissemination import Edge
from ..dissemination import spread as disseminate
from ..pastry import Overlay
from ..ring import RING, digits, shared_digits

PASTRY, SURROGATE = "pastry", "surrogate"


def partition_keys(group_key: int, count: int) -> list[int]:
    """Return the keys of all partitions; partition i of group g has index g * partitions + i.

    The keys of a group are evenly spaced on the ring; the first is the groupId.
    """
    return [(group_key + number * (RING // count)) % RING for number in range(count)]


def root_of(overlay: Overlay, key: int, rule: str) -> int:
    """Return the root of a key (B2)."""
    if rule == PASTRY:
        return overlay.root(key)
    return min(overlay.ids, key=lambda node: differences(overlay, node, key))


def differences(overlay: Overlay, node: int, key: int) -> tuple[int, ...]:
    """Return (own digit - the key's) mod 2^b for each digit, the highest first."""
    own, asked = digits(overlay.ids[node], overlay.b), digits(key, overlay.b)
    return tuple((x - k) % 2**overlay.b for x, k in zip(own, asked, strict=True))


def roots(overlay: Overlay, group_key: int, count: int, rule: str) -> dict[int, int]:
    """Return the root of each partition that exists: of equal roots the least partition's (B1)."""
    found: dict[int, int] = {}
    for partition, key in enumerate(partition_keys(group_key, count)):
        root = root_of(overlay, key, rule)
        if root not in found.values():
            found[partition] = root
    return found


def hop_to_key(overlay: Overlay, node: int, key: int, rule: str) -> int | None:
    """Return the next hop of a message for a key; None where it is delivered (B3)."""
    return overlay.next_hop(node, key) if rule == PASTRY else surrogate_hop(overlay, node, key)


def surrogate_hop(overlay: Overlay, node: int, key: int) -> int | None:
    """Return the next hop of surrogate routing; None: the node finds itself in all rows (B3)."""
    own, asked = digits(overlay.ids[node], overlay.b), digits(key, overlay.b)
    table, base = overlay.routing_table(node), 2**overlay.b
    for row in range(len(asked)):
        filled = [d for d in range(base) if (row, d) in table or d == own[row]]
        taken = min(filled, key=lambda d: (d - asked[row]) % base)
        if taken != own[row]:
            return table[row, taken]
    return None


def hop_to_member(overlay: Overlay, node: int, member: int, hops: str) -> int | None:
    """Return the next hop of a TREE at a node other than the member; None: nobody (B5)."""
    if hops == "table":
        row = shared_digits(overlay.ids[node], overlay.ids[member], overlay.b)
        digit = digits(overlay.ids[member], overlay.b)[row]
        entry = overlay.routing_table(node).get((row, digit))
        if entry is not None:
            return entry
    return overlay.next_hop(node, overlay.ids[member])


@dataclass(frozen=True)
class Options:
    """The settings of Bayeux: `root` pastry | surrogate, `hops` table | leaf_set."""

    partitions: int = 1
    root: str = PASTRY
    hops: str = "table"


class Session:
    """One group: its partitions, and what the nodes keep of it."""

    def __init__(self, overlay: Overlay, key: int, options: Options) -> None:
        self.overlay, self.options = overlay, options
        self.keys = partition_keys(key, options.partitions)
        self.roots = roots(overlay, key, options.partitions, options.root)
        self.joined: dict[int, int] = {}
        self.answered: set[int] = set()
        self.lists: dict[tuple[int, int], dict[int, int]] = {}
        self.messages: Counter[tuple[int, int, str]] = Counter()

    def join(self, member: int) -> None:
        """Send a JOIN to the nearest partition's root, which answers with a TREE (B4 to B6)."""
        partition = self.nearest_partition(member)
        root = self.roots[partition]
        self.joined[member] = partition
        if self.way_to_root(partition, member, "JOIN") is None:
            return
        self.answered.add(member)
        tree = self.transmit(root, "TREE", lambda at: self.to_member(at, member))
        if tree[-1] == member:  # B16: only then do nodes write entries
            for at, following in pairwise(tree):
                self.lists.setdefault((partition, at), {})[member] = following

    def way_to_root(self, partition: int, start: int, kind: str) -> list[int] | None:
        """Route a message to a root; None if it goes in a circle."""
        root, key = self.roots[partition], self.keys[partition]
        if start == root:
            return [start]
        way = self.transmit(start, kind, lambda at: self.to_key(at, key))
        if way[-1] in way[:-1]:
            return None
        if way[-1] != root:
            self.messages[way[-1], root, kind] += 1
            way.append(root)
        return way

    def nearest_partition(self, member: int) -> int:
        """Return the partition whose root is nearest, of equals that of the smallest nodeId."""
        return min(
            self.roots,
            key=lambda one: (
                self.overlay.proximity(member, self.roots[one]),
                self.overlay.ids[self.roots[one]],
            ),
        )

    def transmit(self, start: int, kind: str, hop: Callable[[int], int | None]) -> list[int]:
        """Route a message until nobody is next; return the nodes that it was at."""
        visited = [start]
        while (following := hop(visited[-1])) is not None:
            self.messages[visited[-1], following, kind] += 1
            circle = following in visited
            visited.append(following)
            if circle:
                break
        return visited

    def to_key(self, at: int, key: int) -> int | None:
        """Return the next hop of a JOIN."""
        return hop_to_key(self.overlay, at, key, self.options.root)

    def to_member(self, at: int, member: int) -> int | None:
        """Return the next hop of a TREE."""
        return None if at == member else hop_to_member(self.overlay, at, member, self.options.hops)

    def state(self) -> Counter[int]:
        """Return how many entries each node has in its member lists (B6)."""
        entries: Counter[int] = Counter()
        for (_, node), members in self.lists.items():
            entries[node] += len(members)
        return entries

    def next_hops(self, partition: int, node: int) -> set[int]:
        """Return to whom a node sends what it gets of a partition (B7)."""
        return set(self.lists.get((partition, node), {}).values())


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
    """Return what comes of a publication of a source."""
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
    """Return (hops, delay) with which the root of partition 0 has the publication (B8)."""
    overlay, root = session.overlay, session.roots[0]
    visited = [source, root] if source != root else [source]
    if way == "routed":
        routed = session.way_to_root(0, source, "MULTICAST")
        if routed is None:
            return None
        visited = routed
    return len(visited) - 1, sum(overlay.proximity(a, b) for a, b in pairwise(visited))


def spread(
    session: Session,
    partition: int,
    root: int,
    start: tuple[int, int],
    copies: list[Copy],
    first: dict[tuple[int, int], Copy],
) -> None:
    """Send a partition's copies, the first that arrives at a node before all others (B7, B9)."""
    overlay, (hops, now) = session.overlay, start
    if partition:
        if partition not in {session.joined[member] for member in session.answered}:
            # B8's "has joined" is read as: the root has got its JOIN. Perfect tables bring every
            # JOIN.
            return
        one = session.roots[0]
        arrives = now + overlay.proximity(one, root)
        first[partition, root] = Copy(partition, one, root, hops + 1, now, arrives)
        copies.append(first[partition, root])
        hops, now = hops + 1, arrives
    nodes = [node for of, node in session.lists if of == partition]
    edges = [Edge(node, to, ()) for node in nodes for to in session.next_hops(partition, node)]
    of_ids = overlay.proximity, "time", 0, 0, overlay.ids
    for one in disseminate([root], edges, lambda *_: True, *of_ids).copies:
        times = now + one.sent_us, now + one.at_us
        copy = Copy(partition, one.sender, one.receiver, hops + one.hops, *times)
        copies.append(copy)
        if one.first:
            first[partition, one.receiver] = copy


def order(session: Session, copy: Copy) -> tuple[int, int, int]:
    """Return the sort key of "the first copy": delay, hops, the sender's nodeId (B9)."""
    return copy.arrives, copy.hop, session.overlay.ids[copy.sender]
