"""The trees of groups by their definition, and deliveries down these trees (JSAC section III.A).

The tree of a group is the union of its members' routes to the root, on any overlay that has roots
and routes (`pastry`, `can.overlay`).  `scribe_living` has Scribe message by message (Figures 3 and
4); where nobody comes or goes, its trees and deliveries are these.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from itertools import pairwise

from .pastry import Overlay

Edge = tuple[int, int, int]
Deliveries = dict[int, tuple[int, int]]


def group_id(group_name: str, creator_name: str) -> int:
    """Return the first 128 bits of SHA-1(group name followed by creator name), UTF-8, big-endian.

    JSAC section III.A.1: "the hash of the group's textual name concatenated with its creator's
    name".
    """
    return int.from_bytes(_sha1(group_name + creator_name)[:16], "big")


def creator_rooted_group_id(creator_id: int, group_name: str) -> int:
    """Return a groupId that lies next to the creator's nodeId, so that the creator is the root.

    JSAC section III.A.1 concatenates the creator's nodeId with the hash of the group's name.  Cut
    to a ring of 128 bits: the high 64 bits of the nodeId, then the first 64 bits of SHA-1(name).
    The creator is the root as long as no other nodeId lies within some 2**64 of it.
    """
    name_hash = int.from_bytes(_sha1(group_name)[:8], "big")
    return (creator_id >> 64 << 64) | name_hash


def _sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).digest()


def gsize(node_count: int, rank: int) -> int:
    """Return floor(N r^-1.25 + 0.5), the size of the group of a rank (JSAC section IV.A).

    Exact in integers: it is the largest k with (2k - 1)^4 r^5 <= (2N)^4.
    """
    return (math.isqrt(math.isqrt((2 * node_count) ** 4 // rank**5)) + 1) // 2


class Scribe:
    """The trees of groups on an overlay; `keys` maps each group to its groupId."""

    def __init__(self, overlay: Overlay, keys: Mapping[int, int]) -> None:
        self.overlay, self.keys = overlay, dict(keys)
        self.members: dict[int, set[int]] = {group: set() for group in keys}
        self.parents: dict[int, dict[int, int]] = {group: {} for group in keys}

    def join_all(self, joins: Iterable[tuple[int, int]]) -> None:
        """Let members join, given as (group, member)."""
        for group, member in joins:
            self.members[group].add(member)
            for child, parent in pairwise(self.overlay.route(member, self.keys[group])):
                assert self.parents[group].setdefault(child, parent) == parent

    def multicast(self, group: int, sender: str = "root", source: int | None = None) -> Deliveries:
        """Return the hops and the delay of one message to each member but the source.

        The root sends; or ``source`` routes its message to the root ("routed"), or sends it
        straight to the root, whose address it has cached ("direct").  From the root on, the message
        goes down the whole tree, past the source too (JSAC section III.A.3).
        """
        root = self.overlay.root(self.keys[group])
        start = root if source is None else source
        if sender == "routed":
            up = self.overlay.route(start, self.keys[group])
        else:
            up = [start, root] if start != root else [root]
        found = {}
        for member in self.members[group] - {start}:
            down = [member]
            while down[-1] != root:
                down.append(self.parents[group][down[-1]])
            legs = list(pairwise(up + down[-2::-1]))
            found[member] = len(legs), sum(self.overlay.proximity(*leg) for leg in legs)
        return found

    def edges(self) -> set[Edge]:
        """Return (group, parent, child) of all trees."""
        return {
            (group, parent, child)
            for group, parents in self.parents.items()
            for child, parent in parents.items()
        }
