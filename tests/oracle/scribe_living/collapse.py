"""Collapse in a round of a world (JSAC IV.F; rule S30)."""

from .joining import JoinPhase, Routed
from .phase import Message, Phase
from .state import Scribe
from .upkeep import lose_parent


def collapse(scribe: Scribe, phase: Phase) -> None:
    """Nodes that pass messages on to one child leave, from above downwards, until none may."""
    if not scribe.settings.collapse:
        return
    asked: set[tuple[int, int, int]] = set()
    while True:
        would = candidates(scribe)
        going = []
        for group, node in sorted(would):
            parent = scribe.entries[group][node].parent
            if (group, node, parent) in asked:
                continue
            asked.add((group, node, parent))
            if not scribe.overlay.send("collapse", node, parent):
                continue
            above = scribe.entry(group, parent)
            if above is not None and node in above.children and (group, parent) not in would:
                going.append((group, node))
        if not going:
            return
        joins = JoinPhase(scribe, phase)
        told = [one for group, node in going if (one := leave(scribe, group, node)) is not None]
        made = [(joins.make(group, child), to) for group, child, to in told]
        for join, to in made:
            assert scribe.overlay.send("JOIN", join.source, to)
            message = Message(scribe.groups[join.group].key, [join.source, to])
            joins.moving.append(Routed(join, message, repairs=False))
        while joins.busy:
            joins.superstep()


def candidates(scribe: Scribe) -> set[tuple[int, int]]:
    """(group, node): neither member nor root, with a parent and one child, not the same."""
    return {
        (group, node)
        for group, node, entry in scribe.all_entries()
        if len(entry.children) == 1
        and not (entry.member or entry.root or entry.parent is None)
        and entry.parent not in entry.children
    }


def leave(scribe: Scribe, group: int, node: int) -> tuple[int, int, int] | None:
    """A node leaves; its child and whom that joins, if it hears of it."""
    entry = scribe.entries[group].pop(node)
    (child,) = entry.children
    assert entry.parent is not None
    if scribe.overlay.send("LEAVE", node, entry.parent):
        table = scribe.entries[group][entry.parent].children
        if table[node].number <= entry.number:
            del table[node]
    if not scribe.overlay.send("collapse", node, child):
        return None
    below = scribe.entry(group, child)
    if below is None or below.parent != node:
        return None
    lose_parent(scribe, group, child, node, "collapse")
    return group, child, entry.parent
