"""Soft state, suspicion and heartbeats (JSAC III.B.1)."""

from __future__ import annotations

from .figures import send_leave
from .leaving import lose_parent
from .state import Scribe


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
    """A node that heard nothing for `parent_timeout` rounds has no parent any more.

    Whether that was the root (node and round of its death are known to the measurement only) is
    the cause that is counted.
    """
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
                if child in other.path and other.path != before:
                    cycles.append((group, child, node))
    for group, node, parent in cycles:
        send_leave(scribe, group, node, parent, scribe.entries[group][node].number)
        lose_parent(scribe, group, node, parent, "cycle")
    scribe.paid = set()
