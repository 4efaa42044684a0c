"""Sources: they route to the root once, and keep its address (JSAC III.A.3, NGC 3.1).

For an application that acknowledges, they keep their publications, too, until the root has
answered (rule S24).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .phase import DELIVERED, Phase
from .roots import become_root, has_replica, is_root, replicate_changed
from .state import Scribe
from .upcalls import Publication


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
    """What no root takes in this round is kept; up to its deadline, when it is given up.

    A root takes a publication only if one of its replicas is there to take it, too.
    """
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
