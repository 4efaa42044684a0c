"""Sources find roots, messages go down the trees (JSAC III.A.3, NGC 3.1), upcalls send.

For an application that acknowledges, sources keep their publications until the root has answered
(rule S24).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .figures import deliver_multicast
from .phase import DELIVERED, Phase
from .roots import become_root, has_replica, is_root, replicate_changed
from .state import Ask, Join, Payload, Publication, Scribe


@dataclass
class Sent:
    """A MULTICAST of a round from a source to the root: where it came to, what became of it."""

    publication: Publication
    root: int | None
    fate: str  # sent | refused | no root | kept


def find_roots(scribe: Scribe, phase: Phase, published: Iterable[tuple[int, int]]) -> list[Sent]:
    """MULTICASTs go to the roots: those of the round (group, source), and those that were kept.

    First all go to the addresses that their sources keep; then all that are not at a root yet are
    routed, from the source where the address did not answer, else from the node that was no root.
    """
    new = {(scribe.round, group, source) for group, source in published}
    reached = []
    for publication in in_order(scribe, new | scribe.kept):
        _, group, source = publication
        at = send_to_address(scribe, group, source)
        reached.append((publication, at, is_root(scribe, group, at)))
    sent = []
    for publication, at, arrived in reached:
        _, group, source = publication
        way = [source, at] if at != source else [source]
        root = at
        if not arrived:
            root, onward = route_to_root(scribe, phase, group, source, at)
            way += onward[1:]
        scribe.ways[publication] = way
        if root is None:
            scribe.addresses.pop((group, source), None)
            sent.append(Sent(publication, None, "no root"))
        elif not scribe.copies[group, root].state.access.allows("multicast", source):
            scribe.refused["MULTICAST"] += 1
            sent.append(Sent(publication, root, "refused"))
        else:
            if scribe.settings.source != "routed":
                scribe.addresses[group, source] = root
            sent.append(Sent(publication, root, "sent"))
    return sent


def in_order(scribe: Scribe, publications: Iterable[Publication]) -> list[Publication]:
    """By group, round, and nodeId of the source: the order in which a root takes them."""
    idents = scribe.overlay.idents
    return sorted(publications, key=lambda one: (one[1], one[0], idents[one[2]]))


def send_to_address(scribe: Scribe, group: int, source: int) -> int:
    """The node that has the message after the address was tried: the source if it is dead."""
    if is_root(scribe, group, source):
        return source
    address = scribe.addresses.get((group, source), source)
    if address != source and scribe.overlay.send("MULTICAST", source, address):
        return address
    return source


def route_to_root(
    scribe: Scribe, phase: Phase, group: int, source: int, start: int
) -> tuple[int | None, list[int]]:
    """Route to the groupId, and the route; the root tells the source its address."""
    message = phase.route(start, scribe.groups[group].key, "MULTICAST")
    if message.status != DELIVERED or (group, message.at) not in scribe.copies:
        return None, message.path
    become_root(scribe, group, message.at)
    if message.at != source and scribe.settings.source != "routed":
        scribe.overlay.send("address", message.at, source)
    return message.at, message.path


# ---- what sources keep


def keep(scribe: Scribe, sent: list[Sent]) -> None:
    """What no root takes in this round is kept; up to its deadline, when it is given up."""
    if not scribe.application.acknowledged:
        return
    replicate_changed(scribe)  # roots that are new know only then who of their leaves answers
    for one in sent:
        at, group, _ = one.publication
        if one.fate == "sent" and not has_replica(scribe, group, one.root):
            one.fate = "no root"
        if one.fate == "no root" and at + scribe.settings.deadline > scribe.round:
            one.fate = "kept"
    scribe.kept = {one.publication for one in sent if one.fate == "kept"}


def acknowledge(scribe: Scribe, sent: list[Sent]) -> None:
    """Roots answer what they have taken, once the replicas have it, and what they refuse."""
    if not scribe.application.acknowledged:
        return
    for one in sent:
        *_, source = one.publication
        if one.fate in ("sent", "refused") and one.root != source:
            scribe.overlay.send("acknowledgement", one.root, source)


# --- dissemination --------------------------------------------------------------------------------


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
    if any(one[2] != sender for one in message.publications[:1]) and sender in scribe.withholds:
        return False
    if kind == "payload":
        if scribe.is_lost is None:  # a copy that may be lost is no heartbeat
            scribe.paid.add((group, sender, node))
        scribe.carried += [(one, sender, node) for one in message.publications]
    times = max(1, len(message.publications))
    first = message.publications[:1] if scribe.is_lost is not None else ()
    lost = any(scribe.is_lost(one, sender, node) for one in first)
    return all([scribe.overlay.send(kind, sender, node, lost) for _ in range(times)])


def accepts(scribe: Scribe, group: int, sender: int, node: int) -> bool:
    """A payload from anyone but the current parent is refused; a root takes its own only."""
    entry = scribe.entry(group, node)
    return entry is not None and (
        entry.parent == sender or (sender == node and is_root(scribe, group, node))
    )


def settle(scribe: Scribe) -> None:
    """joinHandler for all children added; what it sends, until nothing is under way."""
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
