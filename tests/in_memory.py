"""The player of an overlay whose state is in the memory of this process."""

import itertools
from typing import Self

import numpy as np
from overlay_state import OverlayState

from scribe_spark.config import WorldConfig
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import InTask
from scribe_spark.pastry.states import MESSAGE_KINDS
from scribe_spark.rounds.player import Environment, Observer, RoundPlayer
from scribe_spark.underlay.protocol import Kernel


class InMemory(RoundPlayer):
    """A player whose programs write into the arrays of a state."""

    @classmethod
    def of(
        cls,
        state: OverlayState,
        config: WorldConfig,
        kernel: Kernel,
        buckets: int = 1,
        kinds: tuple[str, ...] = MESSAGE_KINDS,
    ) -> Self:
        """Return the player of a state; it plays each bucket in a thread."""
        states = state.states
        bounds = np.linspace(0, len(states.known), buckets + 1).astype(np.int64)
        cuts = itertools.pairwise(bounds.tolist())
        engine = InTask([Tables.of(states.of(slice(*ends)).tables()) for ends in cuts])
        known, of_network = RingInMemory(states.known), (config.overlay, kernel, Observer(kinds))
        given = Environment(known, bounds, *of_network, seed=config.seed, world=config.world)
        return cls(engine, given, state.lives)
