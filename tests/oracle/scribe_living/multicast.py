"""Dissemination from the roots down the trees, and what upcalls send."""

from __future__ import annotations

from .figures import deliver_multicast
from .roots import is_root
from .sources import Sent
from .state import Scribe
from .upcalls import Ask, Join, Payload

#: (group, sender, receiver, message)
Parcel = tuple[int, int, int, Payload]


def number(sent: list[Sent]) -> list[Parcel]:
    """The roots take publications, in the order given: messages from themselves to themselves."""
    taken = [(one.publication, one.root) for one in sent if one.fate == "sent"]
    return [
        (publication[1], root, root, Payload(place, (publication,)))
        for place, (publication, root) in enumerate(taken)
    ]


def disseminate(scribe: Scribe, parcels: list[Parcel], kind: str = "payload") -> None:
    """Messages go down, all of a hop at once, until none is under way."""
    while parcels:
        parcels = deliver_all(scribe, parcels, kind)


def deliver_all(scribe: Scribe, parcels: list[Parcel], kind: str) -> list[Parcel]:
    """One superstep: what the receivers send on."""
    sent: list[Parcel] = []
    drops = set()
    for group, sender, node, message in sorted(
        parcels, key=lambda parcel: (parcel[0], parcel[2], parcel[3].number, parcel[3].numbers)
    ):
        if not arrives(scribe, group, sender, node, message, kind):
            continue
        if not accepts(scribe, group, sender, node):
            scribe.refused["payload"] += 1
            drops.add((group, sender, node))
            continue
        for child, part in deliver_multicast(scribe, group, node, message).items():
            sent.append((group, node, child, part))
    for group, sender, node in drops:
        scribe.overlay.send("drop child", node, sender)
        scribe.entries[group][sender].children.pop(node, None)
    return sent


def arrives(
    scribe: Scribe, group: int, sender: int, node: int, message: Payload, kind: str
) -> bool:
    """Count a transmission; one for each publication of a retransmission, at least one."""
    if sender == node:
        return True
    if kind == "payload":
        scribe.paid.add((group, sender, node))
        scribe.carried += [(one, sender, node) for one in message.publications]
    times = max(1, len(message.publications))
    return all([scribe.overlay.send(kind, sender, node) for _ in range(times)])


def accepts(scribe: Scribe, group: int, sender: int, node: int) -> bool:
    """A payload from anyone but the current parent is refused; a root takes its own only."""
    entry = scribe.entry(group, node)
    return entry is not None and (
        entry.parent == sender or (sender == node and is_root(scribe, group, node))
    )


def settle(scribe: Scribe) -> None:
    """joinHandler for all children added; what it sends, until nothing is under way.

    The trees are as the round's JOINs have left them (rule S17). For the questions of one node
    and group in a superstep one is sent.
    """
    added = [
        (node, join)
        for node, join in scribe.added
        if is_own(scribe, node, join) or is_child(scribe, node, join)
    ]
    scribe.added = []
    # a child that was dropped and came back: its last JOIN counts
    added = list({(node, join.group, join.source): (node, join) for node, join in added}.values())
    parcels, asks = call_join_handlers(scribe, added)
    while parcels or asks:
        on = deliver_all(scribe, parcels, "retransmission")
        asked = [one for one in asks if scribe.overlay.send("JOIN", one[1].source, one[0])]
        parcels, asks = call_join_handlers(
            scribe, [one for one in asked if is_child(scribe, one[0], one[1])]
        )
        parcels += on


def is_own(scribe: Scribe, node: int, join: Join) -> bool:
    """A new root's JOIN to itself."""
    return join.source == node and is_root(scribe, join.group, node)


def is_child(scribe: Scribe, node: int, join: Join) -> bool:
    """Whether the sender of a JOIN is a child still."""
    entry = scribe.entry(join.group, node)
    return entry is not None and join.source in entry.children


def call_join_handlers(
    scribe: Scribe, added: list[tuple[int, Join]]
) -> tuple[list[Parcel], list[tuple[int, Join]]]:
    """The messages to children, and the questions to parents: (parent, JOIN)."""
    parcels: list[Parcel] = []
    extras: dict[tuple[int, int], list[int]] = {}
    for node, join in sorted(added, key=lambda one: (one[1].group, one[0], one[1].source)):
        here = scribe.local(join.group, node)
        for emitted in scribe.application.join_handler(here, join):
            if isinstance(emitted, Ask):
                extras.setdefault((join.group, node), []).append(emitted.extra)
            else:
                parcels.append((join.group, node, join.source, emitted))
    asks = []
    for (group, node), wanted in sorted(extras.items()):
        entry = scribe.entries[group][node]
        if entry.parent is not None:
            extra = scribe.application.common_extra(wanted)
            scribe.joins.append((group, node, "ask"))
            asks.append((entry.parent, Join(group, node, entry.number, "ask", extra)))
    return parcels, asks
