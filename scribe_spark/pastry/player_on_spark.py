"""The player of the programs of a round on Spark: the engine, on tables of the executors.

References
----------
JSAC 2002, Sections II and III.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.engine import Program
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.on_spark import BucketTables, Costs
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.arrivals.wave import Given
from scribe_spark.pastry.lives import KnowsLives, Lives
from scribe_spark.pastry.player import join_tables, tables_called
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.protocol import Kernel

__all__ = ["OnSpark"]


@dataclass(frozen=True)
class _SharedLives(KnowsLives):
    """The lives of all nodes at a time, as files that tasks map; picklable, not to be written."""

    names: tuple[str, ...]

    @property
    def alive(self) -> np.ndarray:  # type: ignore[override]
        return open_array(self.names[0])

    @property
    def died(self) -> np.ndarray:  # type: ignore[override]
        return open_array(self.names[1])

    @property
    def wait(self) -> np.ndarray:  # type: ignore[override]
        return open_array(self.names[2])

    @property
    def entered(self) -> np.ndarray:  # type: ignore[override]
        return open_array(self.names[3])

    @functools.lru_cache(maxsize=4)  # noqa: B019  (handles are few, and equal ones the same)
    def known_dead(self, number: int) -> np.ndarray:
        """See `KnowsLives.known_dead`."""
        return super().known_dead(number)


class _DriversLives(Lives):
    """The lives of all nodes on the driver, and how often they have changed."""

    changes = 0

    def exit(self, nodes: np.ndarray, number: int, wait: int) -> None:
        """See `KnowsLives.exit`."""
        super().exit(nodes, number, wait)
        self.changes += bool(len(nodes))

    def enter(self, nodes: np.ndarray) -> None:
        """See `KnowsLives.enter`."""
        super().enter(nodes)
        self.changes += bool(len(nodes))


class OnSpark:
    """The engine on Spark; see `Player`.

    Parameters
    ----------
    ring : BucketRing
    tables : BucketTables
        What nodes know, by bucket; the player's own.
    lives : Lives
        Of all nodes; they become the player's.
    """

    def __init__(
        self,
        ring: BucketRing,
        tables: BucketTables,
        rules: WorldRules,
        kernel: Kernel,
        lives: Lives,
        kinds: tuple[str, ...] = MESSAGE_KINDS,
    ) -> None:
        self.ring, self.tables = ring, tables
        small = (lives.died.astype(np.int32), lives.wait.astype(np.int16))
        self.lives = _DriversLives(lives.alive, *small, lives.entered.astype(np.int32))
        self._given = Given(ring.facts, ring.bounds, rules, kernel, Observer(kinds))
        self._shared: list[_SharedLives] = []
        self._changes = -1
        self._round = ""
        self._first: dict[type, DataFrame] = {}

    @property
    def given(self) -> Given:
        """See `Player.given`."""
        if self._changes != self.lives.changes:
            self._changes = self.lives.changes
            names = distribute_arrays(
                self.ring.layout.spark,
                alive=self.lives.alive,
                died=self.lives.died,
                wait=self.lives.wait,
                entered=self.lives.entered,
            )
            self._shared.append(_SharedLives(tuple(names)))
            self._given = replace(self._given, lives=self._shared[-1])
        return self._given

    def begin_round(self, number: int) -> None:
        """Begin a round: what only the one before needed is freed, and nothing has cost yet."""
        self._first.clear()
        self._round = f"round {number}, "
        for old in self._shared[:-1]:
            discard_arrays(*old.names)
        del self._shared[:-1]
        self.tables.costs = Costs()

    def observe(self, *, traffic: bool) -> None:
        """See `Player.observe`."""
        self._given = replace(self._given, observer=replace(self._given.observer, traffic=traffic))

    def send_first(self, program: type, messages: DataFrame) -> None:
        """Give the next program of a type messages (`ROWS`) in its superstep 0; they are lazy."""
        self._first[program] = messages

    def play(self, program: Program) -> int:
        """See `Player.play`."""
        kind = type(program)
        name, first = self._round + kind.__name__.strip("_"), self._first.pop(kind, None)
        return sum(self.tables.play(program, name, first=first))

    def has(self, name: str) -> bool:
        """See `Player.has`."""
        return self.tables.has(name)

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `Player.take`."""
        found = self.tables.take(tables_called(names).pattern)
        return join_tables((name, columns) for _, name, columns in found)

    def release(self) -> None:
        """Free what the executors keep, and the files."""
        self.tables.release()
        for shared in self._shared:
            discard_arrays(*shared.names)
        self._shared.clear()
        self.ring.release()
