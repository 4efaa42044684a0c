"""Worlds of SplitStream in process: random cases, and what is seen of each period."""

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from arriving import Kernel
from identifiers import parts
from living_buckets import RecordingTally, SystemBuckets, ring_of
from overlay_state import perfect_states

from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.engine.packing import Columns
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.states import States
from scribe_spark.rounds.events import NEVER, Events, Lives
from scribe_spark.rounds.system import LivingRound, Publishing
from scribe_spark.systems.splitstream import FREEPASTRY, SPARE, period
from scribe_spark.systems.splitstream.period import NODES
from scribe_spark.systems.splitstream.splitstream import SplitStream


@dataclass(frozen=True)
class Rules:
    """The settings, as `SplitStreamConfig` has them."""

    stripes: int = 16
    bound: int = 24
    policy: str = SPARE
    waves: int = 1


@dataclass(frozen=True)
class Day:
    """The events of a period; nodes are numbers, pairs (group, node)."""

    join: frozenset = frozenset()
    quit: frozenset = frozenset()
    fail: frozenset = frozenset()
    leave: frozenset = frozenset()
    recover: frozenset = frozenset()
    publish: tuple = ()


@dataclass(frozen=True)
class Case:
    """A world, as plain data."""

    seed: int
    b: int
    leaf_set: int
    idents: dict[int, int]  # node -> nodeId
    keys: dict[int, int]  # group -> groupId
    rules: Rules
    capacity: dict[int, int] | None
    days: list[Day]

    @cached_property
    def ring(self) -> Ring:
        """The nodes."""
        return ring_of(self.idents)


def random_case(seed: int, most: int = 40, **rules: Any) -> Case:
    """Draw a world with every kind of event; nodes live at first."""
    drawn = random.Random(f"splitstream {seed}")
    b = drawn.choice([1, 2, 2, 4])
    digits = drawn.choice([1, 2]) if b < 4 else 1
    stripes = 2 ** (b * digits)
    nodes = range(drawn.randint(3, most))
    tight = drawn.choice([0, 2, 2, 3, 8])
    of = {"stripes": stripes, "bound": stripes + tight if tight else 0}
    of |= {"policy": drawn.choice([FREEPASTRY, SPARE]), "waves": drawn.choice([1, 1, 3])}
    capacity = None
    if drawn.random() < 0.15:
        capacity = {node: drawn.choice([stripes + 2, stripes * 2, 10**6]) for node in nodes}
    keys = {group: drawn.getrandbits(128) for group in range(1, drawn.randint(2, 4))}
    live, dead, members, days = set(nodes), set(), set(), []
    for number in range(drawn.randint(3, 9)):
        fail = {node for node in live if number and drawn.random() < 0.07}
        leave = {node for node in live - fail if number and drawn.random() < 0.03}
        recover = {node for node in dead if drawn.random() < 0.3}
        live, dead = (live - fail - leave) | recover, (dead | fail | leave) - recover
        if not live:
            break
        members = {pair for pair in members if pair[1] in live and pair[1] not in recover}
        quit = {pair for pair in members if drawn.random() < 0.05}
        share = drawn.choice([0.3, 1.0]) if not number else 0.1
        every = sorted({(group, node) for group in keys for node in live} - members)
        join = {pair for pair in every if drawn.random() < share}
        members = (members - quit) | join
        sources = [(group, node) for group in sorted(keys) for node in drawn.choices(sorted(live))]
        publish = tuple(one for one in sources if any(group == one[0] for group, _ in members))
        days.append(Day(*map(frozenset, (join, quit, fail, leave, recover)), publish))
    idents = {node: drawn.getrandbits(128) for node in nodes}
    given = seed, b, drawn.choice([2, 4, 8]), idents, keys, Rules(**{**of, **rules})
    return Case(*given, capacity, days)


