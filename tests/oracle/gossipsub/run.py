"""A static run of one topic: connections, JOINs, heartbeats, one publication (rules G1 to G14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from .publication import PAYLOAD, Publication
from .settings import Draw, Settings
from .topic import Messages, Topic


@dataclass
class Played:
    """What came of a topic."""

    topic: Topic
    publication: Publication
    #: After the JOINs of each wave and after each heartbeat, in this order: (x, y), and (x, y,
    #: until).
    meshes: list[set[tuple[int, int]]]
    backoffs: list[set[tuple[int, int, int]]]
    end: int  # the number of the heartbeat that would come next
    lazy_heartbeats: int

    def deliveries(self, members: Iterable[int]) -> dict[int, tuple[int, int, int]]:
        """Return (hops, delay, first_from) of each member but the source that got it.

        By hops the delay is the round within the eager phase or the lazy heartbeat.
        """
        had, source = self.publication.had, self.publication.source
        found = {}
        for node in set(members) - {source}:
            if node in had:
                sender = had[node].sender
                assert sender is not None
                found[node] = (had[node].hops, had[node].at, sender)
        return found

    def duplicates(self, members: Iterable[int]) -> int:
        """Return the copies that came to members but the source that had one already."""
        others = set(members) - {self.publication.source}
        taken = sum(c.receiver in others and not c.lost for c in self.publication.copies)
        return taken - len(others & self.publication.had.keys())

    def publication_messages(self) -> Counter[tuple[int, int, str]]:
        """Return (sender, receiver, kind) of what the publication takes, lost ones too."""
        found = Counter((c.sender, c.receiver, PAYLOAD) for c in self.publication.copies)
        found.update((a, b, kind) for a, b, kind, _ in self.publication.control)
        return found

    def joining_messages(self) -> Messages:
        """Return (sender, receiver, kind) of dials, GRAFTs and PRUNEs."""
        return self.topic.messages


def connect(topic: Topic, subscribers: Iterable[int], graph: set[tuple[int, int]] | None) -> None:
    """Connect the subscribers: each dials some of the others, or as the graph has it (G2, G3)."""
    everybody = set(subscribers)
    if graph is not None:
        for x, y in graph:
            if x in everybody and y in everybody:
                topic.connect(x, y)
        return
    topic.dial(0, everybody, sorted(everybody))


def play(
    number: int,
    members: Collection[int],
    source: int,
    settings: Settings,
    draw: Draw,
    idents: Mapping[int, int],
    delay: Callable[[int, int], int],
    graph: set[tuple[int, int]] | None = None,
    dead: Collection[int] = (),
) -> Played:
    """Play a topic; nodes that are dead fail silently after the last heartbeat.

    With `discovery = graph`, `graph` is that of `discovery.dialled_by_all`.
    """
    topic = Topic(number, settings, draw, idents)
    subscribers = sorted({*members, source})
    connect(topic, subscribers, graph)
    meshes, backoffs = [], []

    def dial_more(h: int) -> None:
        if h > 0 and graph is None:
            topic.dial(h, subscribers, ())

    def note(h: int) -> None:
        meshes.append(topic.mesh_links())
        backoffs.append(topic.backoffs(h))

    h = 0
    waves = settings.join_waves if settings.joins == "waves" else 1
    for wave in range(waves):
        dial_more(h)
        now = [x for x in subscribers if draw("gossipsub wave", number, x) % waves == wave]
        topic.join(now, h, graft=settings.joins != "unconnected")
        note(h)
        if wave < waves - 1:
            topic.heartbeat(h)
            note(h + 1)
            h += 1
    for at in range(settings.heartbeats):
        if at > 0:  # those of the first have dialled before their JOINs
            dial_more(h)
        topic.heartbeat(h)
        h += 1
        note(h)
    topic.dead = set(dead)
    publication = Publication(topic, source, delay)
    publication.publish()
    lazy = publication.lazy()
    return Played(topic, publication, meshes, backoffs, h, lazy)
