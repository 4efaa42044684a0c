"""Buckets that cannot see each other: tables that are read while another one is played raise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from in_memory import InMemory

from scribe_spark.engine import Inbox, Program, Tables
from scribe_spark.engine.in_task import InTask, play


class Poisoned(Tables):
    """Tables that can be read only while their bucket is played."""

    open = False

    def __getitem__(self, name):
        assert self.open, f"{name} of another bucket was read"
        return super().__getitem__(name)


@dataclass
class OneAtATime:
    """A program whose buckets cannot see each other."""

    program: Program

    @property
    def bounds(self) -> np.ndarray:
        return self.program.bounds

    def step(self, bucket, tables, inbox, superstep):
        """See `engine.Program`."""
        tables.open = True
        try:
            return self.program.step(bucket, tables, inbox, superstep)
        finally:
            tables.open = False


def play_blind(program: Program, tables: Sequence[Poisoned], first: Inbox | None = None) -> list:
    """Play a program on buckets that cannot see each other; then their tables can be read.

    Returns
    -------
    list of int
        The messages of each superstep.
    """
    for mine in tables:
        mine.open = False
    sent = play(OneAtATime(program), tables, first)
    for mine in tables:
        mine.open = True
    return sent


class PoisonedTask(InTask):
    """Plays bucket after bucket, none of which sees another's tables."""

    def __init__(self, tables: Sequence[Tables]) -> None:
        super().__init__([Poisoned.of(dict(mine)) for mine in tables])
        self.open_all()

    def play(self, program: Program, first: Inbox | None = None) -> int:
        """See `Player.play`."""
        return sum(play_blind(program, self.tables, first))

    def open_all(self, is_open: bool = True) -> None:
        """Let the orchestrator read tables, or nobody."""
        for mine in self.tables:
            mine.open = is_open


class PoisonedPlayer(InMemory):
    """Plays with a :class:`PoisonedTask`."""

    @classmethod
    def of(cls, *args, **given) -> Self:
        """As `InMemory.of`; each bucket has copies of what its nodes know."""
        player = super().of(*args, **given)
        player.engine = PoisonedTask(player.engine.tables)
        return player
