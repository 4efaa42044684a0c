"""JOINs and CREATEs of a round, which go up hop by hop (JSAC III.A.1 and III.A.2)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .figures import deliver_join, forward, take_answers
from .phase import DELIVERED, ON_ITS_WAY, Message, Phase
from .roots import become_root
from .state import Application, Copy, GroupState, Join, Scribe


@dataclass
class Routed:
    """A JOIN and its route so far."""

    join: Join
    message: Message
    repairs: bool  # because a parent or root failed; also a forwarder's own that comes of that


class JoinPhase:
    """The JOINs that are under way."""

    def __init__(self, scribe: Scribe, phase: Phase) -> None:
        self.scribe, self.phase = scribe, phase
        self.moving: list[Routed] = []

    def start(self, group: int, node: int) -> None:
        """A waiting node sends its JOIN."""
        if self.launch(self.make(group, node)) != DELIVERED:
            return
        if (group, node) in self.scribe.copies:
            become_root(self.scribe, group, node)
        else:
            self.scribe.refused["no group"] += 1

    def launch(self, join: Join) -> str:
        """Send a JOIN from its source; the status after its first hop."""
        key = self.scribe.groups[join.group].key
        repairs = join.cause in ("parent failed", "root failed")
        if repairs:
            self.scribe.repairing.add(join.source)
        return self.onward(Routed(join, Message(key, [join.source]), repairs))

    def make(self, group: int, node: int) -> Join:
        """The JOIN of a node without a parent; faultHandler adds to all but the first one."""
        entry = self.scribe.entries[group][node]
        join = Join(group, node, self.scribe.round, entry.cause)
        if entry.tried:
            extra = self.scribe.application.fault_handler(self.scribe.local(group, node), join)
            join = replace(join, extra=extra)
        self.note(join)
        return join

    def note(self, join: Join) -> None:
        """A node remembers the JOIN that it sends."""
        entry = self.scribe.entries[join.group][join.source]
        entry.number, entry.tried, entry.extra = join.number, True, join.extra
        self.scribe.joins.append((join.group, join.source, join.cause))

    def onward(self, routed: Routed) -> str:
        """One hop; a message that ends here without an answer is forgotten."""
        status = self.phase.hop(routed.message, "JOIN")
        if status == ON_ITS_WAY:
            self.moving.append(routed)
        return status

    def superstep(self) -> None:
        """The answers of the superstep before arrive, then all JOINs under way."""
        take_answers(self.scribe)
        arrived: dict[tuple[int, int], list[Routed]] = {}
        for routed in self.moving:
            arrived.setdefault((routed.join.group, routed.message.at), []).append(routed)
            if routed.repairs:
                self.scribe.repairing.add(routed.message.at)
        self.moving = []
        for (group, node), messages in sorted(arrived.items(), key=place_of):
            self.receive(group, node, messages)

    @property
    def busy(self) -> bool:
        """Whether JOINs or answers are under way."""
        return bool(self.moving or self.scribe.answers)

    def receive(self, group: int, node: int, messages: Sequence[Routed]) -> None:
        """What a node does with the JOINs of one group that reach it together.

        JOINs of nodes on its own path, as it knows it, go on (rule S10). The rest is answered,
        except where Pastry delivers at a node that has not the group's state (rule S12).
        """
        path = self.scribe.known_path(group, node)
        for routed in messages:
            if routed.join.source in path:
                self.onward(routed)
        joins = [routed.join for routed in messages if routed.join.source not in path]
        if not joins:
            return
        if self.scribe.entry(group, node) is not None:
            forward(self.scribe, node, joins, lambda: None)
            return
        extra = common_extra(self.scribe.application, joins)
        own = Join(group, node, self.scribe.round, "forwarder", extra)
        key = self.scribe.groups[group].key
        routed = Routed(own, Message(key, [node]), any(one.repairs for one in messages))
        if self.onward(routed) != DELIVERED:
            forward(self.scribe, node, joins, lambda: self.note(own))
        elif (group, node) in self.scribe.copies:
            become_root(self.scribe, group, node)
            deliver_join(self.scribe, node, joins)
        else:
            self.scribe.refused["no group"] += len(joins)


def place_of(arrived: tuple[tuple[int, int], Sequence[Routed]]) -> tuple[int, int]:
    """Group and node of messages that arrived together."""
    return arrived[0]


def common_extra(application: Application, joins: Sequence[Join]) -> int | None:
    """What a forwarder's JOIN carries for the JOINs which made it one."""
    return application.common_extra([join.extra for join in joins if join.extra is not None])


def send_joins(scribe: Scribe, phase: Phase) -> None:
    """Every waiting node sends a JOIN, until all are answered or lost."""
    joins = JoinPhase(scribe, phase)
    waiting = [(group, node) for group, node, entry in scribe.all_entries() if entry.waits]
    for group, node in waiting:
        joins.start(group, node)
    while joins.busy:
        joins.superstep()


def refuse_unknown_members(scribe: Scribe, phase: Phase) -> None:
    """JOINs without the right credentials leave nothing behind (rule S13)."""
    for group, node in sorted(scribe.strangers):
        if knows_list(scribe, group, node):
            refused = True
        else:
            message = Message(scribe.groups[group].key, [node])
            while (status := phase.hop(message, "JOIN")) == ON_ITS_WAY:
                if knows_list(scribe, group, message.at):
                    break
            refused = knows_list(scribe, group, message.at) and status != "undeliverable"
        if refused:
            scribe.refused["JOIN"] += 1
            scribe.strangers.discard((group, node))


def knows_list(scribe: Scribe, group: int, node: int) -> bool:
    """Whether a node can check credentials: it is in the tree, or has the group's state."""
    return scribe.entry(group, node) is not None or (group, node) in scribe.copies


# --- CREATE ---------------------------------------------------------------------------------------


def create_groups(
    scribe: Scribe, phase: Phase, creates: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """All CREATEs (group, creator) of a round; those that came to something."""
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
    """Figure 4, line 3: groups = groups + msg.group, if the credentials permit it."""
    access = scribe.groups[group].access
    if (group, node) in scribe.copies or not access.allows("create", creator):
        scribe.refused["CREATE"] += 1
        return False
    state = GroupState(creator, scribe.round, 0, access)
    scribe.copies[group, node] = Copy(state, node, -1)  # become_root says who is the root
    become_root(scribe, group, node)
    return True
