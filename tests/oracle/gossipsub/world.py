"""GossipSub alive: the heartbeats of each round, under events (rules G16 to G22)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..publications import PublicationResult, account
from .publication import IDONTWANT, IHAVE, IWANT, PAYLOAD, Copy, Publication, asked, gossip_peers
from .topic import Draw, Messages, Settings, Topic, sample

#: (round, node, kind), and the group for join, quit and publish.
Event = tuple
#: (round, group, source).
Name = tuple[int, int, int]

GOING = ("fail", "leave")
COMING = ("arrive", "recover")


@dataclass(frozen=True)
class Held:
    """That a node has a publication: since which heartbeat, and after how many hops."""

    heartbeat: int
    hops: int


@dataclass
class Snapshot:
    """A topic after a heartbeat, and what happened in it."""

    #: Its number, and that of the world's round in which it begins.
    heartbeat: int
    round: int
    members: set[int]
    published: list[Name]
    connections: set[tuple[int, int, bool]]
    to_dial: set[tuple[int, int]]  # Whom x has drawn, but not dialled yet
    mesh: set[tuple[int, int]]
    backoffs: set[tuple[int, int, int]]
    #: First copies; by hops the delay is the round of the dissemination.
    deliveries: dict[tuple[Name, int], tuple[int, int, int]]
    copies: list[tuple[Name, Copy]]
    first_copies: Counter[Name]  # Payloads taken by a live node that has not had the publication
    duplicates: Counter[Name]  # Payloads taken by a live node that has had the publication
    by_iwant: int  # First copies that are answers to IWANT
    #: `lost` are those of `messages` that met a dead node, or were lost by a draw.
    messages: Messages
    lost: Messages


class RoundPublication(Publication):
    """What a publication does in one heartbeat; `earlier` are those that have it from before."""

    def __init__(
        self,
        topic: LiveTopic,
        name: Name,
        earlier: Collection[int],
        delay: Callable[[int, int], int],
    ) -> None:
        super().__init__(topic, name[2], delay, self.world_loss)
        self.name, self.earlier = name, set(earlier)
        self.answers: list[Copy] = []  # by IWANT

    def world_loss(self, number: int, sender: int, receiver: int) -> int:
        """Return the draw of G21."""
        published, topic, source = self.name
        return self.draw("gossipsub loss", number, topic, sender, receiver, published, source)

    def has(self, node: int) -> bool:
        """Tell whether a node has had the publication, in this heartbeat or before.

        (Who has had it before holds nothing back in this one: `held_back` reads `had` alone.)
        """
        return node in self.earlier or super().has(node)


class LiveTopic(Topic):
    """A topic in a world, or in a run before its publication.

    Attributes
    ----------
    graph : set of (x, y) or None
        Who dials whom for all topics (G3); None: each topic by itself.
    waiting : set of node
        Subscribers that have not JOINed yet (G4).
    held : dict of publication to dict of node to Held
        Until the node's death.
    died : dict of node to round of the world
        Of silent deaths that some connection may still be to.
    """

    def __init__(
        self,
        number: int,
        settings: Settings,
        draw: Draw,
        idents: Mapping[int, int],
        delay: Callable[[int, int], int],
        graph: set[tuple[int, int]] | None = None,
    ) -> None:
        super().__init__(number, settings, draw, idents)
        self.delay, self.graph = delay, graph
        self.now = 0
        self.waiting: set[int] = set()
        self.held: dict[Name, dict[int, Held]] = {}
        self.died: dict[int, int] = {}

    def subscribes(self, y: int) -> bool:
        """Whoever is connected subscribes, as far as the other end knows, and JOINs in its wave."""
        return self.wave(y) <= self.now

    @property
    def members(self) -> set[int]:
        """The subscribers."""
        return self.joined | self.waiting

    # --- A heartbeat ----------------------------------------------------------------------------

    def step(
        self,
        now: int,
        number: int,
        events: Iterable[Event],
        live: Collection[int],
        begins_round: bool = True,
        beats: bool = True,
    ) -> Snapshot:
        """Play a heartbeat, with its number `now` and that of the world's round.

        The nodes `live` after Pastry's events; `begins_round`: it is the first of the world's
        round; `beats`: nodes maintain their meshes.
        """
        events, self.now = list(events), now
        self.messages, self.lost = Counter(), Counter()
        self.dead = set(self.idents) - set(live)
        of_topic = [(node, kind) for _, node, kind, *group in events if group == [self.number]]
        quitting = sorted(node for node, kind in of_topic if kind == "quit")
        joining = sorted(node for node, kind in of_topic if kind == "join")
        publishing = sorted(node for node, kind in of_topic if kind == "publish")

        self.go(now, number, events, quitting)  # (1)
        self.forget_the_dead(
            number, {node for _, node, kind, *_ in events if kind in COMING}
        )  # (2)
        self.discover(now, joining, begins_round)  # (3)
        self.waiting |= set(joining)
        joining = sorted(x for x in self.waiting if self.wave(x) <= now)
        self.waiting -= set(joining)
        self.join(joining, now, graft=self.settings.joins != "unconnected")  # (4)
        if beats:
            self.heartbeat(now)  # (5)
        spreads = self.gossip(now)  # (6)
        spreads += [self.published(now, source) for source in publishing]  # (7)
        return self.look(now, number, spreads)

    def go(self, now: int, number: int, events: list[Event], quitting: list[int]) -> None:
        """Goodbyes of those that leave, PRUNE and unsubscribe of those that quit (G17).

        All of them send at once, on the state before: who leaves and who quits send to each other,
        and the messages to the node that has left are lost.
        """
        going = {node: kind for _, node, kind, *_ in events if kind in GOING}
        goodbyes = [
            (x, y) for x, kind in sorted(going.items()) if kind == "leave" for y in self.peers(x)
        ]
        prunes = [(x, y) for x in quitting for y in sorted(self.mesh_of(x))]
        unsubscribes = [(x, y) for x in quitting for y in sorted(self.peers(x))]
        for x in going:  # death ends everything a node knew (S3)
            for state in (self.connected, self.to_dial, self.mesh, self.backoff):
                state.pop(x, None)
            for held in self.held.values():
                held.pop(x, None)
            self.joined.discard(x)
            self.waiting.discard(x)
            if going[x] == "fail":
                self.died[x] = number
        for x, y in goodbyes:
            if self.send(x, y, "goodbye"):
                self.disconnect(y, x)
        until = now + self.settings.unsubscribe_backoff
        for x, y in prunes:
            self.back_off(x, y, until)
            self.prune(x, y, until)
        for x, y in unsubscribes:
            if self.send(x, y, "unsubscribe"):
                self.disconnect(y, x)
            self.disconnect(x, y)
        for x in quitting:
            self.mesh.pop(x, None)
            self.to_dial.pop(x, None)
            self.joined.discard(x)
            self.waiting.discard(x)

    def disconnect(self, x: int, y: int) -> None:
        """Let x forget its connection to y, and the mesh link with it; back-off stays."""
        self.connected.get(x, {}).pop(y, None)
        self.mesh_of(x).discard(y)

    def forget_the_dead(self, number: int, back: set[int]) -> None:
        """Drop connections to those that died silently: after `detection`, or when they return."""
        known = {y for y, at in self.died.items() if number >= at + self.settings.detection}
        for y in (known | back) & self.died.keys():
            for x in list(self.connected):
                self.disconnect(x, y)
            del self.died[y]

    def discover(self, now: int, joining: list[int], begins_round: bool) -> None:
        """Let those that have too few connections draw others, and all dial the next ones (G19)."""
        live = self.members | set(joining)
        if self.graph is not None:
            for x, y in sorted(self.graph):
                if {x, y} <= live:
                    self.connect(x, y)
            return
        enough = min(self.settings.dials, len(live) - 1)
        drawing = [x for x in sorted(live) if len(self.peers(x)) < enough]
        free = [x for x in drawing if begins_round and not self.to_dial.get(x)]
        self.dial(now, live, free)

    # --- Publications ---------------------------------------------------------------------------

    def gossip(self, now: int) -> list[RoundPublication]:
        """IHAVEs with all that is held, IWANTs, answers, and what follows of them (G20)."""
        spread = {
            name: RoundPublication(self, name, held, self.delay) for name, held in self.held.items()
        }
        holders = {
            name: {
                a: one
                for a, one in held.items()
                if a in self.members
                and spread[name].announces(a)
                and 0 < now - one.heartbeat <= self.settings.mcache_gossip
            }
            for name, held in self.held.items()
        }
        told: dict[int, list[int]] = {}
        for a in sorted({a for held in holders.values() for a in held}):
            for y in gossip_peers(self, a, now):
                if self.send(a, y, IHAVE):
                    told.setdefault(y, []).append(a)
        wanted = [
            (name, x, asked(self, x, [a for a in senders if a in holders[name]], now))
            for name in sorted(holders)
            for x, senders in sorted(told.items())
            if x not in self.held[name] and any(a in holders[name] for a in senders)
        ]
        for x, a in sorted({(x, a) for _, x, a in wanted}):
            self.send(x, a, IWANT)
        spreads = []
        for name in sorted({name for name, _, _ in wanted}):
            one = spread[name]
            answers = [
                one.answer(a, x, holders[name][a].hops, 0, now)
                for of, x, a in wanted
                if of == name and not one.withholds(a)
            ]
            one.answers = answers
            one.play(answers, now)
            spreads.append(one)
        return spreads

    def published(self, now: int, source: int) -> RoundPublication:
        """Publish; a source that is no subscriber dials some first (G21)."""
        one = RoundPublication(self, (now, self.number, source), (), self.delay)
        to = None if source in self.members else self.fanout(now, source)
        one.publish(now, to)
        return one

    def fanout(self, now: int, source: int) -> list[int]:
        """Return to whom a source that is no subscriber sends."""
        dialled = sample(
            self.members,
            self.settings.dials,
            lambda i: self.draw("gossipsub fanout", now, self.number, source, i),
            self.idents,
        )
        for y in dialled:
            self.send(source, y, "dial")
        if self.settings.flood_publish:
            return dialled
        return self.chosen("fanout peers", now, source, self.settings.d, dialled)

    # --- What is compared -----------------------------------------------------------------------

    def look(self, now: int, number: int, spreads: list[RoundPublication]) -> Snapshot:
        """Take down the heartbeat, and who has got what in it."""
        deliveries, copies, duplicates, first_copies = {}, [], Counter(), Counter()
        for one in spreads:
            held = self.held.setdefault(one.name, {})
            for node, had in one.had.items():
                held[node] = Held(now, had.hops)
                if had.sender is not None:
                    deliveries[one.name, node] = (had.hops, had.at, had.sender)
            for copy in one.copies:
                copies.append((one.name, copy))
                self.messages[copy.sender, copy.receiver, PAYLOAD] += 1
                self.lost[copy.sender, copy.receiver, PAYLOAD] += copy.lost
            taken = sum(not copy.lost for copy in one.copies)
            firsts = sum(had.sender is not None for had in one.had.values())
            first_copies[one.name] += firsts
            duplicates[one.name] += taken - firsts
            for x, y, kind, _ in one.control:
                assert kind == IDONTWANT
                self.send(x, y, kind)
        return Snapshot(
            now,
            number,
            set(self.members),
            [one.name for one in spreads if one.name[0] == now],
            self.connections(),
            {(x, y) for x, ys in self.to_dial.items() for y in ys},
            self.mesh_links(),
            self.backoffs(now + 1),
            deliveries,
            copies,
            +first_copies,
            +duplicates,
            sum(
                one.had[copy.receiver].sender == copy.sender
                for one in spreads
                for copy in one.answers
                if not copy.lost
            ),
            +self.messages,
            +self.lost,
        )


@dataclass
class World:
    """All topics, and who is alive."""

    topics: dict[int, LiveTopic]
    live: set[int]
    #: How long a round and a heartbeat last; a heartbeat is at most a round.
    round_us: int
    heartbeat_us: int
    graph: set[tuple[int, int]] = field(default_factory=set)
    dials: Messages = field(default_factory=Counter)  # of the round, in the graph (G3)
    heartbeats: int = 0
    seen: dict[int, list[Snapshot]] = field(default_factory=dict)  # Heartbeat by heartbeat

    def step(self, number: int, events: Iterable[Event]) -> list[dict[int, Snapshot]]:
        """Play the heartbeats of all topics that begin before the round is over.

        The first of them has the round's events; those that follow have none.
        """
        events = [event for event in events if event[0] == number]
        for _, node, kind, *_ in events:
            if kind in GOING:
                self.live.discard(node)
            elif kind in COMING:
                self.live.add(node)
        new = {node for _, node, kind, *_ in events if kind in COMING} if number else self.live
        self.dials = Counter(
            (x, y, "dial") for x, y in self.graph if {x, y} <= self.live and {x, y} & new
        )
        found = []
        while self.heartbeats * self.heartbeat_us < (number + 1) * self.round_us:
            found.append(
                {
                    group: topic.step(self.heartbeats, number, events, self.live, not found)
                    for group, topic in self.topics.items()
                }
            )
            events, self.heartbeats = [], self.heartbeats + 1
            for group, snapshot in found[-1].items():
                self.seen.setdefault(group, []).append(snapshot)
        return found


def publications(topic: LiveTopic, seen: list[Snapshot]) -> list[PublicationResult]:
    """Return what became of each publication of a topic after the rounds that were played.

    The source has its own at once, if it is a member. Duplicates count up to the deadline.
    """
    round_of = {snapshot.heartbeat: snapshot.round for snapshot in seen}
    results = []
    for name in sorted(name for snapshot in seen for name in snapshot.published):
        first = round_of[name[0]]
        deadline = first + topic.settings.deadline
        rounds = [snapshot for snapshot in seen if first <= snapshot.round <= deadline]
        delivered = {node: s.round for s in rounds for of, node in s.deliveries if of == name}
        delivered[name[2]] = first
        copies = sum(s.first_copies[name] for s in rounds), sum(s.duplicates[name] for s in rounds)
        members, is_due = [snapshot.members for snapshot in rounds], deadline <= seen[-1].round
        results.append(account(name, first, is_due, members, delivered, copies))
    return results
