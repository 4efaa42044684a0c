"""The player of a round's programs: an engine together with the environment of nodes.

The environment has facts about nodes, their lives, and rules.

References
----------
JSAC 2002, Sections II and III.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.engine import Program
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.engine.in_turn import Steps
from scribe_spark.engine.on_spark_player import OnSpark, SharedInFiles
from scribe_spark.engine.player import Player
from scribe_spark.rounds.events import KnowsLives, Lives, is_node
from scribe_spark.rounds.observer import Observer
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig
    from scribe_spark.config.rounds import RoundsConfig


@dataclass(frozen=True)
class Environment:
    """The knowledge of all programs: nodes, lives, the network and the config's rules."""

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
        """The config's rules of detection, repair and maintenance; only in a world."""
        assert self.world is not None, "not a world"
        return self.world

    @property
    def in_round(self) -> KnowsLives:
        """The lives of all nodes; only in a world."""
        assert self.lives is not None, "not a world"
        return self.lives


class RoundPlayer:
    """The player of an orchestrator's programs in a round, with the lives of all nodes.

    The orchestrator sees of the nodes' tables only what it takes or gathers.  It changes the lives
    of all nodes between programs; `lives` is None if all nodes are alive and there are no rounds.
    """

    def __init__(
        self, engine: Player, environment: Environment, lives: Lives | None = None
    ) -> None:
        self.engine, self._environment, self._lives = engine, environment, lives
        self._shared: list[SharedInFiles] = []
        self._changes = -1

    @property
    def lives(self) -> Lives:
        """The lives of all nodes, which the orchestrator may change; only in a world."""
        assert self._lives is not None, "not a world"
        return self._lives

    @property
    def environment(self) -> Environment:
        """The environment of nodes as it is now; a program that is made now should get it."""
        if self._lives is None:
            return self._environment
        if self._changes != self.lives.changes:
            self._changes = self.lives.changes
            shared = self.engine.share(**self.lives.arrays())
            if isinstance(shared, SharedInFiles):
                self._shared.append(shared)
                self._environment = replace(self._environment, lives=_LivesInFiles(shared))
            else:
                self._environment = replace(self._environment, lives=self.lives)
        return self._environment

    def begin_round(self, number: int) -> None:
        """Begin round `number`, and free data that only the previous round needed."""
        self.engine.begin_round(number)
        for old in self._shared[:-1]:
            assert isinstance(self.engine, OnSpark)
            self.engine.free(old)
        del self._shared[:-1]

    def observe(self, *, traffic: bool) -> None:
        """Set whether programs record senders and receivers of messages from now on."""
        observer = self._environment.observer
        observer = replace(observer, recorded=observer.kinds if traffic else ())
        self._environment = replace(self._environment, observer=observer)

    def play(self, program: Program) -> int:
        """See `engine.player.Player`."""
        return self.engine.play(program)

    def play_some(self, programs: Steps) -> int:
        """See `engine.player.Player`."""
        return self.engine.play_some(programs)

    def has(self, name: str) -> bool:
        """See `engine.player.Player`."""
        return self.engine.has(name)

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `engine.player.Player`."""
        return self.engine.take(*names)

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `engine.player.Player`."""
        return self.engine.gather(*names)

    def forget(self, match: Callable[[str], bool]) -> None:
        """See `engine.player.Player`."""
        self.engine.forget(match)

    def release(self) -> None:
        """See `engine.player.Player`."""
        self.engine.release()


@dataclass(frozen=True)
class _LivesInFiles(KnowsLives):
    """A read-only snapshot of the lives of all nodes in files that tasks map; picklable."""

    shared: SharedInFiles

    @property
    def alive(self) -> np.ndarray:  # type: ignore[override]
        return self.shared["alive"]

    @property
    def died(self) -> np.ndarray:  # type: ignore[override]
        return self.shared["died"]

    @property
    def wait(self) -> np.ndarray:  # type: ignore[override]
        return self.shared["wait"]

    @property
    def entered(self) -> np.ndarray:  # type: ignore[override]
        return self.shared["entered"]

    @functools.lru_cache(maxsize=4)  # noqa: B019  (there are few handles)
    def known_dead(self, number: int) -> np.ndarray:
        """See `KnowsLives.known_dead`."""
        return super().known_dead(number)
