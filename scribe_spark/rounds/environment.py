"""The environment of the programs of a round: facts about nodes, their lives, and rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.engine.facts import KnowsRing
from scribe_spark.rounds.lives import KnowsLives, is_node
from scribe_spark.rounds.observer import Observer
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig
    from scribe_spark.config.rounds import RoundsConfig


@dataclass(frozen=True)
class Environment:
    """Facts about nodes, their lives, and the rules of the overlay."""

    facts: KnowsRing  # all nodes, also those that arrive later
    bounds: np.ndarray  # int64, shape (B + 1,)
    rules: OverlayConfig  # of arrivals
    kernel: Kernel
    observer: Observer
    lives: KnowsLives | None = None  # in a world; None if all nodes are alive
    seed: int = 0  # of random draws
    world: RoundsConfig | None = None  # the rules of detection, repair and maintenance

    def is_alive(self, positions: np.ndarray) -> np.ndarray:
        """Return True for positions (an array of any shape) of live nodes; NONE is False."""
        return is_node(positions) if self.lives is None else self.lives.is_alive(positions)

    @property
    def world_rules(self) -> RoundsConfig:
        """The rules of detection, repair and maintenance in a world."""
        assert self.world is not None, "not a world"
        return self.world

    @property
    def in_round(self) -> KnowsLives:
        """The lives of nodes in a world."""
        assert self.lives is not None, "not a world"
        return self.lives
