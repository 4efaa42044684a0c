"""Seeded random cases of HyParView and Plumtree, joins in waves and at once, delays."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

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
    links: Links | None = None  # rates, if publications have sizes

    def delay(self) -> Callable[[int, int], int]:
        """Return the delay of an ordered pair."""
        return pair_delays(self.seed, *self.delays, self.both_ways)

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
    commands += [Command(one, "publish", rng.randrange(count), p) for p, one in enumerate(at)]
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
