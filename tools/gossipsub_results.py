"""GossipSub beside what others have published: the table of ``docs/gossipsub.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, read_table
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import Tables
from scribe_spark.rounds.events import Events, Lives
from scribe_spark.rounds.observer import Tally
from scribe_spark.rounds.system import (
    CARRIED,
    LivingRound,
    Publishing,
    SystemPlayer,
    play_rounds_of_run,
)
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import CONNECTIONS, MESH, SUBSCRIBERS
from scribe_spark.systems.gossipsub.publication import ARRIVALS, Arrivals
from scribe_spark.systems.gossipsub.round import LiveGossipSub
from scribe_spark.systems.gossipsub.router import Links, LinkSpace
from tools.pages import table
from tools.results import Page, Part

#: Receivers by hop 1 to 4: waku-org/research, rln-delay-simulations, raw data of a run of 1,000
#: nodes, each of which dials 25, with flood publishing and equal delays of links.
WAKU = (53, 281, 562, 103)

#: Mean degrees of Waku's meshes, by D_high: waku-org/nwaku, pull request 2168, with the same tool.
WAKU_DEGREES = {12: 6.129, 8: 6.124}

#: Nodes dial while they run: 4 of 28 before each heartbeat, and their heartbeats are not in step.
WHILE_DIALLING: dict[str, Any] = {
    "joins": "unconnected",
    "heartbeat_phases": 30,
    "dials": 28,
    "dials_per_heartbeat": 4,
}

#: Duplicates a node, 3,000 to 12,000 nodes, D = 8: vac.dev, 2025-08, read off a figure.
_VAC = 4.7

#: Schedules of joining: name in the table -> fields.
SCHEDULES: dict[str, dict[str, Any]] = {
    "nodes dial while heartbeats run": WHILE_DIALLING,
    "nodes JOIN before they dial": {
        **{"joins": "unconnected", "heartbeat_phases": 10, "dials_per_heartbeat": 0},
    },
    "all JOIN at once, when all are connected": {"joins": "at_once"},
}

_PROCESSING_MS = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200)

#: Share of the nodes that fail, and the share of the live ones that one run of an independent
#: simulation of the rules reached by push and after one heartbeat (3,000 nodes).
_FAIL, _CHECKED = 0.5, "0.995, 1"


# --- topics in one process, by the rounds of a run: without routers and Spark


@dataclass(frozen=True)
class DrawnDelays:
    """A delay for each pair of nodes, drawn uniformly; the same both ways."""

    least_us: int
    most_us: int
    seed: int

    jitter: ClassVar[int] = 0
    withheld: ClassVar[None] = None

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See `underlay.Kernel`."""
        bits = draws.bits_np(self.seed, "pair delay", np.minimum(a, b), np.maximum(a, b))
        span = np.uint64(self.most_us - self.least_us + 1)
        return self.least_us + (bits % span).astype(np.int64)

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """See `underlay.Kernel`."""
        return None


@dataclass(frozen=True)
class Published:
    """The arrivals and the copies of a publication of each topic."""

    arrivals: Arrivals
    copies: dict[str, np.ndarray]  # `rounds.system.CARRIED`
    lazy_heartbeats: int


@dataclass(frozen=True)
class TopicsInMemory:
    """Topics with their meshes, in one bucket; nodes are positions, topics indices."""

    system: LiveGossipSub
    now: LivingRound
    tables: Tables
    kept: Tables

    @property
    def kernel(self) -> Any:
        """The delays and losses between nodes."""
        return self.now.kernel

    @property
    def space(self) -> LinkSpace:
        """The conversion of keys of tables."""
        return LinkSpace(len(self.now.ring))

    @property
    def source(self) -> np.ndarray:
        """The source of each topic."""
        return self.now.publish.node

    @property
    def place(self) -> np.ndarray:
        """The keys of the subscribers: int64, ascending."""
        return self.tables[SUBSCRIBERS]["key"]

    @property
    def mesh(self) -> Links:
        """The mesh of every topic."""
        return read_table(Links, self.tables, MESH)

    @property
    def connections(self) -> Links:
        """The connections of every topic."""
        return read_table(Links, self.tables, CONNECTIONS)

    def degrees(self) -> np.ndarray:
        """Return how many peers each subscriber has in its mesh: int64."""
        return self.space.count(self.mesh, self.place)

    def publish(self, alive: np.ndarray | None = None, **rules: Any) -> Published:
        """Publish to every topic."""
        now, before = self.now, self.system.rounds_before
        if alive is not None:
            now = replace(now, overlay=Lives.of(len(alive), np.flatnonzero(alive)))
        system = replace(self.system, rules=self.system.rules.replace(**rules))
        tables = Tables.of({name: self.tables[name] for name in self.tables})
        numbers = count(before)
        player = _player(now.ring, tables)
        play_rounds_of_run(system, player, Tables.of(self.kept), now, numbers)
        arrivals, copies = read_table(Arrivals, tables, ARRIVALS), tables[CARRIED]
        copies = take(copies, copies["kind"] == 0)
        return Published(arrivals, copies, next(numbers) - before - 1)


