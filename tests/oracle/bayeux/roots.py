"""Partitions, roots and routes to a key (rules B1 to B3)."""

from __future__ import annotations

from ..pastry import RING, Overlay, common_length, digits

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
        own, theirs = (digits(overlay.ids[x], overlay.b) for x in (node, member))
        row = common_length(own, theirs)
        entry = overlay.routing_table(node).get((row, theirs[row]))
        if entry is not None:
            return entry
    return overlay.next_hop(node, overlay.ids[member])
