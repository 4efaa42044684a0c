"""What joining costs, and what nodes keep (rules C13 to C16)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from .can import Can

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