@dataclass
class Seen:
    """What is seen after a period; nodes are positions, groups indices."""

    alive: np.ndarray
    state: dict[str, Columns]
    messages: Counter  # (sender's number, receiver's number, kind)
    copies: Counter
    measures: dict[str, float]
    counts: dict[str, float]
    states: States
    routes: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def next_hops(self, case: Case, group: int) -> np.ndarray:
        """The next hop of each live node towards each id: positions, (K, S) or (K, S + 1)."""
        ring, alive = case.ring, self.alive
        keys = ids_of(case, group)
        live = np.flatnonzero(alive)
        at = np.repeat(live, len(keys))
        every = keys.take(np.tile(np.arange(len(keys)), len(live)))
        onward, _ = hop(self.states, lambda node: (node >= 0) & alive[node], at, every)
        found = np.full((len(ring), len(keys)), -1)
        found[live] = onward.reshape(len(live), -1)
        return found

    def channel(self, case: Case, group: int) -> dict[str, np.ndarray]:
        """The nodes of a group's channel, with parents (n, S) and ancestors (n, S, w)."""
        nodes = self.state[NODES]
        mine = nodes["group"] == group
        return {name: column[mine] for name, column in nodes.items()}


def ids_of(case: Case, group: int) -> Keys:
    """The ids of a group's stripes, and of its spare group, if there is one."""
    return period.ids_of(case.rules, Keys(*parts([case.keys[sorted(case.keys)[group]]])))


def play(case: Case, buckets: int = 1, blind: bool = False) -> list[Seen]:
    """Play a world; Pastry's tables are perfect in each round."""
    ring, numbers = case.ring, sorted(case.keys)
    size, position = len(ring), {int(node): at for at, node in enumerate(ring.node)}
    drawn = random.Random(f"delays {case.seed}")
    delay = np.array([[drawn.randint(1000, 90_000) for _ in range(size)] for _ in range(size)])
    kernel = Kernel(np.triu(delay, 1) + np.triu(delay, 1).T, np.arange(size))
    system = SplitStream(case.rules, case.b)
    world = SystemBuckets.empty(ring, buckets, blind)
    lives, seen = Lives.of(size, np.arange(size)), []
    capacity = None
    if case.capacity is not None:
        capacity = np.array([case.capacity[int(node)] for node in ring.node])
    hi, lo = parts(case.keys[number] for number in numbers)

    def at(nodes: Any) -> np.ndarray:
        return np.array(sorted(position[node] for node in nodes), dtype=np.int64)

    def pairs(some: Any) -> tuple[np.ndarray, np.ndarray]:
        found = sorted((numbers.index(group), position[node]) for group, node in some)
        columns = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return columns[0], columns[1]

    for number, day in enumerate(case.days):
        lives.exit(at(day.fail), number, 1)
        lives.exit(at(day.leave), number, 0)
        lives.enter(at(day.recover))
        states = perfect_states(ring, lives.live(), case.leaf_set, case.b, kernel)
        for mine, *ends in zip(world.engine.tables, world.bounds, world.bounds[1:], strict=False):
            mine.update(states.of(slice(*ends)).tables())
        tally = RecordingTally(("payload", *system.control), ring.node, lives.alive.copy())
        now = LivingRound(
            *(number, len(case.days), ring, lives),
            Events(at(day.fail), at(day.leave), at(day.recover)),
            *(np.array(numbers), hi, lo, pairs(day.join), pairs(day.quit)),
            *(Publishing.at_begin(pairs(day.publish)), kernel, 0, case.seed, 1, tally),
            np.full(size, NEVER),
            measures=("delay", "node_stress"),
            capacity=capacity,
        )
        copies = Counter()

        def measure(done, now=now, copies=copies):
            if done.multicasts is not None:
                copies.update(world.measure(system, done, kernel, lives, now.measures)[1])

        done = system.play_on(world.player(system), now, measure)
        state = {NODES: world.tables_of(system).get(f"state: {NODES}", {})}
        if state[NODES]:
            order = np.lexsort((state[NODES]["node"], state[NODES]["group"]))
            state[NODES] = {name: column[order] for name, column in state[NODES].items()}
        found = lives.alive.copy(), state, tally.messages, copies
        seen.append(Seen(*found, dict(done.measures), dict(done.counts), states))
    return seen
