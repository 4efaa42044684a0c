"""One publication of a topic, whose mesh stays as it is (rules G10 to G13)."""

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .topic import Draw, Settings, Topic, is_lost, least

PAYLOAD, IDONTWANT, IHAVE, IWANT = "payload", "IDONTWANT", "IHAVE", "IWANT"


@dataclass(frozen=True)
class Copy:
    """A copy of the payload that a node sends to a node."""

    sender: int
    receiver: int
    hop: int  # 1 for the source's copies
    #: Microseconds since the publication (in worlds since the round's beginning); by hops the round
    #: within the eager phase or the lazy heartbeat.
    sent: int
    arrives: int
    #: The lazy heartbeat in which it was sent, 0 before the first; in worlds the round.
    heartbeat: int
    lost: bool  # By a draw, or at a dead node


@dataclass(frozen=True)
class Had:
    """How a node has got the publication: when, after how many hops, from whom, in which heartbeat.

    `sender` is None at the source; `on` is when it sends on.
    """

    at: int
    hops: int
    sender: int | None
    heartbeat: int
    on: int


class Publication:
    """One publication of a topic, whose mesh stays as it is.

    Attributes
    ----------
    copies : list of Copy
    had : dict of node to Had
        Who has got it, the source too.
    control : list of (sender, receiver, kind, heartbeat)
        IDONTWANT, IHAVE, IWANT.
    """

    def __init__(
        self,
        topic: Topic,
        source: int,
        delay: Callable[[int, int], int],
        loss: Callable[[int, int, int], int] | None = None,
    ) -> None:
        self.topic, self.source, self.delay = topic, source, delay
        self.settings: Settings = topic.settings
        self.draw: Draw = topic.draw
        self.loss = loss or self.run_loss
        self.by_time = self.settings.clock == "time"
        self.copies: list[Copy] = []
        self.had: dict[int, Had] = {}
        self.control: list[tuple[int, int, str, int]] = []
        self.arrived: dict[tuple[int, int], int] = {}  # (sender, receiver) -> when, if not lost

    def run_loss(self, heartbeat: int, sender: int, receiver: int) -> int:
        """Return the draw that says whether a copy is lost."""
        return self.draw("gossipsub loss", heartbeat, self.topic.number, sender, receiver)

    # --- The eager phase ------------------------------------------------------------------------

    def publish(self, heartbeat: int = 0, to: Iterable[int] | None = None) -> None:
        """Send from the source at time 0, and play until nobody sends (G10).

        Parameters
        ----------
        to : iterable of node, optional
            To whom the source sends, where it is no subscriber.
        """
        self.had[self.source] = Had(0, 0, None, heartbeat, 0)
        if to is None:
            flood = self.settings.flood_publish
            to = self.topic.peers(self.source) if flood else self.topic.mesh_of(self.source)
        under_way = [self.copy(self.source, y, 1, 0, heartbeat) for y in sorted(to)]
        self.play(under_way, heartbeat)

    def copy(self, x: int, y: int, hop: int, now: int, heartbeat: int) -> Copy:
        """Send a copy."""
        arrives = now + (self.delay(x, y) if self.by_time else 1)
        lost = y in self.topic.dead or is_lost(self.loss(heartbeat, x, y), self.settings.loss)
        copy = Copy(x, y, hop, now, arrives, heartbeat, lost)
        self.copies.append(copy)
        if not lost:
            self.arrived[x, y] = min(arrives, self.arrived.get((x, y), arrives))
        return copy

    def play(self, under_way: Iterable[Copy], heartbeat: int) -> None:
        """Let copies arrive, and nodes send on, until none is under way.

        Nodes send when all that arrives before has arrived: what arrives at the very time at which
        a node sends holds nothing back.
        """
        events: list[tuple[tuple[int, int, int, int], int, Copy | None, int]] = []

        def put(copy: Copy) -> None:
            if not copy.lost:
                order = (copy.arrives, 1, copy.hop, self.topic.idents[copy.sender])
                heapq.heappush(events, (order, len(events_seen), copy, copy.receiver))
                events_seen.append(None)

        events_seen: list[None] = []
        for copy in under_way:
            put(copy)
        while events:
            _, _, arriving, node = heapq.heappop(events)
            if arriving is None:
                for copy in self.send_on(node, heartbeat):
                    put(copy)
            elif not self.has(node):
                self.take(arriving)
                on = self.had[node].on
                heapq.heappush(events, ((on, 0, 0, 0), len(events_seen), None, node))
                events_seen.append(None)

    def has(self, node: int) -> bool:
        """Tell whether a node has had the publication."""
        return node in self.had

    def take(self, copy: Copy) -> None:
        """Take a first copy, and send IDONTWANT at once (G11)."""
        x, at = copy.receiver, copy.arrives
        on = at + (self.settings.processing_us if self.by_time else 0)
        self.had[x] = Had(at, copy.hop, copy.sender, copy.heartbeat, on)
        if self.settings.idontwant and self.announces(x):
            for y in sorted(self.topic.mesh_of(x) - {copy.sender}):
                self.control.append((x, y, IDONTWANT, copy.heartbeat))

    def send_on(self, y: int, heartbeat: int) -> list[Copy]:
        """Return the copies that a node sends when it has processed its first one (G10)."""
        mine = self.had[y]
        if self.withholds(y):
            return []
        targets = self.topic.mesh_of(y) - {mine.sender, self.source}
        return [
            self.copy(y, x, mine.hops + 1, mine.on, heartbeat)
            for x in sorted(targets)
            if not (self.by_time and self.held_back(y, x))
        ]

    def withholds(self, y: int) -> bool:
        """Tell whether a node sends no copies of the publication (N6)."""
        return y in self.settings.withholds and y != self.source

    def announces(self, y: int) -> bool:
        """Tell whether a node says that it has the publication (N6)."""
        return not (self.settings.withholds_announcements and self.withholds(y))

    def held_back(self, y: int, x: int) -> bool:
        """Tell whether x's IDONTWANT, or its copy, has reached y before y sends."""
        sends, theirs = self.had[y].on, self.had.get(x)
        if theirs is None or theirs.sender is None:
            return False
        told = (
            self.settings.idontwant
            and self.announces(x)
            and theirs.sender != y
            and y in self.topic.mesh_of(x)
            and theirs.at + self.delay(x, y) < sends
        )
        return told or self.arrived.get((x, y), sends) < sends

    # --- Lazy heartbeats ------------------------------------------------------------------------

    def missing(self) -> list[int]:
        """Return the subscribers that live and have not got it."""
        return sorted(self.topic.joined - self.topic.dead - self.had.keys())

    def holders(self, k: int) -> list[int]:
        """Return who says in a heartbeat that it has it (G13)."""
        return sorted(
            x
            for x, had in self.had.items()
            if k - had.heartbeat <= self.settings.mcache_gossip and self.announces(x)
        )

    def told_by(self, a: int, k: int) -> list[int]:
        """Return to whom a holder sends IHAVE."""
        return gossip_peers(self.topic, a, k)

    def lazy(self) -> int:
        """Play lazy heartbeats until everybody has it or nobody says so; return how many."""
        k = 0
        while self.missing() and self.holders(k + 1):
            k += 1
            self.lazy_heartbeat(k)
        return k

    def lazy_heartbeat(self, k: int) -> None:
        """IHAVEs, IWANTs, the answers, and what follows of them."""
        told: dict[int, list[int]] = {}
        for a in self.holders(k):
            for y in self.told_by(a, k):
                self.control.append((a, y, IHAVE, k))
                told.setdefault(y, []).append(a)
        answers = []
        for x in self.missing():
            if x not in told:
                continue
            a = asked(self.topic, x, told[x], k)
            self.control.append((x, a, IWANT, k))
            if self.withholds(a):
                continue
            hops, beginning = self.had[a].hops, k * self.settings.heartbeat_us
            answers.append(self.answer(a, x, hops, beginning, k))
        self.play(answers, k)

    def answer(self, a: int, x: int, hops: int, beginning: int, heartbeat: int) -> Copy:
        """Send the copy that x has asked a for, after an IHAVE and an IWANT have gone (G13)."""
        now = beginning + self.delay(a, x) + self.delay(x, a) if self.by_time else 0
        return self.copy(a, x, hops + 1, now, heartbeat)


def gossip_peers(topic: Topic, a: int, k: int) -> list[int]:
    """Return to whom a holder of something sends IHAVE in heartbeat k (G13)."""
    others = [y for y in topic.peers(a) if y not in topic.mesh_of(a)]
    count = max(topic.settings.d_lazy, math.floor(topic.settings.gossip_factor * len(others)))
    return topic.chosen("ihave", k, a, count, others)


def asked(topic: Topic, x: int, senders: Iterable[int], k: int) -> int:
    """Return whom of those that sent IHAVE a node asks (G13)."""

    def drawn(a: int) -> int:
        return topic.draw("gossipsub iwant", k, topic.number, x, a)

    return least(1, senders, drawn, topic.idents)[0]
