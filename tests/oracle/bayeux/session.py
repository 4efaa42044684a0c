"""JOIN, TREE and the member lists of one group (rules B4 to B6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ..pastry import Overlay
from .roots import PASTRY, hop_to_key, hop_to_member, partition_keys, roots


@dataclass(frozen=True)
class Options:
    """The settings of Bayeux: `root` pastry | surrogate, `hops` table | leaf_set."""

    partitions: int = 1
    root: str = PASTRY
    hops: str = "table"


class Session:
    """One group: its partitions, and what the nodes keep of it.

    Attributes
    ----------
    roots : dict of partition to node
    joined : dict of member to partition
        Which partition each member has chosen.
    answered : set of member
        Whose JOIN has come to the root of that partition.
    lists : dict of (partition, node) to dict of member to next hop
    messages : Counter of (sender, receiver, kind)
        JOIN and TREE, a count for each transmission.
    """

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
        root, key = self.roots[partition], self.keys[partition]
        self.joined[member] = partition
        way = self.transmit(member, "JOIN", lambda at: self.to_key(at, key))
        if way[-1] != root:
            return
        self.answered.add(member)
        tree = self.transmit(root, "TREE", lambda at: self.to_member(at, member))
        for at, following in pairwise(tree):
            self.lists.setdefault((partition, at), {})[member] = following

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
        """Route a message until nobody is next; return the nodes that it was at.

        A node that it has been at ends it, and that transmission counts (P7): with right leaf sets
        it does not happen. It is then the last node, and not the root or the member.
        """
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
