"""Sources: they route to the root once, and keep its address (JSAC III.A.3, NGC 3.1)."""

from __future__ import annotations

from collections.abc import Iterable

from .phase import DELIVERED, Phase
from .roots import become_root, is_root
from .state import Scribe
from .upcalls import Publication

#: (group, root) -> the publications that it has accepted, by nodeId of the source.
Accepted = dict[tuple[int, int], list[Publication]]


def find_roots(
    scribe: Scribe, phase: Phase, published: Iterable[tuple[int, int]]
) -> tuple[Accepted, list[tuple[Publication, str]]]:
    """MULTICASTs (group, source) go to the roots; what was accepted, and what became of each.

    First all go to the addresses that their sources keep; then all that are not at a root yet are
    routed, from the source where the address did not answer, else from the node that was no root.
    """
    accepted: Accepted = {}
    fates = []
    by_source = sorted(published, key=lambda pair: (pair[0], scribe.overlay.idents[pair[1]]))
    reached = []
    for group, source in by_source:
        at = send_to_address(scribe, group, source)
        reached.append((group, source, at, is_root(scribe, group, at)))
    for group, source, at, arrived in reached:
        publication = (scribe.round, group, source)
        root = at if arrived else route_to_root(scribe, phase, group, source, at)
        if root is None:
            scribe.addresses.pop((group, source), None)
            fates.append((publication, "no root"))
        elif not scribe.copies[group, root].state.access.allows("multicast", source):
            scribe.refused["MULTICAST"] += 1
            fates.append((publication, "refused"))
        else:
            scribe.addresses[group, source] = root
            accepted.setdefault((group, root), []).append(publication)
            fates.append((publication, "sent"))
    return accepted, fates


def send_to_address(scribe: Scribe, group: int, source: int) -> int:
    """The node that has the message after the address was tried: the source if it is dead."""
    if is_root(scribe, group, source):
        return source
    address = scribe.addresses.get((group, source), source)
    if address != source and scribe.overlay.send("MULTICAST", source, address):
        return address
    return source


def route_to_root(scribe: Scribe, phase: Phase, group: int, source: int, start: int) -> int | None:
    """Route to the groupId; the root tells the source its address."""
    message = phase.route(start, scribe.groups[group].key, "MULTICAST")
    if message.status != DELIVERED or (group, message.at) not in scribe.copies:
        return None
    become_root(scribe, group, message.at)
    if message.at != source:
        scribe.overlay.send("address", message.at, source)
    return message.at
