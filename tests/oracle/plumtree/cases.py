"""Seeded random cases of HyParView and Plumtree, joins in waves and at once, delays."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from .draws import keyed_draw, one_draw
from .event_queue import Draw
from .hyparview import Views
from .play import Command, Network, Played
from .plumtree import Rules
from .wired_queue import Links


def waves(count: int, seed: int, wave_us: int, growth: float = 1.5) -> list[Command]:
    """Return the joins of nodes 0, 1, 2, ... in waves: m nodes are followed by m (growth - 1)."""
    commands = [Command(0, "join", 0)]
    wave = 0
    while len(commands) < count:
        wave += 1
        inside = len(commands)
        for j in range(inside, min(count, inside + max(1, int(inside * (growth - 1))))):
            contact = one_draw(seed, "contact", j) % inside
            commands.append(Command(wave * wave_us, "join", j, contact))
    return commands


def at_once(count: int) -> list[Command]:
    """Return the joins of all nodes at time 0; node 0 is the contact of all others."""
    return [Command(0, "join", 0), *(Command(0, "join", j, 0) for j in range(1, count))]


def pair_delays(
    seed: int, low: int, high: int, both_ways: bool = True
) -> Callable[[int, int], int]:
    """Return a delay of each pair, drawn between two bounds."""
    known: dict[tuple[int, int], int] = {}

    def delay(a: int, b: int) -> int:
        pair = (min(a, b), max(a, b)) if both_ways else (a, b)
        if pair not in known:
            known[pair] = low + one_draw(seed, "delay", *pair) % (high - low + 1)
        return known[pair]

    return delay


@dataclass(frozen=True)
class PlumtreeCase:
    """A case as plain data."""

    seed: int
    count: int
    commands: list[Command]
    views: Views
    rules: Rules
    delays: tuple[int, int]  # the least and the largest
    both_ways: bool  # whether the delays of a pair are equal both ways
    static: dict[int, list[int]] | None
    slow: Mapping[tuple[int, int], int] = field(default_factory=dict)  # delays of some pairs
    links: Links | None = None  # rates, if publications have sizes

    def delay(self) -> Callable[[int, int], int]:
        """Return the delay of an ordered pair."""
        drawn = pair_delays(self.seed, *self.delays, self.both_ways)
        return lambda a, b: self.slow.get((a, b)) or drawn(a, b)

    def network(self, draw: Draw | None = None) -> Network:
        """Return the network with all commands, before the first event."""
        found = Network(
            self.count,
            self.delay(),
            draw or keyed_draw(self.seed),
            self.views,
            self.rules,
            self.static,
            self.links,
        )
        found.add(self.commands)
        return found

    def play(
        self, draw: Draw | None = None, is_lost: Callable[[int, int, int, int], bool] | None = None
    ) -> Played:
        """Play everything that is due; see `EventQueue.is_lost`."""
        network = self.network(draw)
        if is_lost is not None:
            network.queue.is_lost = is_lost
        network.play()
        return network.played()


@dataclass(frozen=True)
class ByHand:
    """A case that was worked by hand: its name, and all that comes of it."""

    name: str
    case: PlumtreeCase
    #: (publication, node) -> time, hops, sender, of all but sources.
    receipts: dict[tuple[int, int], tuple[int, int, int]]
    counts: dict[str, int]
    active: dict[int, set[int]]
    eager: dict[int, set[int]]


def static_case(
    links: str, commands: list[Command], rules: Rules, slow: Mapping[tuple[int, int], int]
) -> PlumtreeCase:
    """Return a case of static views with delays of 10, and larger ones of some pairs.

    Parameters
    ----------
    links : str
        ``01 12``: nodes 0 and 1 are neighbours, and nodes 1 and 2.
    """
    pairs = [(int(link[0]), int(link[1])) for link in links.split()]
    count = 1 + max(node for pair in pairs for node in pair)
    views: dict[int, list[int]] = {node: [] for node in range(count)}
    for a, b in pairs:
        views[a].append(b)
        views[b].append(a)
    settings = Views(breaks=False)
    return PlumtreeCase(0, count, commands, settings, rules, (10, 10), True, views, slow)


def publish(*of: tuple[int, int]) -> list[Command]:
    """Return publications of (time, source), numbered from 0."""
    return [Command(at, "publish", node, p) for p, (at, node) in enumerate(of)]


#: Times of the cases worked by hand, in microseconds.
SHORT = Rules(timer_1_us=80, timer_2_us=40, batch_us=5)


def by_hand() -> Iterator[ByHand]:
    """Yield the cases that were worked by hand."""
    for rules in ("paper", "iroh"):
        yield ByHand(
            f"triangle, {rules}: two copies too many, then none",
            static_case("01 02 12", publish((0, 0), (100, 0)), replace(SHORT, rules=rules), {}),
            {(0, 1): (10, 1, 0), (0, 2): (10, 1, 0), (1, 1): (110, 1, 0), (1, 2): (110, 1, 0)},
            {"gossip": 6, "prune": 2, "ihave": 2},
            {0: {1, 2}, 1: {0, 2}, 2: {0, 1}},
            {0: {1, 2}, 1: {0}, 2: {0}},
        )
    yield ByHand(
        "triangle, corrosion: one duplicate does not prune",
        static_case("01 02 12", publish((0, 0), (100, 0)), replace(SHORT, rules="corrosion"), {}),
        {(0, 1): (10, 1, 0), (0, 2): (10, 1, 0), (1, 1): (110, 1, 0), (1, 2): (110, 1, 0)},
        {"gossip": 8},
        {0: {1, 2}, 1: {0, 2}, 2: {0, 1}},
        {0: {1, 2}, 1: {0, 2}, 2: {0, 1}},
    )
    # message 0 leaves 2 and 3 lazy; node 1 is dead when message 1 is published: 3 hears of it from
    # 2 at 220 + 5 + 10, asks 80 later, and gets it 20 after that
    square = [*publish((0, 0)), Command(100, "fail", 1), Command(200, "publish", 0, 1)]
    yield ByHand(
        "square: GRAFT after the first timer",
        static_case("01 02 13 23", square, SHORT, {(0, 2): 20, (2, 0): 20}),
        {
            **{(0, 1): (10, 1, 0), (0, 2): (20, 1, 0), (0, 3): (20, 2, 1)},
            **{(1, 2): (220, 1, 0), (1, 3): (335, 2, 2)},
        },
        # copies of message 1: 0-1, 0-2, 2-3, 3-1; those to node 1 come back as down
        {"gossip": 9, "prune": 2, "ihave": 1, "graft": 1, "down": 2},
        {0: {2}, 2: {0, 3}, 3: {2}},
        {0: {2}, 2: {0, 3}, 3: {2}},
    )
    # 2 -> 0 is slow, so message 0 (of node 2) leaves 0 and 2 lazy; message 1 (of node 0) comes to
    # 2 by node 1 in round 1, after the IHAVE of node 0 of round 0
    for name, rules, changes in (
        ("paper, threshold 1", replace(SHORT, threshold=1), True),
        ("paper, threshold 2", replace(SHORT, threshold=2), False),
        ("iroh, threshold 2", replace(SHORT, rules="iroh", threshold=2), True),
        ("iroh, threshold 3", replace(SHORT, rules="iroh", threshold=3), False),
        ("paper, no optimisation", replace(SHORT, threshold=0), False),
    ):
        yield ByHand(
            f"a shorter way: {name}",
            static_case("01 02 12", publish((0, 2), (100, 0), (200, 0)), rules, {(2, 0): 30}),
            {
                **{(0, 1): (10, 1, 2), (0, 0): (20, 2, 1)},
                **{(1, 1): (110, 1, 0), (1, 2): (120, 2, 1)},
                (2, 1): (210, 1, 0),
                (2, 2): (210, 1, 0) if changes else (220, 2, 1),
            },
            # message 0: 2-1, 2-0, 1-0, 0-2; node 2 announces to 0 what it got from 1
            {"gossip": 8, "prune": 2, "ihave": 4}
            if not changes
            else {"gossip": 8, "prune": 3, "ihave": 4, "graft": 1},
            {0: {1, 2}, 1: {0, 2}, 2: {0, 1}},
            {0: {1, 2}, 1: {0}, 2: {0}} if changes else {0: {1}, 1: {0, 2}, 2: {1}},
        )
    joins = [Command(0, "join", 0), Command(0, "join", 1, 0), Command(100, "join", 2, 0)]
    yield ByHand(
        "three nodes join: the walk ends at a node with one neighbour",
        PlumtreeCase(0, 3, joins, Views(), SHORT, (10, 10), True, None),
        {},
        {"join": 2, "accept": 3, "forwardjoin": 1},
        {0: {1, 2}, 1: {0, 2}, 2: {0, 1}},
        {0: {1, 2}, 1: {0, 2}, 2: {0, 1}},
    )
    yield ByHand(
        "a neighbour fails, with broken connections; the other one leaves",
        PlumtreeCase(
            0,
            3,
            [*joins, Command(200, "fail", 1), Command(300, "leave", 2)],
            Views(),
            SHORT,
            (10, 10),
            True,
            None,
        ),
        {},
        {"join": 2, "accept": 3, "forwardjoin": 1, "down": 2, "disconnect": 1},
        {0: set()},
        {0: set()},
    )


def random_views(rng: random.Random) -> Views:
    """Draw settings of HyParView."""
    return Views(
        rules=rng.choice(["paper", "paper", "iroh"]),
        active=rng.choice([2, 2, 3, 3, 4, 5]),
        passive=rng.choice([3, 4, 6, 10, 30]),
        arwl=rng.choice([0, 1, 2, 3, 6]),
        prwl=rng.choice([0, 1, 2, 3]),
        shuffle_ttl=rng.choice([1, 2, 3, 6]),
        breaks=rng.random() < 0.6,
        repair=rng.random() < 0.8,
    )


def random_case(seed: int, static: bool | None = None) -> PlumtreeCase:
    """Draw a case: joins, failures, shuffles and publications, with many events at one moment."""
    rng = random.Random(seed)
    count = rng.choice([2, 3, 5, 8, 13, 20, 30, 45, 60])
    low, high = rng.choice([(1, 1), (1, 3), (1, 20), (7, 7), (10_000, 100_000)])
    timer = rng.choice([high, 2 * high, 3 * high, 8 * high])
    rules = Rules(
        rules=rng.choice(["paper", "iroh", "corrosion"]),
        timer_1_us=timer,
        timer_2_us=rng.choice([max(1, timer // 2), high, 2 * high]),
        batch_us=rng.choice([0, 1, max(1, high // 2), high, 3 * high]),
        threshold=rng.choice([0, 1, 1, 2, 3, 7]),
    )
    views = random_views(rng)
    if static is None:
        static = rng.random() < 0.3
    given: dict[int, list[int]] | None = None
    if static:
        degree = rng.choice([2, 3, 4, 5])
        given = random_graph(rng, count, degree)
        commands, start = [], 0
    elif rng.random() < 0.5:
        commands = at_once(count)
        start = 20 * high
    else:
        wave_us = rng.choice([1, high, 4 * high, 12 * high])
        commands = waves(count, seed, wave_us, rng.choice([1.5, 2.0]))
        start = commands[-1].at + rng.choice([0, 5 * high, 20 * high])
    commands += drawn_commands(rng, count, start, high, static)
    views = replace(views, answer_us=rng.choice([500_000, high, 2 * high, 3 * high]))
    rules = replace(
        rules,
        duplicates=rng.choice([0, 1, 5]),
        payload_us=rng.choice([30_000_000, 30_000_000, 10 * high]),
    )
    return PlumtreeCase(seed, count, commands, views, rules, (low, high), rng.random() < 0.7, given)


def lively_case(seed: int) -> PlumtreeCase:
    """Draw a case in which nodes join, leave, fail, shuffle and publish all the time."""
    rng = random.Random(seed)
    count = rng.choice([5, 8, 13, 20])
    low, high = rng.choice([(1, 3), (1, 20), (7, 7)])
    span = 60 * high
    joins = [0, *sorted(rng.randrange(span // 2) for _ in range(count - 1))]
    commands = [
        Command(at, "join", node, rng.randrange(node) if node else -1)
        for node, at in enumerate(joins)
    ]
    commands += [
        Command(joins[node] + rng.randrange(1, span), rng.choice(["fail", "leave"]), node)
        for node in range(count)
        if rng.random() < 0.4
    ]
    commands += [
        Command(rng.randrange(span), "shuffle", rng.randrange(count)) for _ in range(count)
    ]
    at = sorted(rng.randrange(span // 4, span) for _ in range(15))
    commands += publish(*((one, rng.randrange(count)) for one in at))
    commands.sort(key=lambda one: one.at)
    timer = rng.choice([1, 2, high, 3 * high])
    rules = Rules(
        rules=rng.choice(["paper", "iroh", "corrosion", "corrosion"]),
        timer_1_us=timer,
        timer_2_us=rng.choice([1, timer, high]),
        batch_us=rng.choice([0, 1, high]),
        threshold=rng.choice([0, 1, 2]),
        duplicates=rng.choice([0, 1, 2]),
        payload_us=rng.choice([30_000_000, 4 * high]),
    )
    views = replace(
        random_views(rng),
        active=rng.choice([2, 3, 4]),
        answer_us=rng.choice([high, 2 * high, 4 * high]),
    )
    return PlumtreeCase(seed, count, commands, views, rules, (low, high), rng.random() < 0.5, None)


def with_sizes(case: PlumtreeCase, seed: int) -> PlumtreeCase:
    """Return a case whose publications have different sizes, and take some delays on links."""
    rng, high = random.Random(seed), case.delays[1]
    published = sum(command.kind == "publish" for command in case.commands)
    size = tuple(rng.choice([1, 2, 5]) for _ in range(published))
    # a byte takes a quarter of the longest delay, half of it, or no time
    rates = [0, *(8_000_000 // max(1, high // part) for part in (4, 2))]
    up, down = (tuple(rng.choices(rates, k=case.count)) for _ in range(2))
    return replace(case, links=Links(up, down, size, rng.random() < 0.4))


def random_graph(rng: random.Random, count: int, degree: int) -> dict[int, list[int]]:
    """Draw symmetric views, of at most 5 nodes each; some nodes may have none."""
    views: dict[int, set[int]] = {node: set() for node in range(count)}
    for _ in range(count * degree):
        a, b = rng.randrange(count), rng.randrange(count)
        if a != b and len(views[a] - {b}) < 5 and len(views[b] - {a}) < 5:
            views[a].add(b)
            views[b].add(a)
    return {node: sorted(view) for node, view in views.items()}


def drawn_commands(
    rng: random.Random, count: int, start: int, high: int, static: bool
) -> list[Command]:
    """Draw shuffles, publications, failures and departures after a time."""
    found: list[Command] = []
    publications = 0
    gone: set[int] = set()
    source = rng.randrange(count)
    at = start
    for _ in range(rng.randint(1, 5)):
        what = rng.choice(["publish", "publish", "publish", "fail", "shuffle", "leave"])
        if what == "publish":
            for _ in range(rng.choice([1, 1, 2, 4])):
                node = source if rng.random() < 0.5 else rng.randrange(count)
                found.append(Command(at, "publish", node, publications))
                publications += 1
                at += rng.choice([0, 0, 1, high, 3 * high])
        elif what == "shuffle" and not static:
            found += [Command(at, "shuffle", node) for node in range(count)]
        elif what in ("fail", "leave") and not (static and what == "leave"):
            share = rng.choice([0.1, 0.3, 0.6])
            some = [n for n in range(count) if n not in gone and rng.random() < share]
            gone.update(some)
            found += [Command(at, what, node) for node in some]
        at += rng.choice([0, 1, high, 4 * high, 20 * high])
    return found
