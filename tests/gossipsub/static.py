"""Topics of given sizes over nodes on a plane, in process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.config.gossipsub import GossipSubConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.ring import Ring
from scribe_spark.gossipsub.mesh import Topics, building
from scribe_spark.gossipsub.publication import Messages, publish
from scribe_spark.gossipsub.rules import GossipRules
from scribe_spark.gossipsub.subscribers import Directory

__all__ = ["Plane", "Static", "publish_in", "static"]


@dataclass(frozen=True)
class Plane:
    """Delays between points of a square, in microseconds."""

    points: np.ndarray

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See `underlay.Kernel`."""
        return np.hypot(*(self.points[a] - self.points[b]).T).astype(np.int64)


@dataclass(frozen=True)
class Static:
    """Topics with their meshes; topic 0 is the largest."""

    topics: Topics
    tables: list[Tables]
    source: np.ndarray
    clock: str


def static(sizes: list[int], seed: int = 1, buckets: int = 1, **given) -> Static:
    """Build the meshes of topics among as many nodes as the largest has subscribers."""
    random = np.random.default_rng(seed)
    nodes = max(sizes)
    hi = np.sort(random.integers(0, 2**63, nodes).astype(np.uint64))
    ring = Ring(hi, np.zeros(nodes, np.uint64), random.permutation(nodes), np.arange(nodes))
    members = [random.choice(nodes, size, replace=False) for size in sizes]
    place = np.concatenate([topic * nodes + some for topic, some in enumerate(members)])
    config = GossipSubConfig(**given)
    topics = Topics(
        np.linspace(0, nodes, buckets + 1).astype(np.int64),
        RingInMemory(ring),
        np.arange(1, len(sizes) + 1),
        Directory.of(place, len(sizes), nodes),
        GossipRules.of(config, seed),
        Plane(random.uniform(0, 100_000, (nodes, 2))),
        1000,
    )
    tables = [Tables.of({}) for _ in range(buckets)]
    for _, program in building(topics, config):
        play(program, tables)
    return Static(topics, tables, np.array([some[0] for some in members]), config.clock)


def publish_in(one: Static, alive: np.ndarray | None = None) -> int:
    """Publish to every topic; the lazy heartbeats that took place."""
    messages = Messages(np.arange(len(one.source)), one.source, one.clock, alive)
    return publish(lambda program, name: play(program, one.tables), one.topics, messages)
