"""Random small cases, rich in ties, clusters and ends of the ring."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from .reconfiguration import Event
from .tree import Dht, reference_tree

MAX_HOSTS = 80
MAX_EVENT_ROUNDS = 5
MAX_GROUPS = 3


@dataclass(frozen=True)
class Case:
    """A random case."""

    seed: int
    bits: int
    children: int
    assignment: str
    hosts: tuple[int, ...]
    events: tuple[tuple[Event, ...], ...]
    groups: tuple[tuple[int, frozenset[int]], ...]

    def dht(self) -> Dht:
        """The DHT of the hosts at the start."""
        return Dht(reference_tree(self.bits, self.children), self.hosts, self.assignment)


def random_case(seed: int) -> Case:
    """Draw a case; the same seed always gives the same case."""
    rng = random.Random(seed)
    bits = rng.choice([4, 5, 6, 8, 8, 12, 16, 31, 32, 63, 64, 65, 100, 127, 128, 128])
    children = rng.choice([2, 2, 3, *(rng.randint(2, 15) for _ in range(3))])
    space = 1 << bits
    count = min(rng.choice([1, 2, 3, rng.randint(4, 12), rng.randint(13, MAX_HOSTS)]), space)
    ids = random_ids(rng, bits)
    hosts: list[int] = []
    while len(hosts) < count:
        host = next(ids)
        if host not in hosts:
            hosts.append(host)
    alive, events = set(hosts), []
    for _ in range(rng.randint(1, MAX_EVENT_ROUNDS)):
        now = random_events(rng, alive, ids, space)
        gone = {event.host for event in now if event.kind != "join"}
        alive = (alive - gone) | {event.host for event in now if event.kind == "join"}
        events.append(now)
    groups = []
    for _ in range(rng.randint(0, MAX_GROUPS)):
        size = rng.choice([1, rng.randint(1, min(4, count)), rng.randint(1, count), count])
        groups.append((rng.choice(hosts), frozenset(rng.sample(hosts, size))))
    assignment = rng.choice(["chord", "pastry"])
    return Case(seed, bits, children, assignment, tuple(hosts), tuple(events), tuple(groups))


def random_ids(rng: random.Random, bits: int) -> Iterator[int]:
    """Draw ids, some twice: uniform, in a cluster, adjacent, near 0, near keys of little depth."""
    space = 1 << bits
    styles = ["uniform", "uniform", "cluster", "adjacent", "ends", "high"]
    chosen = rng.choice([*([style] for style in styles), styles, styles])
    base, free = rng.randrange(space), rng.randint(bits // 2, bits)
    while True:
        # Now and then any id, so that no style runs out of ids.
        style = rng.choice(chosen) if rng.random() < 0.9 else "uniform"
        if style == "uniform":
            yield rng.randrange(space)
        elif style == "cluster":
            yield base >> free << free | rng.getrandbits(free)
        elif style == "adjacent":
            yield (base + rng.randrange(2 * MAX_HOSTS)) % space
        elif style == "ends":
            yield rng.randint(-MAX_HOSTS, MAX_HOSTS) % space
        else:
            step = bits - rng.randint(1, min(6, bits - 1))
            yield ((rng.getrandbits(bits) >> step << step) + rng.randint(-1, 1)) % space


def random_events(
    rng: random.Random, alive: set[int], ids: Iterator[int], space: int
) -> tuple[Event, ...]:
    """Draw what happens at once: mostly one event, sometimes some, or many, or all of one kind."""
    wanted = rng.choice([1, 1, 1, rng.randint(2, 4), rng.randint(2, 20)])
    kinds = rng.choice([["join"], ["failure"], ["leave", "failure"], ["join", "leave", "failure"]])
    most = min(space, MAX_HOSTS)
    events: dict[int, Event] = {}
    left = len(alive)
    for _ in range(wanted):
        kind = rng.choice(kinds)
        staying = sorted(alive - events.keys())
        if kind != "join" and (left == 1 or not staying):
            kind = "join"
        if kind == "join" and len(alive | events.keys()) >= most:
            kind = "leave"
        if kind != "join" and (left == 1 or not staying):
            break
        if kind == "join":
            host = next(one for one in ids if one not in alive and one not in events)
        else:
            host = rng.choice(staying)
        left += 1 if kind == "join" else -1
        events[host] = Event(kind, host)
    return tuple(sorted(events.values()))


def changed(assignment: str, bits: int, children: int, before: list[int], after: list[int]) -> Case:
    """A case in which hosts come and others fail at once."""
    events = [Event("join", host) for host in after if host not in before]
    events += [Event("failure", host) for host in before if host not in after]
    return Case(0, bits, children, assignment, tuple(before), (tuple(events),), ())


#: Cases in which hosts whose topmost key changed have to compute, too (rule T1): otherwise some
#: hosts are not reached.
UNREACHED = {
    "one join": changed("pastry", 4, 3, [4, 8, 9, 12, 14], [0, 4, 8, 9, 12, 14]),
    "one failure": changed("pastry", 4, 3, [0, 4, 8, 9, 12, 14], [4, 8, 9, 12, 14]),
    "several, binary": changed("pastry", 4, 2, [0, 4, 8, 9, 11, 13, 14, 15], [9, 11, 13, 14, 15]),
    "several, chord": changed(
        *("chord", 6, 15),
        [0, 2, 3, 7, 12, 15, 17, 20, 21, 32, 33, 34, 40, 46, 53, 56, 60, 62],
        [0, 1, 2, 3, 7, 17, 19, 20, 21, 29, 32, 33, 34, 40, 46, 53, 56, 60],
    ),
}

#: The paper's example (Section 3.5), and cases that `test_by_hand` works out.
BY_HAND = UNREACHED | {
    "example": Case(
        *(0, 4, 2, "chord", (5, 9, 11, 13, 15)),
        events=((Event("join", 4),), (Event("failure", 13),)),
        groups=((11, frozenset({5, 15})), (11, frozenset({11}))),
    ),
    "covered by an older answer": Case(0, 6, 3, "chord", (16, 37, 50, 60), (), ()),
    "known owners": Case(0, 6, 2, "chord", (0, 17, 47), (), ()),
    "one host, chord": Case(0, 4, 2, "chord", (5,), (), ()),
    "one host, pastry": Case(0, 4, 2, "pastry", (5,), (), ()),
    "one host, pastry, above": Case(0, 4, 2, "pastry", (11,), (), ()),
    "halfway": Case(0, 4, 2, "pastry", (2, 6, 12), (), ()),
}
