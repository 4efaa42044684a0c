"""Members that quit, LEAVE going up, and nodes that leave Pastry or fail."""

from __future__ import annotations

from collections.abc import Iterable

from .figures import deliver_leave
from .groups import GroupState
from .roots import receive_state
from .state import Copy, Entry, Scribe

#: What a node that goes had in a group: group, node, entry.
Goodbye = tuple[int, int, Entry]


def leave_up(scribe: Scribe) -> None:
    """LEAVE (Figure 4, lines 10 and 11), corrected, hop by hop until nobody leaves any more.

    A node leaves when it is not a member, not the root, and has no child.
    """
    while True:
        going = [
            (group, node, entry) for group, node, entry in scribe.all_entries() if not entry.needed
        ]
        if not going:
            return
        for group, node, _ in going:
            del scribe.entries[group][node]
        for group, node, entry in going:
            if entry.parent is not None and scribe.overlay.send("LEAVE", node, entry.parent):
                deliver_leave(scribe, group, entry.parent, node, entry.number)


def take_away(scribe: Scribe, nodes: Iterable[int]) -> tuple[list[Goodbye], dict]:
    """Nodes die: what they knew is forgotten; their entries, and their copies as roots."""
    gone = set(nodes)
    entries = [(group, node, entry) for group, node, entry in scribe.all_entries() if node in gone]
    copies = {
        (group, node): scribe.copies[group, node] for group, node, entry in entries if entry.root
    }
    for node in gone:
        scribe.forget(node)
    return entries, copies


def say_goodbye(
    scribe: Scribe, entries: Iterable[Goodbye], copies: dict[tuple[int, int], Copy]
) -> None:
    """Departing nodes tell their parents and children, and hand on what they had as roots.

    The nodes are dead already: what they send to each other is lost.
    """
    entries = list(entries)
    departing = {(group, node) for group, node, _ in entries}
    for group, node, entry in entries:
        if entry.parent is not None and scribe.overlay.send("LEAVE", node, entry.parent):
            deliver_leave(scribe, group, entry.parent, node, entry.number)
        for child in sorted(entry.children):
            if scribe.overlay.send("tree goodbye", node, child):
                lose_parent(scribe, group, child, node, "parent left")
    for group, node in sorted(copies, key=lambda one: (one[0], scribe.nearness(*one))):
        if (group, node) in departing:
            hand_on(scribe, group, node, copies[group, node].state)


def lose_parent(scribe: Scribe, group: int, node: int, parent: int, cause: str) -> None:
    """If that is its parent, the node has none from now on, and will send a JOIN."""
    entry = scribe.entry(group, node)
    if entry is not None and entry.parent == parent:
        entry.parent, entry.cause, entry.path = None, cause, ()


def hand_on(scribe: Scribe, group: int, node: int, state: GroupState) -> None:
    """A departing root gives the state to the nearest live node of its leaf set."""
    for leaf in scribe.leaves_by_nearness(group, node):
        if scribe.overlay.send("replica", node, leaf):
            receive_state(scribe, group, leaf, Copy(state, node, scribe.incarnation.get(node, -1)))
            return
