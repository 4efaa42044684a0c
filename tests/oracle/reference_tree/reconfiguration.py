"""What happens when hosts join, leave and fail: rounds of computing and notices (Section 3.4)."""

from collections.abc import Iterable
from dataclasses import dataclass

from .tree import Dht, Found, Neighbours, find_neighbours

KINDS = ("join", "leave", "failure")


@dataclass(frozen=True, order=True)
class Event:
    """A host that joins, leaves or fails."""

    kind: str
    host: int


@dataclass(frozen=True)
class Round:
    """One round of a reconfiguration."""

    computed: tuple[int, ...]
    notices: tuple[tuple[int, int], ...]
    parent_lookups: int
    child_lookups: int


def dht_after(dht: Dht, events: Iterable[Event]) -> Dht:
    """The DHT, settled, after all of ``events``."""
    events = list(events)
    joined = {event.host for event in events if event.kind == "join"}
    gone = {event.host for event in events if event.kind != "join"}
    assert len(events) == len(joined | gone), "one event a host"
    assert gone <= set(dht.hosts), "who goes is there"
    assert not joined & set(dht.hosts), "who joins is not"
    return Dht(dht.reference, (set(dht.hosts) - gone) | joined, dht.assignment)


def first_to_compute(
    before: Dht, after: Dht, neighbours: Neighbours, events: Iterable[Event]
) -> set[int]:
    """Round 0: who joined, the neighbours of who is gone, and whose topmost key changed."""
    events = list(events)
    gone = {event.host for event in events if event.kind != "join"}
    first = {event.host for event in events if event.kind == "join"}
    first = first.union(*(neighbours[host] for host in gone))
    was = before.topmost
    first |= {host for host, key in after.topmost.items() if was.get(host, key) != key}
    return first - gone


def reconfigure(
    before: Dht, neighbours: Neighbours, events: Iterable[Event]
) -> tuple[Dht, Neighbours, list[Round]]:
    """Play the rounds that follow ``events``, which are one change of the DHT."""
    events = list(events)
    after = dht_after(before, events)
    computing = first_to_compute(before, after, neighbours, events)
    now = {host: neighbours.get(host, frozenset()) for host in after.hosts}
    return after, *play_rounds(after, now, computing)


def play_rounds(dht: Dht, now: Neighbours, computing: set[int]) -> tuple[Neighbours, list[Round]]:
    """Rounds until nobody is sent a notice."""
    rounds, alive = [], set(dht.hosts)
    while computing:
        found: dict[int, Found] = {host: find_neighbours(dht, host) for host in computing}
        notices = sorted(
            (host, other)
            for host in computing
            for other in (found[host].neighbours ^ now[host]) & alive
        )
        now = {**now, **{host: found[host].neighbours for host in computing}}
        rounds.append(
            Round(
                computed=tuple(sorted(computing)),
                notices=tuple(notices),
                parent_lookups=sum(len(one.parent_asked) for one in found.values()),
                child_lookups=sum(len(one.child_asked) for one in found.values()),
            )
        )
        computing = {receiver for _, receiver in notices}
    return now, rounds
