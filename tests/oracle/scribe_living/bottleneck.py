"""The bottleneck remover in a round of a world (JSAC IV.E; rules S28 and S29)."""

from __future__ import annotations

from collections import defaultdict

from ..bottleneck import Drop, drops_of, load
from .joining import JoinPhase, Routed
from .leaving import lose_parent
from .phase import Message, Phase
from .state import Scribe
from .upcalls import Join


def remove_bottlenecks(scribe: Scribe, phase: Phase) -> None:
    """Overloaded nodes drop children, all at once, until none can drop any more."""
    before: set[tuple[int, int, int]] = set()  # group, parent, child: dropped in this round
    while drops := dropped(scribe, before):
        before |= {(drop.group, drop.parent, drop.child) for drop in drops}
        joins = JoinPhase(scribe, phase)
        # 1. the children are told, measure and choose
        sent = [(drop, to) for drop in drops if (to := tell(scribe, drop)) is not None]
        made = [join_of(scribe, joins, drop) for drop, _ in sent]
        # 2. they send JOINs, answered in the order in which a table's children were dropped
        above: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        arriving, refused = [], []
        for (drop, to), join in zip(sent, made, strict=True):
            assert scribe.overlay.send("JOIN", drop.child, to)
            message = Message(scribe.groups[drop.group].key, [drop.child, to])
            parents = above[drop.group, drop.parent]
            if is_above(parents, drop.child, to):
                refused.append(Routed(join, message, repairs=False))
            else:
                parents[drop.child] = to
                arriving.append(Routed(join, message, repairs=False))
        for routed in refused:
            joins.onward(routed)
        joins.moving += arriving
        while joins.moving:
            joins.superstep()


def limits_exceeded(scribe: Scribe) -> dict[int, dict[int, set[int]]]:
    """Node -> group -> children, of the nodes with more children than the limit."""
    if scribe.settings.limit is None:
        return {}
    tables: dict[int, dict[int, set[int]]] = defaultdict(dict)
    for group, node, entry in scribe.all_entries():
        if entry.children:
            tables[node][group] = set(entry.children)
    return {node: of for node, of in tables.items() if load(of) > scribe.settings.limit_of(node)}


def overloaded(scribe: Scribe) -> list[int]:
    """The nodes with more children than the limit."""
    return sorted(limits_exceeded(scribe))


def dropped(scribe: Scribe, before: set[tuple[int, int, int]]) -> list[Drop]:
    """What all overloaded nodes drop; the entries are gone."""
    drops: list[Drop] = []
    for node, tables in sorted(limits_exceeded(scribe).items()):
        stays = {(group, child) for group, parent, child in before if parent == node}
        drops += drops_of(
            *(node, tables, scribe.settings.limit_of(node), scribe.overlay.delay),
            *scribe.settings.shed,
            *(scribe.overlay.draw, stays),
        )
    for drop in drops:
        del scribe.entries[drop.group][drop.parent].children[drop.child]
    return drops


def tell(scribe: Scribe, drop: Drop) -> int | None:
    """The child hears that it is dropped; to whom it sends a JOIN, if any sibling answers."""
    if not scribe.overlay.send("shed", drop.parent, drop.child):
        return None
    entry = scribe.entry(drop.group, drop.child)
    if entry is None or entry.parent != drop.parent:
        return None
    lose_parent(scribe, drop.group, drop.child, drop.parent, "shed")
    there = [s for s in drop.table if scribe.overlay.send("delay probe", drop.child, s)]
    delay = scribe.overlay.delay
    return min(there, key=lambda s: (delay(drop.child, s) + delay(s, drop.parent), s), default=None)


def join_of(scribe: Scribe, joins: JoinPhase, drop: Drop) -> Join:
    """The child's JOIN; who has sent one before lets faultHandler add to it."""
    join = Join(drop.group, drop.child, scribe.round, "shed")
    if scribe.entries[drop.group][drop.child].tried:
        here = scribe.local(drop.group, drop.child)
        extra = scribe.application.fault_handler(here, join)
        join = Join(drop.group, drop.child, scribe.round, "shed", extra)
    joins.note(join)
    return join


def is_above(parents: dict[int, int], node: int, at: int) -> bool:
    """Whether a node is `at`, its parent, and so on."""
    while at != node and at in parents:
        at = parents[at]
    return at == node
