"""CREATE (JSAC III.A.1): routed to the groupId, checked and kept by the node that is the root."""

from __future__ import annotations

from collections.abc import Iterable

from .groups import GroupState
from .phase import DELIVERED, Phase
from .roots import become_root
from .state import Copy, Scribe


def create_groups(
    scribe: Scribe, phase: Phase, creates: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """All CREATEs (group, creator) of a round; those that came to something.

    Of several for one group the creator with the least nodeId is the first.
    """
    idents = scribe.overlay.idents
    made = []
    for group, creator in sorted(creates, key=lambda pair: (pair[0], idents[pair[1]])):
        message = phase.route(creator, scribe.groups[group].key, "CREATE")
        if message.status != DELIVERED:
            scribe.refused["CREATE lost"] += 1
        elif deliver_create(scribe, group, creator, message.at):
            made.append((group, creator))
    return made


def deliver_create(scribe: Scribe, group: int, creator: int, node: int) -> bool:
    """Figure 4, line 3: groups = groups + msg.group, if the credentials permit it.

    Where the group is there already nothing changes.
    """
    access = scribe.groups[group].access
    if (group, node) in scribe.copies or not access.allows("create", creator):
        scribe.refused["CREATE"] += 1
        return False
    state = GroupState(creator, scribe.round, 0, access)
    scribe.copies[group, node] = Copy(state, node, -1)  # become_root says who is the root
    become_root(scribe, group, node)
    return True
