"""The bottleneck remover in a round of a world (JSAC IV.E; rules S28 and S29)."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..bottleneck import Drop, drops_of, load
from ..living.routing import drawn_candidates
from .figures import deliver_join, forward, take_answers
from .joining import JoinPhase, Routed, common_extra
from .leaving import lose_parent
from .phase import ON_ITS_WAY, UNDELIVERABLE, Message, Phase
from .roots import become_root
from .state import Scribe
from .upcalls import Join

#: Randomised routes of a JOIN, before it goes to the top of the tree.
ATTEMPTS = 8

#: So often a node drops a child in a round; if it comes back then, it stays.
MOST_DROPS = 8


def remove_bottlenecks(scribe: Scribe, phase: Phase) -> None:
    """Overloaded nodes drop children, all at once, until none can drop any more."""
    before: Counter[tuple[int, int, int]] = Counter()  # group, parent, child: drops of this round
    while drops := dropped(scribe, before):
        before.update((drop.group, drop.parent, drop.child) for drop in drops)
        joins = JoinPhase(scribe, phase, sees_all=True)
        # 1. the children are told, measure and choose; they know the path that they had
        tops = {(drop.group, drop.parent): top(scribe, drop.group, drop.parent) for drop in drops}
        sent = [(drop, to) for drop in drops if (to := tell(scribe, drop)) is not None]
        made = [join_of(scribe, joins, drop) for drop, _ in sent]
        # 2. they send JOINs, answered in the order in which a table's children were dropped
        above: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        refused: list[tuple[Join, int | None]] = []  # and the top of the tree
        for (drop, to), join in zip(sent, made, strict=True):
            assert scribe.overlay.send("JOIN", drop.child, to)
            message = Message(scribe.groups[drop.group].key, [drop.child, to])
            parents = above[drop.group, drop.parent]
            there = scribe.entry(drop.group, to) is not None
            on_path = there and drop.child in scribe.chain(drop.group, to)
            if on_path or is_above(parents, drop.child, to):
                refused.append((join, tops[drop.group, drop.parent]))
            else:
                parents[drop.child] = to
                joins.moving.append(Routed(join, message, repairs=False))
        while joins.busy:
            joins.superstep()
        rejoin(scribe, joins, refused)


def top(scribe: Scribe, group: int, node: int) -> int | None:
    """The end of a node's path to the root; None if the path is a cycle."""
    chain = scribe.chain(group, node)
    return None if scribe.entries[group][chain[-1]].parent in chain else chain[-1]


def rejoin(scribe: Scribe, joins: JoinPhase, refused: list[tuple[Join, int | None]]) -> None:
    """Children whose JOIN was refused route it with randomisation, attempt by attempt."""
    refused = sorted(refused, key=lambda one: (one[0].group, one[0].source))
    for attempt in range(ATTEMPTS):
        refused = [one for one in refused if not rejoins(scribe, joins, one[0], attempt)]
    for join, to in refused:
        if to is None or scribe.entry(join.group, to) is None or to == join.source:
            continue  # it waits
        if join.source not in scribe.chain(join.group, to):
            assert scribe.overlay.send("JOIN", join.source, to)
            deliver_join(scribe, to, [join])
            take_answers(scribe)


def rejoins(scribe: Scribe, joins: JoinPhase, join: Join, attempt: int) -> bool:
    """A JOIN takes a randomised route; False if the first node of the tree on it refuses it."""
    overlay, group, child = scribe.overlay, join.group, join.source
    number = scribe.round * ATTEMPTS + attempt
    message = Message(scribe.groups[group].key, [child])
    status = ON_ITS_WAY
    while status == ON_ITS_WAY and (len(message.path) == 1 or not scribe.entry(group, message.at)):
        at = message.at
        order = drawn_candidates(
            overlay,
            overlay.states[at],
            message.key,
            lambda node, at=at: overlay.draw("randomised hop", group, child, number, at, node),
        )
        status = joins.phase.hop(message, "JOIN", order)
    at, knows = message.at, (group, message.at) in scribe.copies
    if status == UNDELIVERABLE:
        return True  # the child waits
    if (at == child or scribe.entry(group, at) is None) and not knows:
        scribe.refused["no group"] += 1
        return True
    if at == child:
        become_root(scribe, group, child)
        return True
    if scribe.entry(group, at) is not None and child in scribe.chain(group, at):
        return False
    below = join
    for node in message.path[1:-1]:
        own = Join(
            group, node, scribe.round, "forwarder", common_extra(scribe.application, [below])
        )
        forward(scribe, node, [below], lambda own=own: joins.note(own))
        below = own
    if scribe.entry(group, at) is None:
        become_root(scribe, group, at)
    deliver_join(scribe, at, [below])
    take_answers(scribe)
    return True


def limits_exceeded(scribe: Scribe) -> dict[int, dict[int, set[int]]]:
    """Node -> group -> children, of the nodes with more children than the limit."""
    if scribe.settings.limit is None or not scribe.settings.remover:
        return {}
    tables: dict[int, dict[int, set[int]]] = defaultdict(dict)
    for group, node, entry in scribe.all_entries():
        if entry.children:
            tables[node][group] = set(entry.children)
    return {node: of for node, of in tables.items() if load(of) > scribe.settings.limit_of(node)}


def overloaded(scribe: Scribe) -> list[int]:
    """The nodes with more children than the limit."""
    return sorted(limits_exceeded(scribe))


def dropped(scribe: Scribe, before: Counter[tuple[int, int, int]]) -> list[Drop]:
    """What all overloaded nodes drop; the entries are gone."""
    drops: list[Drop] = []
    for node, tables in sorted(limits_exceeded(scribe).items()):
        often = [drop for drop, times in before.items() if times == MOST_DROPS]
        stays = {(group, child) for group, parent, child in often if parent == node}
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
