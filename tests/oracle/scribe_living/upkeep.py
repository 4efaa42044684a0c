"""LEAVE and goodbyes; soft state, suspicion and heartbeats (JSAC III.B.1)."""

from collections.abc import Iterable
from dataclasses import replace

from .figures import deliver_leave, send_leave
from .roots import receive_state
from .state import Copy, Entry, GroupState, Join, Scribe

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


# --- soft state, suspicion, heartbeats ------------------------------------------------------------


def refresh(scribe: Scribe) -> None:
    """Children refresh their entries every `refresh` rounds after their JOIN, all at once.

    A parent that has no such entry says so, and the child joins again.
    """
    refused = []
    for group, node, entry in scribe.all_entries():
        if entry.parent is None or (scribe.round - entry.number) % scribe.settings.refresh:
            continue
        if not scribe.overlay.send("refresh", node, entry.parent):
            continue  # only silence makes a parent suspected
        parent = scribe.entry(group, entry.parent)
        child = parent.children.get(node) if parent is not None else None
        if child is None or child.number != entry.number:
            refused.append((group, node, entry.parent))
        else:
            child.refreshed = scribe.round
    for group, node, asked in refused:
        scribe.refused["refresh"] += 1
        lose_parent(scribe, group, node, asked, "refused")


def expire(scribe: Scribe) -> None:
    """Entries that were not refreshed for `child_timeout` rounds are dropped."""
    for _, _, entry in scribe.all_entries():
        entry.children = {
            node: child
            for node, child in entry.children.items()
            if scribe.round - child.refreshed < scribe.settings.child_timeout
        }


def suspect(scribe: Scribe, roots_that_died: set[tuple[int, int, int]]) -> None:
    """A node that heard nothing for `parent_timeout` rounds has no parent any more."""
    for group, node, entry in scribe.all_entries():
        if entry.parent is None or scribe.round - entry.heard <= scribe.settings.parent_timeout:
            continue
        was_root = any(
            (group, entry.parent) == (died, dead) and at > entry.heard
            for died, dead, at in roots_that_died
        )
        lose_parent(
            scribe, group, node, entry.parent, "root failed" if was_root else "parent failed"
        )


def heartbeats(scribe: Scribe) -> None:
    """The end of a round: a heartbeat to each child that got no payload from this parent.

    Who hears of its parent, by either, knows that it is alive, and who is above it now: all at
    once.  Who finds itself on a path that is new to it leaves its parent (rule S11).
    """
    paths = {
        (group, node): scribe.known_path(group, node) for group, node, _ in scribe.all_entries()
    }
    cycles = []
    names = scribe.is_lost is not None  # where copies may be lost, what their senders have had
    had = {
        (group, node): scribe.application.last_number(scribe.local(group, node))
        for group, node, _ in (scribe.all_entries() if names else ())
    }
    for group, node, entry in scribe.all_entries():
        for child in sorted(entry.children):
            if (group, node, child) not in scribe.paid and not scribe.overlay.send(
                "heartbeat", node, child
            ):
                continue
            other = scribe.entry(group, child)
            if other is not None and other.parent == node:
                before, other.path = other.path, paths[group, node]
                other.heard = scribe.round
                if names:
                    ask_for_missing(scribe, group, child, node, had)
                if child in other.path and other.path != before:
                    cycles.append((group, child, node))
    for group, node, parent in cycles:
        send_leave(scribe, group, node, parent, scribe.entries[group][node].number)
        lose_parent(scribe, group, node, parent, "cycle")
    scribe.paid = set()


def ask_for_missing(
    scribe: Scribe, group: int, node: int, parent: int, had: dict[tuple[int, int], int | None]
) -> None:
    """A node that has had less than its parent asks it; joinHandler answers in the next round."""
    mine, theirs = had[group, node], had[group, parent]
    if theirs is None or (mine is not None and mine >= theirs):
        return
    join = Join(group, node, scribe.entries[group][node].number, "ask")
    extra = scribe.application.fault_handler(scribe.local(group, node), join)
    if extra is None:
        return
    scribe.joins.append((group, node, "ask"))
    scribe.overlay.send("JOIN", node, parent)
    scribe.added.append((parent, replace(join, extra=extra)))