def build_topics(
    config: GossipSubConfig,
    nodes: int,
    members: Sequence[np.ndarray],
    kernel: Any,
    seed: int,
    source: np.ndarray | None = None,
) -> TopicsInMemory:
    """Connect the members of topics, and build their meshes."""
    number, topic = np.arange(nodes, dtype=np.int64), np.arange(len(members))
    ring = Ring(number.astype(np.uint64), np.zeros(nodes, dtype=np.uint64), number, number)
    if source is None:
        source = np.array([some[0] for some in members], dtype=np.int64)
    subscribing = [distinct(np.r_[some, one]) for some, one in zip(members, source, strict=True)]
    join = np.repeat(topic, [len(some) for some in subscribing]), np.concatenate(subscribing)
    system = LiveGossipSub(config.filled(), config.clock)
    nobody, kinds = (number[:0], number[:0]), (*system.payload, *system.control)
    now = LivingRound(
        *(0, 1, ring, Lives.of(nodes, number), Events(), topic + 1, topic, topic),
        *(join, nobody, Publishing.at_begin((topic, source)), kernel, 0, seed, 0),
        *(Tally(kinds), number[:0]),
        measures=("delay", "node_stress"),
        in_run=True,
    )
    tables, kept = Tables.of({}), Tables.of({})
    play_rounds_of_run(system, _player(ring, tables), kept, now, range(system.rounds_before))
    return TopicsInMemory(system, now, tables, kept)


def _player(ring: Ring, tables: Tables) -> SystemPlayer:
    """Return a player with all nodes in one bucket."""
    return SystemPlayer(InTask([tables]), RingInMemory(ring), np.array([0, len(ring)]), "")


# --- the rows of the table


def one_topic(nodes: int, seed: int, **given: Any) -> TopicsInMemory:
    """Build the mesh of one topic of all nodes, whose source is drawn; delays of 40 to 130 ms."""
    config = GossipSubConfig(**given)
    source = draws.distinct_below(nodes, 1, seed, "source", 0)
    delays = DrawnDelays(40_000, 130_000, seed)
    return build_topics(config, nodes, [np.arange(nodes)], delays, seed, source)


def receivers_by_hop(seeds: Sequence[int], **given: Any) -> tuple[np.ndarray, float]:
    """Return the receivers at hops 1 to 5 in Waku's set-up, shape (seeds, 5); the mean degree."""
    topics = [one_topic(1000, seed, **{"dials": 25, "clock": "hops"} | given) for seed in seeds]
    counts = [np.bincount(one.publish().arrivals.hops, minlength=6)[1:6] for one in topics]
    return np.array(counts), float(np.mean([one.degrees().mean() for one in topics]))


def _hops(seeds: Sequence[int]) -> Iterator[list[str]]:
    """Yield the rows of receivers by hop and of mesh degrees."""
    for schedule, given in SCHEDULES.items():
        counts, _ = receivers_by_hop(seeds, **given)
        mean, spread = counts.mean(axis=0)[:4], counts.std(axis=0)[:4]
        found = ", ".join(f"{m:.0f} ± {s:.0f}" for m, s in zip(mean, spread, strict=True))
        what = f"nodes first reached after 1, 2, 3, 4 hops; {schedule}"
        yield [what, ", ".join(map(str, WAKU)), found]
    for high, degree in WAKU_DEGREES.items():
        _, found_degree = receivers_by_hop(seeds, **WHILE_DIALLING, d_high=high)
        what = f"mesh links, mean of all nodes, D_high = {high}; nodes dial while heartbeats run"
        yield [what, f"{degree}", f"{found_degree:.2f}"]


def _duplicates(nodes: int, seeds: Sequence[int]) -> list[str]:
    """Return the row of the processing time that gives the published number of duplicates."""
    topics = [one_topic(nodes, seed, preset="ethereum", flood_publish=False) for seed in seeds]
    found = []
    for ms in _PROCESSING_MS:
        each = [topic.publish(processing_ms=float(ms)) for topic in topics]
        # the source gets none
        again = [np.sum(~done.copies["first"]) / (len(done.arrivals) - 1) for done in each]
        found.append(-float(np.mean(again)))
    reached = np.interp(-_VAC, found, _PROCESSING_MS)  # duplicates fall as processing takes longer
    time = f"{_VAC} with a processing time of {reached:.0f} ms"
    return [f"duplicates per node, {nodes:,} nodes, D = 8", f"{_VAC}", time]


def _failures(nodes: int, seeds: Sequence[int]) -> list[str]:
    """Return the row of the share of live nodes that have a publication after failures."""
    reached = []
    for seed in seeds:
        topic = one_topic(nodes, seed, flood_publish=False)
        drawn = draws.bits_np(seed, "fails before", np.arange(nodes))
        alive = (drawn >> np.uint64(11)) * 2.0**-53 >= _FAIL
        alive[topic.source] = True
        heartbeat = topic.publish(alive).arrivals.heartbeat
        reached.append([np.sum(heartbeat <= k) / np.sum(alive) for k in range(2)])
    found = ", ".join(f"{mean:.3f}" for mean in np.mean(reached, axis=0))
    reach = "share of the live nodes reached by the mesh, and after one more heartbeat"
    return [f"{reach}; {_FAIL:.0%} of {nodes:,} nodes fail", _CHECKED, found]


def lines(seeds: int, nodes: Sequence[int]) -> list[str]:
    """Play all set-ups; return the lines of the page."""
    every = range(1, seeds + 1)
    few = every[:3]
    rows = [*_hops(every), *(_duplicates(n, few) for n in nodes), _failures(max(nodes), every)]
    simulated = f"simulated (mean of {seeds} seeds; duplicates: {len(few)})"
    return ["", *table(["measured number", "published", simulated], rows), ""]


#: The page needs no experiment: its topics are played in one process, in about a minute.
GOSSIPSUB = Page({}, {"gossipsub": Part("", lambda out: lines(10, (1000, 3000)))})
