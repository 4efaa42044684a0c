"""Bayeux alive: sessions, LEAVE, PRUNE, repair by senders (rules B11 to B20).

It stands on `tests.oracle.living` (Pastry alive), whose tables it reads and never changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from ..dissemination import Edge
from ..dissemination import spread as disseminate
from ..living.overlay import Overlay
from ..living.routing import candidates
from ..publications import PublicationResult, account
from ..ring import root_of

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
    """A member: the round of its last JOIN, and whether no TREE has come for it."""

    number: int
    waits: bool = True


@dataclass
class Group:
    """A group: its session, its members, and (node, member) -> entry of the lists."""

    key: int
    root: int = -1
    lost: int | None = None  # the round in which the session was lost
    members: dict[int, Member] = field(default_factory=dict)
    lists: dict[tuple[int, int], Entry] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """`hops` is table or leaf_set; `recreate` and `deadline` are rounds.

    A node's LAN delays each copy by `lan_us`, in each direction, besides the overlay's delay.
    """

    hops: str = "table"
    recreate: int = 0
    deadline: int = 5
    lan_us: int = 1000


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
    lists: set[tuple[int, int, int, int, int, int]]
    members: set[tuple[int, int, int, bool]]
    sessions: set[tuple[int, int, bool]]
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
        self.groups = {number: Group(key) for number, key in sorted(keys.items())}
        self.born: dict[int, int] = {}  # node -> the last round in which it arrived or recovered
        self.now = 0
        self.direct = False  # True if sources know their roots
        #: (group, source of the first accepted publication, sender, receiver) -> True if the
        #: network loses the round's copies; None: it loses none.
        self.is_lost: Callable[[int, int, int, int], bool] | None = None
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
            self.keep_session(group, going)  # (2)
            self.leave(group, sorted(node for node, kind in of_group if kind == "quit"))  # (3)
            self.join(group)  # (4)
            self.publish(number, group, sorted(n for n, kind in of_group if kind == "publish"))
        self.seen.append(self.look())
        return self.seen[-1]

    def forget(self, group: Group, going: set[int]) -> None:
        """(1) Membership and lists of those that die are gone (B12)."""
        for node in going:
            group.members.pop(node, None)
        group.lists = {key: one for key, one in group.lists.items() if key[0] not in going}

    def keep_session(self, group: Group, going: set[int]) -> None:
        """(2) A session is lost with its root, and may be created again (B13)."""
        again = group.lost is not None and self.settings.recreate > 0
        if self.now == 0:
            group.root = self.closest(group.key)
        elif again and self.now == group.lost + self.settings.recreate:
            group.root, group.lost = self.closest(group.key), None
            group.lists = {}
            for member in group.members.values():
                member.waits = True
        elif group.lost is None and group.root in going:
            group.lost = self.now

    def closest(self, key: int) -> int:
        """Return the live node that is numerically closest to a key."""
        return root_of(key, self.overlay.idents, self.overlay.live)

    # --- Routes (B14) ---------------------------------------------------------------------------

    def transmit(self, sender: int, receiver: int, kind: str, arrives: bool) -> bool:
        """Count a transmission; tell whether it arrives."""
        self.messages[sender, receiver, kind] += 1
        if not arrives:
            self.lost[sender, receiver, kind] += 1
        return arrives

    def next_hop(self, at: int, key: int, kind: str) -> int | None:
        """Return Pastry's next hop around dead nodes: the node itself delivers; None: nobody."""
        for node in candidates(self.overlay, self.overlay.states[at], key):
            if node == at or self.transmit(at, node, kind, node in self.overlay.live):
                return node
        return None

    def reaches_root(self, group: Group, start: int, kind: str) -> bool:
        """Route a message to the root of a group; tell whether a session has got it there."""
        return self.way_to_root(group, start, kind) is not None

    def way_to_root(
        self, group: Group, start: int, kind: str, direct: bool = False
    ) -> list[int] | None:
        """Route a message to the root of a group; return its way if a session has got it there.

        If it is sent directly, the start knows the root.
        """
        path = [start]
        if start != group.root:
            while (
                not direct and (following := self.next_hop(path[-1], group.key, kind)) != path[-1]
            ):
                if following is None or following in path:
                    return None
                path.append(following)
            at = path[-1]
            if at != group.root:
                self.transmit(at, group.root, kind, group.root in self.overlay.live)
                path.append(group.root)
        return path if group.lost is None else None

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

    def write(self, group: Group, path: list[int], number: int) -> set[tuple[int, int]]:
        """Write entries along a TREE's path, unless there are newer ones; return where."""
        member, written = path[-1], set()
        for at, following in pairwise(path):
            old = group.lists.get((at, member))
            if old is None or old.number <= number:
                group.lists[at, member] = Entry(following, number, self.now)
                written.add((at, member))
        return written

    def take_leave(self, group: Group, member: int, number: int) -> None:
        """Drop the root's entry for a member, and those down the way, by PRUNEs (B15)."""
        at = group.root
        while at != member:
            entry = group.lists.get((at, member))
            if entry is None or entry.number > number:
                return
            del group.lists[at, member]
            if not self.transmit(at, entry.next, "PRUNE", self.is_good(entry)):
                return
            at = entry.next

    # --- Steps 3 to 6 ---------------------------------------------------------------------------

    def leave(self, group: Group, quitting: list[int]) -> None:
        """(3) Members that quit tell the root, if they do not wait."""
        gone = {node: group.members.pop(node) for node in quitting}
        came = [
            (node, member.number)
            for node, member in gone.items()
            if not member.waits and self.reaches_root(group, node, "LEAVE")
        ]
        for node, number in came:
            self.take_leave(group, node, number)

    def join(self, group: Group) -> None:
        """(4) Whoever waits sends a JOIN; the root answers with TREE (B16)."""
        paths = []
        for node, member in sorted(group.members.items()):
            if not member.waits:
                continue
            member.number = self.now
            if self.reaches_root(group, node, "JOIN"):
                path = self.tree(group.root, node)
                if path is not None:
                    paths.append(path)
        for path in paths:
            self.write(group, path, self.now)
            group.members[path[-1]].waits = False

    def publish(self, number: int, group: Group, sources: list[int]) -> None:
        """(5) MULTICAST to the root, copies down the lists (B17); (6) repair."""
        ways = {
            source: self.way_to_root(group, source, "MULTICAST", self.direct) for source in sources
        }
        accepted = {source: way for source, way in ways.items() if way is not None}
        names = [(self.now, number, source) for source in accepted]
        got: set[int] = set()
        one = Spread(group.root, accepted)
        for name in names:
            self.spreads[number] = one = Spread(group.root, accepted)
            first = min(accepted, key=self.overlay.idents.__getitem__)
            got, twice = self.spread(group, one, number, first)
            self.had[name] = got | {name[2]}
            self.first_copies[name] += len(got - {group.root})
            self.duplicates[name] += twice
        self.had |= {
            (self.now, number, source): set()
            for source in sources
            if (self.now, number, source) not in self.had
        }
        if names:
            self.repair(group, got, names, one)

    def spread(self, group: Group, one: Spread, number: int, first: int) -> tuple[set[int], int]:
        """Send the copies of one publication; return who has got it, and how many twice."""

        def is_lost(sender: int, receiver: int) -> bool:
            return self.is_lost is not None and self.is_lost(number, first, sender, receiver)

        is_good = {(x, e.next): self.is_good(e) for (x, _), e in group.lists.items()}
        edges = [Edge(*ends, ()) for ends, good in is_good.items() if good]
        of_ids = self.delay, "time", 0, 0, self.overlay.idents
        found = disseminate([group.root], edges, lambda *_: True, *of_ids, is_lost)
        for x, to in sorted(ends for ends in is_good if ends[0] in found.first):
            lost = is_good[x, to] and is_lost(x, to)
            self.transmit(x, to, "payload", is_good[x, to] and not lost)
            one.copies.append((x, to))
            if lost:
                one.lost.append((x, to))
        for node, mine in sorted(found.first.items(), key=lambda row: row[1].hops):
            one.ways[node] = [*one.ways.get(mine.sender, []), node]
        return set(one.ways), sum(not (copy.first or copy.lost) for copy in found.copies)

    def delay(self, one: int, other: int) -> int:
        """Return the time of a copy, also in the LANs."""
        return self.overlay.delay(one, other) + 2 * self.settings.lan_us

    def repair(self, group: Group, got: set[int], names: list[Name], one: Spread) -> None:
        """(6) Whoever has sent copies in vain sends TREEs, or takes the members out (B18)."""
        bad = sorted(
            (x, m, entry)
            for (x, m), entry in group.lists.items()
            if x in got and not self.is_good(entry)
        )
        dropped, came = [], []
        for x, m, entry in bad:
            path = None if entry.next == m else self.tree(x, m)
            if path is None:
                dropped.append((x, m, entry.number))
            else:
                came.append((path, entry.number))
        written: set[tuple[int, int]] = set()
        for path, number in sorted(came, key=lambda tree: tree[1]):
            one.trees.setdefault(path[-1], []).append([*one.ways[path[0]], *path[1:]])
            written |= self.write(group, path, number)
            for name in names:
                had = path[-1] in self.had[name]
                self.duplicates[name] += had
                self.first_copies[name] += not had
                self.had[name].add(path[-1])
        leaves: dict[int, int] = {}
        for x, m, number in dropped:
            if (x, m) not in written:
                del group.lists[x, m]
            if x != group.root and self.reaches_root(group, x, "LEAVE"):
                leaves[m] = max(number, leaves.get(m, number))
        for m, number in leaves.items():
            self.take_leave(group, m, number)

    # --- What is compared -----------------------------------------------------------------------

    def look(self) -> Snapshot:
        """Return the state, and what happened in this round."""
        groups = self.groups.items()
        return Snapshot(
            self.now,
            {
                (g, x, m, e.next, e.number, e.written)
                for g, o in groups
                for (x, m), e in o.lists.items()
            },
            {(g, m, one.number, one.waits) for g, o in groups for m, one in o.members.items()},
            {(g, one.root, one.lost is not None) for g, one in groups},
            self.had,
            +self.first_copies,
            +self.duplicates,
            self.messages,
            self.lost,
        )

    def measures(self) -> dict[str, float]:
        """Return the measures of B20."""
        entries = Counter(x for one in self.groups.values() for x, _ in one.lists)
        return {
            "entries.mean": entries.total() / len(self.overlay.live),
            "entries.max": max(entries.values(), default=0),
            "waiting": sum(m.waits for one in self.groups.values() for m in one.members.values()),
            "sessions.lost": sum(one.lost is not None for one in self.groups.values()),
        }


def publications(run: Bayeux) -> list[PublicationResult]:
    """Return what became of each publication after the rounds that were played."""
    results = []
    for seen in run.seen:
        for name, had in sorted(seen.had.items()):
            deadline = seen.round + run.settings.deadline
            members = [
                {node for of, node, *_ in one.members if of == name[1]}
                for one in run.seen
                if seen.round <= one.round <= deadline
            ]
            delivered, is_due = dict.fromkeys(had, seen.round), deadline <= run.seen[-1].round
            copies = seen.first_copies[name], seen.duplicates[name]
            results.append(account(name, "sent", seen.round, is_due, members, delivered, copies))
    return results
