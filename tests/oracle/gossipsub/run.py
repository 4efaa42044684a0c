"""A run of one topic: the heartbeats of a world, and then one publication (rules G1 to G14)."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from .publication import PAYLOAD, Publication
from .topic import Draw, Messages, Settings, Topic
from .world import LiveTopic, Snapshot


@dataclass
class Played:
    """What came of a topic."""

    topic: Topic
    publication: Publication
    seen: list[Snapshot]  # after each heartbeat before the publication
    lazy_heartbeats: int

    @property
    def end(self) -> int:
        """The number of the heartbeat of the publication."""
        return len(self.seen)

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
        return sum((snapshot.messages for snapshot in self.seen), Counter())


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
    """Play a topic; nodes that are dead fail silently before the publication.

    With `discovery = graph`, `graph` is that of `topic.dialled_by_all`.
    """
    topic = LiveTopic(number, settings, draw, idents, delay, graph)
    subscribers = sorted({*members, source})
    joins = [(0, x, "join", number) for x in subscribers]
    waves = settings.join_waves if settings.joins == "waves" else 1
    last = waves - 1 + settings.heartbeats
    seen = [
        topic.step(h, 0, [] if h else joins, idents, begins_round=h == 0, beats=h < last)
        for h in range(max(last, waves))
    ]
    topic.dead = set(dead)
    publication = Publication(topic, source, delay)
    publication.publish()
    lazy = publication.lazy()
    return Played(topic, publication, seen, lazy)
