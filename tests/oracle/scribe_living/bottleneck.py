"""The bottleneck remover in a round of a world (JSAC IV.E; rules S28 and S29)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..living.draws import Draw
from ..living.overlay import Delay
from ..living.routing import drawn_candidates
from .joining import JoinPhase, Routed, common_extra
from .phase import DELIVERED, ON_ITS_WAY, Message, Phase
from .roots import become_root
from .state import Join, Scribe
from .upkeep import lose_parent

#: Randomised routes of a JOIN, before it goes to the end of the path that its source knew.
ATTEMPTS = 8

#: So often a node drops a child in a round; if it comes back then, it stays.
MOST_DROPS = 8

SHED_GROUP = ("largest", "random")
SHED_CHILD = ("farthest", "nearest", "random")
SHED_TABLE = ("remaining", "whole")

#: A node's children by group.
Tables = dict[int, set[int]]


@dataclass(frozen=True)
class Drop:
    """``parent`` drops ``child`` and sends it ``table``: the siblings that it may join."""

    group: int
    parent: int
    child: int
    table: frozenset[int]


def remove_bottlenecks(
    scribe: Scribe, phase: Phase, begin: Callable[[Scribe, Phase], Removal] | None = None
) -> None:
    """Overloaded nodes drop children, all at once, until none can drop any more."""
    before: Counter[tuple[int, int, int]] = Counter()  # group, parent, child: drops of this round
    while drops := dropped(scribe, before):
        before.update((drop.group, drop.parent, drop.child) for drop in drops)
        removal = (begin or Removal)(scribe, phase)
        removal.tell(drops)
        removal.deliver_all()
        for attempt in range(ATTEMPTS):
            removal.rejoin(attempt)
        removal.join_tops()


@dataclass(frozen=True)
class Dropped:
    """What a dropped child remembers until it has a parent.

    `parent` has dropped it, as number `turn`; `to` is the sibling that it sends its JOIN to, `top`
    the end of the path to the root that it knew, if that is another node.
    """

    join: Join
    parent: int
    turn: int
    to: int
    top: int | None


@dataclass(frozen=True)
class Direct:
    """A JOIN on its way to a node, not routed; of a dropped child to a sibling: by whom, when."""

    join: Join
    to: int
    parent: int | None = None
    turn: int = -1


@dataclass(frozen=True)
class Way:
    """A node hears that a JOIN that it has passed on was accepted, and which node is above it."""

    join: Join
    node: int
    above: int


class Removal:
    """Children that were dropped together, and the messages that follow."""

    def __init__(self, scribe: Scribe, phase: Phase) -> None:
        self.scribe = scribe
        self.joins = JoinPhase(scribe, phase)
        self.dropped: dict[tuple[int, int], Dropped] = {}  # (group, child)
        self.direct: list[Direct] = []
        self.ways: list[Way] = []
        self.refused: list[tuple[int, int]] = []  # (group, source)

    def tell(self, drops: list[Drop]) -> None:
        """Children hear that they are dropped, measure, and send JOINs to siblings."""
        scribe, told = self.scribe, []
        for turn, drop in enumerate(drops):
            top = self.top(drop.group, drop.child)
            if (to := tell(scribe, drop)) is not None:
                told.append((turn, drop, to, top))
        for turn, drop, to, top in told:
            join = self.joins.make(drop.group, drop.child)
            self.dropped[drop.group, drop.child] = Dropped(join, drop.parent, turn, to, top)
            self.send(Direct(join, to, drop.parent, turn))

    def top(self, group: int, node: int) -> int | None:
        """The end of the path that a node knows, if it is another node."""
        entry = self.scribe.entry(group, node)
        path = entry.path if entry is not None else ()
        return path[-1] if path and path[-1] != node else None

    def send(self, direct: Direct) -> None:
        """A JOIN goes to a node; lost if that is dead."""
        if self.scribe.overlay.send("JOIN", direct.join.source, direct.to):
            self.direct.append(direct)

    def deliver_all(self) -> None:
        """Supersteps, until no message is under way."""
        while self.joins.busy or self.direct or self.ways:
            direct, ways = self.direct, self.ways
            self.direct, self.ways = [], []
            self.joins.superstep()
            arrived: dict[tuple[int, int], list[Direct]] = defaultdict(list)
            for one in direct:
                arrived[one.join.group, one.to].append(one)
            for (group, node), some in sorted(arrived.items()):
                self.receive(group, node, some)
            self.make_forwarders(ways)

    def receive(self, group: int, node: int, directs: list[Direct]) -> None:
        """A node refuses JOINs of those on its path, as it knows it, and takes the others in."""
        path, accepted = self.known_path(group, node), []
        for one in directs:
            if one.join.source in path or self.crosses(group, node, one):
                self.refused.append((group, one.join.source))
            else:
                message = Message(self.scribe.groups[group].key, [one.join.source, node])
                accepted.append(Routed(one.join, message, repairs=False))
        if accepted:
            self.joins.receive(group, node, accepted)

    def known_path(self, group: int, node: int) -> Collection[int]:
        """The node and whom it knows above itself."""
        return self.scribe.known_path(group, node)

    def crosses(self, group: int, node: int, one: Direct) -> bool:
        """Whether the node has sent its own JOIN to the source, and was dropped before it."""
        mine = self.dropped.get((group, node))
        if mine is None or mine.parent != one.parent:
            return False
        return mine.to == one.join.source and mine.turn < one.turn

    def rejoin(self, attempt: int) -> None:
        """Children whose JOINs were refused route them with randomisation, all at once."""
        refused, self.refused = self.refused_children(), []
        ended = [(one, self.route(one.join, attempt)) for one in refused]
        taken = [(one.join, path) for one, path in ended if path and self.takes(one.join, path)]
        for join, path in taken:
            if path == [join.source] or self.scribe.entry(join.group, path[-1]) is None:
                become_root(self.scribe, join.group, path[-1])
            self.ways += [Way(join, *pair) for pair in itertools.pairwise(path)]
        self.deliver_all()

    def refused_children(self) -> list[Dropped]:
        """Those of the refused that were dropped; new forwarders wait."""
        return [self.dropped[one] for one in sorted(set(self.refused)) if one in self.dropped]

    def route(self, join: Join, attempt: int) -> list[int]:
        """The nodes that a JOIN is at, up to the first of the tree; none if it gets no answer."""
        scribe, group, source = self.scribe, join.group, join.source
        message = Message(scribe.groups[group].key, [source])
        number, status = scribe.round * ATTEMPTS + attempt, ON_ITS_WAY
        while status == ON_ITS_WAY:
            at = message.at
            if at != source and scribe.entry(group, at) is not None:
                return message.path
            by = ("randomised hop", group, source, number, at)
            order = drawn_candidates(
                scribe.overlay,
                scribe.overlay.states[at],
                message.key,
                lambda node, by=by: scribe.overlay.draw(*by, node),
            )
            status = self.joins.phase.hop(message, "JOIN", order)
        if status == DELIVERED and (group, message.at) not in scribe.copies:
            scribe.refused["no group"] += 1
            return []
        return message.path if status == DELIVERED else []

    def takes(self, join: Join, path: list[int]) -> bool:
        """Whether a JOIN is accepted: it goes up the tree, from parent to parent."""
        scribe, group, source, way = self.scribe, join.group, join.source, [path[-1]]
        while way[-1] != source and (entry := scribe.entry(group, way[-1])) is not None:
            if entry.parent is None:
                accepted = entry.root or way[-1] < source
            elif entry.parent in way:
                accepted = False
            elif scribe.overlay.send("JOIN", way[-1], entry.parent):
                way.append(entry.parent)
                continue
            else:
                accepted = True
            break
        else:  # a root from now on, or a node that is not in the tree any more
            accepted = way[-1] != source or path == [source]
        if not accepted:
            self.refused.append((group, source))
        return accepted

    def make_forwarders(self, ways: list[Way]) -> None:
        """Nodes on the ways of accepted JOINs enter the tree, and send JOINs upwards."""
        scribe, arrived = self.scribe, defaultdict(list)
        for way in ways:
            if way.node == way.join.source:
                self.send(Direct(way.join, way.above))
            else:
                arrived[way.join.group, way.node].append(way)
        for (group, node), some in sorted(arrived.items()):
            if scribe.entry(group, node) is not None:
                continue  # a JOIN was delivered there, and made it the root
            extra = common_extra(scribe.application, [way.join for way in some])
            own = Join(group, node, scribe.round, "forwarder", extra)
            scribe.enter(group, node, "forwarder")
            self.joins.note(own)
            self.send(Direct(own, min(some, key=lambda way: way.join.source).above))

    def join_tops(self) -> None:
        """The last time JOINs go to the ends of the paths that their sources knew."""
        refused, self.refused = self.refused_children(), []
        for one in refused:
            if one.top is not None:
                self.send(Direct(one.join, one.top))
        self.deliver_all()


def drops_of(
    node: int,
    tables: Tables,
    limit: int,
    delay: Delay,
    shed_group: str,
    shed_child: str,
    shed_table: str,
    draw: Draw,
    stays: Collection[tuple[int, int]] = (),
) -> list[Drop]:
    """Return what a node drops in a round, in order, given its tables (group -> children).

    As long as it has more children than ``limit`` and a table with at least two left, it takes of
    these tables the largest (by children left; the smallest group of several) or the one whose next
    child to be dropped has the least draw; and of the children left in it the farthest, the
    nearest, or the one with the least draw (the smallest node of several). Children that join it in
    this round do not count, and those in ``stays``, (group, child), are not dropped (rule S28).

    The child is sent the children left in the table without it ("remaining": some of them may be
    dropped after it), or all that were there when the round began, without it ("whole").
    """

    def free(group: int) -> set[int]:
        return {child for child in left[group] if (group, child) not in stays}

    left = {group: set(children) for group, children in tables.items()}

    def group_rank(group: int) -> tuple[int, int]:
        if shed_group == "largest":
            return (-len(left[group]), group)
        child = min(child_rank(group, child) for child in free(group))[1]
        return (draw("shed", group, node, child), group)

    def child_rank(group: int, child: int) -> tuple[int, int]:
        if shed_child == "random":
            return (draw("shed", group, node, child), child)
        sign = -1 if shed_child == "farthest" else 1
        return (sign * delay(child, node), child)

    drops = []
    while load(left) > limit:
        droppable = [group for group in left if len(left[group]) >= 2 and free(group)]
        if not droppable:
            break
        _, group = min(group_rank(group) for group in droppable)
        _, child = min(child_rank(group, child) for child in free(group))
        left[group].remove(child)
        table = left[group] if shed_table == "remaining" else tables[group] - {child}
        drops.append(Drop(group, node, child, frozenset(table)))
    return drops


def load(tables: Tables) -> int:
    """Return a node's number of children over all groups."""
    return sum(len(children) for children in tables.values())


def limits_exceeded(scribe: Scribe) -> dict[int, dict[int, set[int]]]:
    """Node -> group -> children, of the nodes with more children than the limit."""
    settings = scribe.settings
    if settings.limit is None or not (settings.remover or settings.lazy):
        return {}
    tables: dict[int, dict[int, set[int]]] = defaultdict(dict)
    for group, node, entry in scribe.all_entries():
        if entry.children:
            tables[node][group] = set(entry.children)
    return {node: of for node, of in tables.items() if load(of) > settings.limit_of(node)}


def overloaded(scribe: Scribe) -> list[int]:
    """The nodes with more children than the limit."""
    return sorted(limits_exceeded(scribe))


def dropped(scribe: Scribe, before: Counter[tuple[int, int, int]]) -> list[Drop]:
    """What all overloaded nodes drop; the entries are gone."""
    drops: list[Drop] = []
    often = [drop for drop, times in before.items() if times == MOST_DROPS]
    for node, tables in sorted(limits_exceeded(scribe).items()):
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
