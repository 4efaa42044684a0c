"""Groups of Narada, played period by period without Spark, over delays in a matrix."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from arriving import Kernel
from periods import PlayedPeriods

from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network
from scribe_spark.systems.narada.config import NaradaConfig
from scribe_spark.systems.narada.meshes import Meshes
from scribe_spark.systems.narada.overlay import Narada


class Played(PlayedPeriods):
    """Groups, by their numbers; `node` has the numbers of nodes by position, `delay_us` has D."""

    def __init__(
        self,
        delay_us: np.ndarray,
        seed: int = 1,
        groups: Iterable[int] = (0,),
        node: np.ndarray | None = None,
        **settings: Any,
    ) -> None:
        size, self.delay_us = len(delay_us), delay_us
        none, number = np.zeros(size, dtype=np.uint64), np.arange(size)
        ring = Ring(none, none, number if node is None else node, number)
        system = Narada(NaradaConfig(**settings).for_tasks())
        super().__init__(system, Network(ring, Kernel(delay_us, number), 0, seed), groups)

    @property
    def meshes(self) -> Meshes:
        return Meshes.of(self.state)
