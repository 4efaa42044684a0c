"""The player of the programs of a round on Spark: the engine, on tables of the executors.

References
----------
JSAC 2002, Sections II and III.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.engine import Program
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.in_turn import IfRows, Steps, name_of, trimmed
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
        small = (lives.died.astype(np.int32), lives.wait.astype(np.int32))
        self.lives = _DriversLives(lives.alive, *small, lives.entered.astype(np.int32))
        self._given = Given(ring.facts, ring.bounds, rules, kernel, Observer(kinds))
        self._shared: list[_SharedLives] = []
        self._changes = -1
        self._round = ""
        self._first: dict[type, DataFrame] = {}
        # which programs have sent nothing, and how often each was played in this round
        self._idle, self._turns = set[tuple[str, int]](), Counter[str]()

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
        self._turns.clear()
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
        first = self._first.pop(type(program), None)
        return sum(self.tables.play(program, self._round + name_of(program), first=first))

    def play_some(self, programs: Steps) -> int:
        """See `Player.play_some`.

        Programs that sent nothing in the round before are played in one superstep with those that
        follow: whether they send now is found out by playing them.
        """
        some = trimmed(programs[: self._expected(programs)])
        first = programs[0]
        assert not isinstance(first, IfRows)
        names = [name_of(one) for one in some if not isinstance(one, IfRows)]
        if len(names) == 1:
            self._note(first, self.play(first))
            return 1
        called = f"{self._round}{names[0]} to {names[-1]}"
        messages = self._first.pop(type(first), None)
        at, sent = self.tables.play_in_turn(some, called, first=messages)
        for program in some[:at]:
            self._note(program, 0)
        if isinstance(some[at], IfRows):
            return at
        self._note(some[at], sent)
        return at + 1

    def _expected(self, programs: Steps) -> int:
        """Return how many of some programs are expected to be played in one superstep."""
        turns = self._turns.copy()
        for count, program in enumerate(programs, 1):
            if isinstance(program, IfRows):
                continue
            key = name_of(program)
            if count > 1 and type(program) in self._first:
                return count - 1
            if (key, turns[key]) not in self._idle:
                return count
            turns[key] += 1
        return len(programs)

    def _note(self, program: Program | IfRows, sent: int) -> None:
        """Remember whether a program has sent nothing, each time in a round that it is played."""
        if isinstance(program, IfRows):
            return
        key = name_of(program)
        turn = key, self._turns[key]
        self._turns[key] += 1
        if sent:
            self._idle.discard(turn)
        else:
            self._idle.add(turn)

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
