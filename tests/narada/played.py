"""Groups of Narada, played period by period without Spark, over delays in a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scribe_spark.engine import Columns
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network, Overlays
from scribe_spark.rounds.grown_overlays import Period
from scribe_spark.systems.narada.config import NaradaConfig
from scribe_spark.systems.narada.meshes import Meshes
from scribe_spark.systems.narada.overlay import Narada

__all__ = ["MatrixDelays", "Played", "pairs"]


@dataclass(frozen=True)
class MatrixDelays:
    """The delays between routers, as a kernel: int64, shape (routers, routers)."""

    delay_us: np.ndarray

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.delay_us[a, b]


def pairs(rows: Iterable[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs, ascending, as two arrays."""
    first, second = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2).T
    return first, second


@dataclass
class Played:
    """The state of groups; nodes are positions, groups are indices."""

    delay_us: np.ndarray  # D, shape (K, K)
    seed: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[int, ...] = (0,)  # the numbers
    node: np.ndarray | None = None  # the numbers, by position

    def __post_init__(self) -> None:
        size = len(self.delay_us)
        self.alive, self.number = np.ones(size, dtype=bool), 0
        node = np.arange(size) if self.node is None else self.node
        none = np.zeros(size, dtype=np.uint64)
        ring = Ring(none, none, node, np.arange(size))
        self.network = Network(ring, MatrixDelays(self.delay_us), 0, self.seed)
        self.system = Narada(NaradaConfig(**self.settings).for_tasks())
        self.state: dict[str, Columns] = {}

    def play(
        self,
        joins: Iterable[tuple[int, int]] = (),
        quits: Iterable[tuple[int, int]] = (),
        died: Iterable[int] = (),
        recover: Iterable[int] = (),
    ) -> Mapping[str, Columns]:
        """Play a period; return the messages."""
        died = np.array(sorted(died), dtype=np.int64)
        self.alive[died] = False
        self.alive[list(recover)] = True
        groups = np.array(self.groups)
        keys = groups.astype(np.uint64), groups.astype(np.uint64)
        events = pairs(joins), pairs(quits), died, self.alive.copy(), self.network
        period = Period(self.number, self.number, True, True, groups, *keys, *events)
        self.number += 1
        sent = self.system.play_period(self.state, period)
        self.counts = period.counts
        return sent

    @property
    def meshes(self) -> Meshes:
        return Meshes.of(self.state)

    def measures(self) -> dict[str, float]:
        return self.system.measures_of(self.system.sums(self.state))

    def edges(self, sources: Iterable[tuple[int, int]]) -> Columns:
        """Return the edges of publications, one of each group and source."""
        of, source = pairs(sources)
        groups = np.array(self.groups)
        overlays = Overlays(groups, of, source, of, source, state=self.state)
        return self.system.edges(overlays, self.network)
