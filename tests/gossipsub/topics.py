"""Topics of GossipSub in one process, by the rounds of a run: without routers and Spark."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar

import numpy as np

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, read_table
from scribe_spark.engine.packing import take
from scribe_spark.engine.program import Tables
from scribe_spark.rounds.events import Events, Lives
from scribe_spark.rounds.player import Tally
from scribe_spark.rounds.system import CARRIED, LivingRound, Publishing, play_rounds_of_run
from scribe_spark.systems.gossipsub.config import GossipSubConfig
from scribe_spark.systems.gossipsub.mesh import CONNECTIONS, MESH, SUBSCRIBERS
from scribe_spark.systems.gossipsub.publication import ARRIVALS, Arrivals
from scribe_spark.systems.gossipsub.round import LiveGossipSub
from scribe_spark.systems.gossipsub.router import Links, LinkSpace
from tools.one_group import player_of, ring_of


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
        player = player_of(now.ring, tables)
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
    ring = ring_of(nodes)
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
    play_rounds_of_run(system, player_of(ring, tables), kept, now, range(system.rounds_before))
    return TopicsInMemory(system, now, tables, kept)


def one_topic(nodes: int, seed: int, **given: Any) -> TopicsInMemory:
    """Build the mesh of one topic of all nodes, whose source is drawn; delays of 40 to 130 ms."""
    config = GossipSubConfig(**given)
    source = draws.distinct_below(nodes, 1, seed, "source", 0)
    delays = DrawnDelays(40_000, 130_000, seed)
    return build_topics(config, nodes, [np.arange(nodes)], delays, seed, source)
