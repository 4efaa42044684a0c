"""Topics in one process, for experiments that need neither routers nor Spark.

They are the programs of runs, on one bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scribe_spark import draws
from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.core.arrays import distinct, read_table
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.packing import concatenate
from scribe_spark.engine.program import Tables
from scribe_spark.engine.ring import Ring
from scribe_spark.gossipsub.mesh import CONNECTIONS, MESH, Directory, KnowsDelays, Topics, building
from scribe_spark.gossipsub.publication import (
    ANSWERS,
    ARRIVALS,
    COPIES,
    Arrivals,
    Messages,
    publish,
)
from scribe_spark.gossipsub.router import Links
from scribe_spark.rounds.lives import Lives

__all__ = ["DrawnDelays", "Published", "TopicsInMemory", "build_topics"]


@dataclass(frozen=True)
class DrawnDelays:
    """A delay for each pair of nodes, drawn uniformly; the same both ways."""

    least_us: int
    most_us: int
    seed: int

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See :class:`KnowsDelays`."""
        bits = draws.bits_np(self.seed, "pair delay", np.minimum(a, b), np.maximum(a, b))
        span = np.uint64(self.most_us - self.least_us + 1)
        return self.least_us + (bits % span).astype(np.int64)

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """See :class:`KnowsDelays`."""
        return None


@dataclass(frozen=True)
class Published:
    """The arrivals and the copies of a publication of each topic."""

    arrivals: Arrivals
    copies: dict[str, np.ndarray]
    lazy_heartbeats: int


@dataclass(frozen=True)
class TopicsInMemory:
    """Topics with their meshes; nodes are positions, topics indices."""

    topics: Topics
    tables: Tables
    source: np.ndarray
    clock: str

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
        return self.topics.space.count(self.mesh, self.topics.directory.place)

    def publish(self, alive: np.ndarray | None = None, **rules: Any) -> Published:
        """Publish to every topic."""
        lives = None if alive is None else Lives.of(len(alive), np.flatnonzero(alive))
        topics = replace(self.topics, rules=self.topics.rules.replace(**rules), lives=lives)
        messages = Messages(np.arange(len(self.source)), self.source, self.clock)
        tables = Tables.of({name: self.tables[name] for name in self.tables})
        lazy = publish(lambda program, name: play(program, [tables]), topics, messages)
        names = [name for name in tables if name.split()[0] in (COPIES, ANSWERS)]
        wanted = ("message", "node", "sender", "sent", "hops", "lost", "first")
        copies = concatenate([{one: tables[name][one] for one in wanted} for name in names])
        return Published(read_table(Arrivals, tables, ARRIVALS), copies, lazy)


def build_topics(
    config: GossipSubConfig,
    nodes: int,
    members: Sequence[np.ndarray],
    kernel: KnowsDelays,
    seed: int,
    source: np.ndarray | None = None,
) -> TopicsInMemory:
    """Connect the members of topics, and build their meshes."""
    number = np.arange(nodes, dtype=np.int64)
    ring = Ring(number.astype(np.uint64), np.zeros(nodes, dtype=np.uint64), number, number)
    if source is None:
        source = np.array([some[0] for some in members], dtype=np.int64)
    subscribing = [distinct(np.r_[some, one]) for some, one in zip(members, source, strict=True)]
    place = np.concatenate([topic * nodes + some for topic, some in enumerate(subscribing)])
    topics = Topics(
        np.array([0, nodes]),
        RingInMemory(ring),
        np.arange(1, len(members) + 1),
        Directory.of(place, len(members), nodes),
        config.filled(),
        kernel,
        0,
        seed,
    )
    tables = Tables.of({})
    for _, program in building(topics, config):
        play(program, [tables])
    return TopicsInMemory(topics, tables, source, config.clock)
