"""Lazy growth in a round of a world (JSAC IV.F; rule S32)."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from .figures import forward, take_answers
from .joining import JoinPhase, common_extra
from .phase import DELIVERED, ON_ITS_WAY, Message, Phase
from .roots import become_root
from .state import Join, Scribe


@dataclass(frozen=True)
class Asking:
    """A JOIN at p, the first tree node on the way or where Pastry delivers, which is to answer it.

    The node q before p may take the source in; q is the source itself if nobody else may.
    """

    join: Join
    p: int
    q: int
    repairs: bool


def send_lazily(scribe: Scribe, phase: Phase) -> None:
    """Waiting nodes send JOINs in waves; who has a parent when its wave comes sends none."""
    joins = JoinPhase(scribe, phase)
    for wave in waves(scribe):
        waiting = [(group, node) for group, node in wave if scribe.entries[group][node].waits]
        sent = [joins.make(group, node) for group, node in waiting]
        # 1. JOINs go on to the tree, as the waves before have left it
        asking = [one for join in sent if (one := search(scribe, phase, join)) is not None]
        load = Counter[int]()
        for _, node, entry in scribe.all_entries():
            load[node] += len(entry.children)
        # 2. nodes with the group's state that the JOINs are delivered at are roots from now on
        for one in sorted(asking, key=lambda one: (one.join.group, one.p)):
            if not in_tree(scribe, one.join.group, one.p):
                become_root(scribe, one.join.group, one.p)
        asking = [one for one in asking if one.p != one.join.source]
        # 3. all are answered
        sources = {(join.group, join.source) for join in sent}
        answer(scribe, joins, asking, sources, load)


def waves(scribe: Scribe) -> list[list[tuple[int, int]]]:
    """(group, node) of each wave: of a group one, then two, then four, in the order of a draw.

    New members that wait for nobody have their places in the order, too, as in a run.
    """
    now = scribe.round
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for group in sorted(scribe.entries):
        waiting = [
            node
            for node, entry in scribe.entries[group].items()
            if entry.waits or (entry.member and entry.joined == now)
        ]
        draw = scribe.overlay.draw
        waiting.sort(key=lambda node, group=group: (draw("arrival", group, node), node))
        for place, node in enumerate(waiting, start=1):
            found[place.bit_length() - 1].append((group, node))
    return [sorted(found[number]) for number in sorted(found)]


def in_tree(scribe: Scribe, group: int, node: int) -> bool:
    """Whether a node is in the tree, and does not wait."""
    entry = scribe.entry(group, node)
    return entry is not None and not entry.waits


def search(scribe: Scribe, phase: Phase, join: Join) -> Asking | None:
    """A JOIN goes on to the first node of the tree without its source on the path to the root."""
    group, source = join.group, join.source
    message = Message(scribe.groups[group].key, [source])
    repairs, passed = join.cause in ("parent failed", "root failed"), False
    if repairs:
        scribe.repairing.add(source)
    while (status := phase.hop(message, "JOIN")) == ON_ITS_WAY:
        at = message.at
        if repairs:
            scribe.repairing.add(at)
        if in_tree(scribe, group, at):
            if source not in scribe.known_path(group, at):
                return Asking(join, at, source if passed else message.path[-2], repairs)
            passed = True
    if status != DELIVERED or in_tree(scribe, group, message.at):
        return None  # lost: it waits
    if (group, message.at) not in scribe.copies:
        scribe.refused["no group"] += 1
        return None
    before = source if passed or len(message.path) == 1 else message.path[-2]
    return Asking(join, message.at, before, repairs)


def answer(
    scribe: Scribe,
    joins: JoinPhase,
    asking: list[Asking],
    sources: set[tuple[int, int]],
    load: Counter[int],
) -> None:
    """Nodes of the tree take as many as there is room for, and those before them the others.

    `sources` are all that have sent a JOIN in this wave.
    """
    room = {one.p: scribe.settings.limit_of(one.p) - load[one.p] for one in asking}
    paths = {(one.join.group, one.p): scribe.known_path(one.join.group, one.p) for one in asking}
    adopted: dict[tuple[int, int], list[Asking]] = defaultdict(list)
    for one in sorted(asking, key=lambda one: (one.join.group, one.join.source)):
        group, q = one.join.group, one.q
        room[one.p] -= 1
        if room[one.p] >= 0 or q == one.join.source or q in paths[group, one.p]:
            forward(scribe, one.p, [one.join], lambda: None)
        else:
            adopted[group, q].append(one)
    take_answers(scribe)
    for (group, q), some in sorted(adopted.items()):
        received, p = [one.join for one in some], min(one.p for one in some)
        entry = scribe.entry(group, q)
        if entry is None:
            own = Join(
                *(group, q, scribe.round, "forwarder"), common_extra(scribe.application, received)
            )
            forward(scribe, q, received, lambda own=own: joins.note(own))
        else:
            forward(scribe, q, received, lambda: None)
            if (group, q) in sources or not entry.waits:
                continue  # it has sent a JOIN in this wave
            own = joins.make(group, q)
        if any(one.repairs for one in some):
            scribe.repairing |= {q, p}
        assert scribe.overlay.send("JOIN", q, p)
        forward(scribe, p, [own], lambda: None)
    take_answers(scribe)
