"""Bayeux alive: sessions, LEAVE, PRUNE, repair by senders (rules B11 to B20).

It stands on `tests.oracle.living` (Pastry alive), whose tables it reads and never changes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ..dissemination import Edge
from ..dissemination import spread as disseminate
from ..living.overlay import Overlay
from ..living.routing import candidates
from ..publications import PublicationResult, account
from ..ring import digits, root_of
from .session import PASTRY, SURROGATE, partition_keys

#: (round, node, kind), and the group for join, quit and publish.
Event = tuple
#: (round, group, source).
Name = tuple[int, int, int]
#: (sender, receiver, kind) -> transmissions.
Messages = Counter[tuple[int, int, str]]

GOING, COMING = ("fail", "leave"), ("arrive", "recover")


@dataclass(frozen=True)
class Entry:
    """What a node keeps of a member: the next hop; the round of its JOIN; when it was written."""

    next: int
    number: int
    written: int


@dataclass
class Member:
    """A member: the round and partition of its last JOIN, and whether no TREE has come for it."""

    number: int
    waits: bool = True
    partition: int = 0


@dataclass
class Session:
    """A partition of a group; its root is None if the partition does not exist."""

    key: int
    root: int | None = None
    lost: int | None = None  # the round in which the session was lost
    joined: bool = False  # True if its root has got a JOIN
    #: (node, member) -> entry
    lists: dict[tuple[int, int], Entry] = field(default_factory=dict)

    @property
    def stands(self) -> bool:
        """True if the partition has a root that has lived since it became the root."""
        return self.root is not None and self.lost is None


@dataclass
class Group:
    """A group: its sessions, and its members."""

    sessions: list[Session]
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def standing(self) -> dict[int, Session]:
        """The sessions that are not lost, by partition."""
        return {i: one for i, one in enumerate(self.sessions) if one.stands}

    @property
    def lead(self) -> Session:
        """The session to whose root sources send."""
        return self.sessions[min(self.standing, default=0)]


@dataclass(frozen=True)
class Settings:
    """`hops` is table or leaf_set, `root` pastry or surrogate; `recreate`, `deadline` are rounds.

    A node's LAN delays each copy by `lan_us`, in each direction, besides the overlay's delay.
    """

    hops: str = "table"
    recreate: int = 0
    deadline: int = 5
    lan_us: int = 1000
    partitions: int = 1
    root: str = PASTRY


@dataclass
class Spread:
    """How the publications of a group went in a round; all of them go the same way."""

    root: int
    #: The ways of MULTICASTs that its root accepted, from the source to the root.
    to_root: dict[int, list[int]] = field(default_factory=dict)
    #: The copies of one publication, lost ones too.
    copies: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)  # those that the network loses
    #: The way of the first copy from the root: the first by time, then of fewest hops, then of the
    #: sender with the smallest nodeId.
    ways: dict[int, list[int]] = field(default_factory=dict)
    #: The ways of TREEs that brought the publications: from the root to a sender by copies, and on.
    trees: dict[int, list[list[int]]] = field(default_factory=dict)


@dataclass
class Snapshot:
    """All groups after a round, and what happened in it."""

    round: int
    #: The first number is that of the session: k times the group's, plus the partition.
    lists: set[tuple[int, int, int, int, int, int]]
    members: set[tuple[int, int, int, bool]]
    sessions: set[tuple[int, int | None, bool]]
    #: Who has got it in this round, its source too, if the root has got it.
    had: dict[Name, set[int]]
    first_copies: Counter[Name]
    duplicates: Counter[Name]
    #: Transmissions, and those of them that were lost.
    messages: Messages
    lost: Messages


class Bayeux:
    """Bayeux on a living overlay; `step` plays a round after Pastry's."""

    def __init__(self, overlay: Overlay, keys: Mapping[int, int], settings: Settings) -> None:
        self.overlay, self.settings = overlay, settings
        self.groups = {
            number: Group([Session(one) for one in partition_keys(key, settings.partitions)])
            for number, key in sorted(keys.items())
        }
        self.born: dict[int, int] = {}  # node -> the last round in which it arrived or recovered
        self.now = 0
        self.direct = False  # True if sources know their roots
        #: (group, source of the first accepted publication, sender, receiver) -> True if the
        #: network loses the round's copies; None: it loses none.
        self.is_lost: Callable[[int, int, int, int], bool] | None = None
        self.withholds: frozenset[int] = frozenset()  # the nodes that forward nothing (N6)
        self.messages: Messages = Counter()
        self.lost: Messages = Counter()
        self.had: dict[Name, set[int]] = {}
        self.first_copies: Counter[Name] = Counter()
        self.duplicates: Counter[Name] = Counter()
        self.spreads: dict[int, Spread] = {}
        self.seen: list[Snapshot] = []

    # --- A round --------------------------------------------------------------------------------

    def step(self, now: int, events: Iterable[Event]) -> Snapshot:
        """Play a round (B11), after `living.world.step` of the same events of the overlay."""
        self.now, events = now, [event for event in events if event[0] == now]
        self.messages, self.lost = Counter(), Counter()
        self.had, self.spreads = {}, {}
        self.first_copies, self.duplicates = Counter(), Counter()
        going = {node for _, node, kind, *_ in events if kind in GOING}
        self.born |= {node: now for _, node, kind, *_ in events if kind in COMING}
        for number, group in self.groups.items():
            of_group = [(node, kind) for _, node, kind, *of in events if of == [number]]
            for node, kind in of_group:
                if kind == "join":
                    group.members[node] = Member(now)
            self.forget(group, going)  # (1)
            self.keep_sessions(group, going)  # (2)
            self.leave(group, sorted(node for node, kind in of_group if kind == "quit"))  # (3)
            self.join(group)  # (4)
            self.publish(number, group, sorted(n for n, kind in of_group if kind == "publish"))
        self.seen.append(self.look())
        return self.seen[-1]

    def forget(self, group: Group, going: set[int]) -> None:
        """(1) Membership and lists of those that die are gone (B12)."""
        for node in going:
            group.members.pop(node, None)
        for one in group.sessions:
            one.lists = {key: entry for key, entry in one.lists.items() if key[0] not in going}

    def keep_sessions(self, group: Group, going: set[int]) -> None:
        """(2) A session is lost with its root, and may be created again (B13)."""
        recreate, created = self.settings.recreate, []
        for one in group.sessions:
            if one.stands and one.root in going:
                one.lost = self.now
        for i, one in enumerate(group.sessions):
            again = recreate > 0 and one.lost is not None and one.lost + recreate == self.now
            if self.now == 0 or again:
                root = self.root_for(one.key)
                if root not in {other.root for other in group.standing.values()}:
                    one.root, one.lost, one.joined, one.lists = root, None, False, {}
                    created.append(i)
        for member in group.members.values():
            mine = group.sessions[member.partition]
            member.waits |= member.partition in created or bool(not mine.stands and group.standing)

    def root_for(self, key: int) -> int:
        """Return the live node that becomes the root of a key (B2)."""
        idents, bits = self.overlay.idents, self.overlay.rules.b
        if self.settings.root == PASTRY:
            return root_of(key, idents, self.overlay.live)
        asked = digits(key, bits)

        def differences(node: int) -> list[int]:
            return [
                (x - k) % 2**bits for x, k in zip(digits(idents[node], bits), asked, strict=True)
            ]

        return min(self.overlay.live, key=differences)

    def nearest(self, group: Group, node: int) -> int:
        """Return the partition that a node joins: that of the nearest root that lives (B4)."""

        def order(i: int) -> tuple[int, int]:
            root = group.sessions[i].root
            return (0 if root == node else self.delay(node, root)), self.overlay.idents[root]

        return min(group.standing, key=order, default=0)

    # --- Routes (B14) ---------------------------------------------------------------------------

    def transmit(self, sender: int, receiver: int, kind: str, arrives: bool) -> bool:
        """Count a transmission; tell whether it arrives."""
        self.messages[sender, receiver, kind] += 1
        if not arrives:
            self.lost[sender, receiver, kind] += 1
        return arrives

    def next_hop(self, at: int, key: int, kind: str, rule: str = PASTRY) -> int | None:
        """Return the next hop around dead nodes: the node itself delivers; None: nobody."""
        state, overlay = self.overlay.states[at], self.overlay
        for node in (
            self.by_digits(at, key) if rule == SURROGATE else candidates(overlay, state, key)
        ):
            if node == at or self.transmit(at, node, kind, node in self.overlay.live):
                return node
        return None

    def by_digits(self, at: int, key: int) -> Iterator[int]:
        """Return the next hops of surrogate routing in the order of trying (B3)."""
        state, bits = self.overlay.states[at], self.overlay.rules.b
        for row, (own, asked) in enumerate(
            zip(digits(state.ident, bits), digits(key, bits), strict=True)
        ):
            for digit in sorted(range(2**bits), key=lambda d: (d - asked) % 2**bits):
                if digit == own:
                    break
                if (entry := state.cell(row, digit)) is not None:
                    yield entry
        yield at

    def reaches_root(self, one: Session, start: int, kind: str) -> bool:
        """Route a message to the root of a session; tell whether the session has got it there."""
        return self.way_to_root(one, start, kind) is not None

    def way_to_root(
        self, one: Session, start: int, kind: str, direct: bool = False
    ) -> list[int] | None:
        """Route a message to the root of a session; return its way if the session has got it there.

        If it is sent directly, the start knows the root.
        """
        path, rule = [start], self.settings.root
        if start != one.root:
            while (
                not direct
                and (following := self.next_hop(path[-1], one.key, kind, rule)) != path[-1]
            ):
                if following is None or following in path:
                    return None
                path.append(following)
            at = path[-1]
            if at != one.root:
                self.transmit(at, one.root, kind, one.root in self.overlay.live)
                path.append(one.root)
        return path if one.lost is None else None

    def tree(self, start: int, member: int) -> list[int] | None:
        """Route a TREE to a member; return its path, or None if it does not come there."""
        path = [start]
        while path[-1] != member:
            following = self.tree_hop(path[-1], member)
            if following is None or following in path:
                return None
            path.append(following)
        return path

    def tree_hop(self, at: int, member: int) -> int | None:
        """Return the next hop of a TREE; None or the node itself: it ends there."""
        state, ident = self.overlay.states[at], self.overlay.idents[member]
        if self.settings.hops == "table":
            entry = state.cell(*state.cell_of(ident))
            if entry is not None and self.transmit(at, entry, "TREE", entry in self.overlay.live):
                return entry
        return self.next_hop(at, ident, "TREE")

    # --- Entries --------------------------------------------------------------------------------

    def is_good(self, entry: Entry) -> bool:
        """Tell whether the next hop lives, and is who it was when the entry was written (B12)."""
        live = entry.next in self.overlay.live
        return live and self.born.get(entry.next, entry.written) <= entry.written

    def write(self, one: Session, path: list[int], number: int) -> set[tuple[int, int]]:
        """Write entries along a TREE's path, unless there are newer ones; return where."""
        member, written = path[-1], set()
        for at, following in pairwise(path):
            old = one.lists.get((at, member))
            if old is None or old.number <= number:
                one.lists[at, member] = Entry(following, number, self.now)
                written.add((at, member))
        return written

    def take_leave(self, one: Session, member: int, number: int) -> None:
        """Drop the root's entry for a member, and those down the way, by PRUNEs (B15)."""
        at = one.root
        while at != member:
            entry = one.lists.get((at, member))
            if entry is None or entry.number > number:
                return
            del one.lists[at, member]
            if not self.transmit(at, entry.next, "PRUNE", self.is_good(entry)):
                return
            at = entry.next

    # --- Steps 3 to 6 ---------------------------------------------------------------------------

    def leave(self, group: Group, quitting: list[int]) -> None:
        """(3) Members that quit tell the root, if they do not wait."""
        gone = {node: group.members.pop(node) for node in quitting}
        came = [
            (node, member)
            for node, member in gone.items()
            if not member.waits
            and self.reaches_root(group.sessions[member.partition], node, "LEAVE")
        ]
        for node, member in came:
            self.take_leave(group.sessions[member.partition], node, member.number)

    def join(self, group: Group) -> None:
        """(4) Whoever waits sends a JOIN; the root answers with TREE (B16)."""
        paths = []
        for node, member in sorted(group.members.items()):
            if not member.waits:
                continue
            member.number, member.partition = self.now, self.nearest(group, node)
            one = group.sessions[member.partition]
            if self.reaches_root(one, node, "JOIN"):
                one.joined = True
                path = self.tree(one.root, node)
                if path is not None:
                    paths.append((one, path))
        for one, path in paths:
            self.write(one, path, self.now)
            group.members[path[-1]].waits = False

    def publish(self, number: int, group: Group, sources: list[int]) -> None:
        """(5) MULTICAST to the root, copies down the lists (B17); (6) repair."""
        lead = group.lead
        ways = {
            source: self.way_to_root(lead, source, "MULTICAST", self.direct) for source in sources
        }
        accepted = {source: way for source, way in ways.items() if way is not None}
        names = [(self.now, number, source) for source in accepted]
        found: list[tuple[Session, dict[int, list[int]]]] = []
        one = Spread(lead.root, accepted)
        for name in names:
            self.spreads[number] = one = Spread(lead.root, accepted)
            first = min(accepted, key=self.overlay.idents.__getitem__)
            found, twice = self.spread(group, one, number, first)
            self.had[name] = {*one.ways} | {name[2]}
            self.first_copies[name] += len(one.ways.keys() - {lead.root})
            self.duplicates[name] += twice
        self.had |= {
            (self.now, number, source): set()
            for source in sources
            if (self.now, number, source) not in self.had
        }
        if names:
            silent = self.withholds - {first}  # who sends nothing misses nothing
            of_senders = [
                (session, {x: way for x, way in ways.items() if x not in silent})
                for session, ways in found
            ]
            self.repair(of_senders, names, one)

    def spread(
        self, group: Group, one: Spread, number: int, first: int
    ) -> tuple[list[tuple[Session, dict[int, list[int]]]], int]:
        """Send the copies of one publication; return the ways in each session, and how many twice.

        The root to which sources send starts, and sends a copy to each other root that has got a
        JOIN (B8).
        """

        def is_lost(sender: int, receiver: int) -> bool:
            return self.is_lost is not None and self.is_lost(number, first, sender, receiver)

        lead, idents, arrived, of_sessions = group.lead, self.overlay.idents, 0, []
        least: dict[int, tuple] = {}
        for partition, session in group.standing.items():
            start, begin = [session.root], 0
            if session is not lead:
                if not session.joined:
                    continue
                start, begin = [lead.root, session.root], self.delay(lead.root, session.root)
                self.transmit(lead.root, session.root, "payload", True)
                one.copies.append((lead.root, session.root))
                arrived += 1
            is_good = {(x, e.next): self.is_good(e) for (x, _), e in session.lists.items()}
            edges = [Edge(*ends, ()) for ends, good in is_good.items() if good]
            of_ids = self.delay, "time", 0, 0, idents
            silent = self.withholds - {first}
            edges = [edge for edge in edges if edge.node not in silent]
            found = disseminate([session.root], edges, lambda *_: True, *of_ids, is_lost)
            for x, to in sorted(ends for ends in is_good if ends[0] in found.first):
                if x in silent:
                    continue
                lost = is_good[x, to] and is_lost(x, to)
                self.transmit(x, to, "payload", is_good[x, to] and not lost)
                one.copies.append((x, to))
                if lost:
                    one.lost.append((x, to))
            ways: dict[int, list[int]] = {}
            for node, mine in sorted(found.first.items(), key=lambda row: row[1].hops):
                ways[node] = [*ways[mine.sender], node] if mine.sender in ways else start
                sender = ways[node][-2] if len(ways[node]) > 1 else node
                by = begin + mine.at_us, len(ways[node]), idents[sender], partition
                if session is lead and node == lead.root:
                    by = (-1, 0, 0, 0)
                if node not in least or by < least[node]:
                    least[node], one.ways[node] = by, ways[node]
            arrived += sum(not copy.lost for copy in found.copies)
            of_sessions.append((session, ways))
        return of_sessions, arrived - len(one.ways) + 1

    def delay(self, one: int, other: int) -> int:
        """Return the time of a copy, also in the LANs."""
        return self.overlay.delay(one, other) + 2 * self.settings.lan_us

    def repair(
        self, found: list[tuple[Session, dict[int, list[int]]]], names: list[Name], one: Spread
    ) -> None:
        """(6) Whoever has sent copies in vain sends TREEs, or takes the members out (B18)."""
        bad = [
            (session, ways, x, m, entry)
            for session, ways in found
            for (x, m), entry in session.lists.items()
            if x in ways and not self.is_good(entry)
        ]
        dropped, came = [], []
        for session, ways, x, m, entry in bad:
            path = None if entry.next == m else self.tree(x, m)
            if path is None:
                dropped.append((session, x, m, entry.number))
            else:
                came.append((session, ways[x], path, entry.number))
        written: dict[int, set[tuple[int, int]]] = {id(session): set() for session, _ in found}
        for session, way, path, number in sorted(came, key=lambda tree: tree[-1]):
            one.trees.setdefault(path[-1], []).append([*way, *path[1:]])
            written[id(session)] |= self.write(session, path, number)
            for name in names:
                had = path[-1] in self.had[name]
                self.duplicates[name] += had
                self.first_copies[name] += not had
                self.had[name].add(path[-1])
        leaves: dict[tuple[int, int], tuple[Session, int]] = {}
        for session, x, m, number in dropped:
            if (x, m) not in written[id(session)]:
                del session.lists[x, m]
            if x != session.root and self.reaches_root(session, x, "LEAVE"):
                place = id(session), m
                most = leaves[place][1] if place in leaves else 0
                leaves[place] = session, max(number, most)
        for (_, m), (session, number) in leaves.items():
            self.take_leave(session, m, number)

    # --- What is compared -----------------------------------------------------------------------

    def look(self) -> Snapshot:
        """Return the state, and what happened in this round."""
        groups, k = self.groups.items(), self.settings.partitions
        return Snapshot(
            self.now,
            {
                (g * k + i, x, m, e.next, e.number, e.written)
                for g, o in groups
                for i, one in enumerate(o.sessions)
                for (x, m), e in one.lists.items()
            },
            {
                (g * k + one.partition, m, one.number, one.waits)
                for g, o in groups
                for m, one in o.members.items()
            },
            {
                (g * k + i, one.root, one.lost is not None)
                for g, o in groups
                for i, one in enumerate(o.sessions)
            },
            self.had,
            +self.first_copies,
            +self.duplicates,
            self.messages,
            self.lost,
        )

    def measures(self) -> dict[str, float]:
        """Return the measures of B20."""
        sessions = [one for group in self.groups.values() for one in group.sessions]
        entries = Counter(x for one in sessions for x, _ in one.lists)
        return {
            "entries.mean": entries.total() / len(self.overlay.live),
            "entries.max": max(entries.values(), default=0),
            "waiting": sum(m.waits for one in self.groups.values() for m in one.members.values()),
            "sessions.lost": sum(one.lost is not None for one in sessions),
        }


def publications(run: Bayeux) -> list[PublicationResult]:
    """Return what became of each publication after the rounds that were played."""
    results = []
    for seen in run.seen:
        for name, had in sorted(seen.had.items()):
            deadline = seen.round + run.settings.deadline
            members = [
                {node for of, node, *_ in one.members if of // run.settings.partitions == name[1]}
                for one in run.seen
                if seen.round <= one.round <= deadline
            ]
            delivered, is_due = dict.fromkeys(had, seen.round), deadline <= run.seen[-1].round
            copies = seen.first_copies[name], seen.duplicates[name]
            results.append(account(name, seen.round, is_due, members, delivered, copies))
    return results
