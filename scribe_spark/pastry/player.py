"""The player of the programs of a round: the engine in process, on parts of the tables of a state.

References
----------
JSAC 2002, Sections II and III.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from scribe_spark.engine import Columns, Program, Tables
from scribe_spark.engine.facts import KnowsRing, RingInMemory
from scribe_spark.engine.in_process import play
from scribe_spark.engine.in_turn import IfRows, Steps
from scribe_spark.engine.packing import concatenate
from scribe_spark.pastry.arrivals.observer import Observer
from scribe_spark.pastry.arrivals.wave import Given, states_in_buckets
from scribe_spark.pastry.lives import KnowsLives
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.tally import MESSAGE_KINDS
from scribe_spark.underlay.protocol import Kernel

__all__ = ["InProcess", "Player", "join_tables", "play_in_turn", "tables_called"]


class Player(Protocol):
    """Plays the programs of a round, one after the other.

    Who makes them (the orchestrator) sees nothing of what nodes know but what it takes.
    """

    @property
    def lives(self) -> KnowsLives:
        """The lives of nodes; the orchestrator's, who changes it between programs."""
        ...

    @property
    def given(self) -> Given:
        """What a program that is made now is given."""
        ...

    def observe(self, *, traffic: bool) -> None:
        """Say whether senders and receivers are kept from now on."""
        ...

    def play(self, program: Program) -> int:
        """Play a program until nobody sends; how many messages were sent."""
        ...

    def play_some(self, programs: Steps) -> int:
        """Play the first of some programs, and as many of the next ones as it pays; how many.

        The first is a program; programs that are played if a table has rows are passed over where
        it has none, else the caller goes on with them.
        """
        ...

    def has(self, name: str) -> bool:
        """Return whether any bucket has rows in a table."""
        ...

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Return tables off the buckets, where they are no more: rows bucket by bucket.

        A name stands for the tables ``name 0``, ``name 1``, ... too; one that nobody has is not in
        the result.
        """
        ...


def play_in_turn(player: Player, programs: Steps) -> None:
    """Play programs one after the other, each until nobody sends."""
    waiting = list(programs)
    while waiting:
        first = waiting[0]
        if not isinstance(first, IfRows):
            del waiting[: player.play_some(waiting)]
        elif any(player.has(name) for name in first.tables):
            waiting[:1] = first.programs
        else:
            del waiting[0]


class InProcess:
    """The engine in process, on buckets whose tables are parts of the state of an overlay.

    Attributes
    ----------
    tables : list of Tables
        Of each bucket; programs write into the arrays of the state.
    """

    def __init__(self, given: Given, tables: Sequence[Tables]) -> None:
        assert given.lives is not None
        self.given, self.tables, self.lives = given, list(tables), given.lives

    @classmethod
    def of(
        cls,
        state: OverlayState,
        rules: WorldRules,
        kernel: Kernel,
        buckets: int = 1,
        kinds: tuple[str, ...] = MESSAGE_KINDS,
    ) -> InProcess:
        """Return the player of an overlay.

        Parameters
        ----------
        buckets : int
            Each is played in a thread.
        """
        states = state.states
        bounds = np.linspace(0, len(states.known), buckets + 1).astype(np.int64)
        ring: KnowsRing = RingInMemory(states.known)
        given = Given(ring, bounds, rules, kernel, Observer(kinds), state.lives)
        return cls(given, states_in_buckets(states, bounds))

    def observe(self, *, traffic: bool) -> None:
        """See `Player.observe`."""
        self.given = replace(self.given, observer=replace(self.given.observer, traffic=traffic))

    def play(self, program: Program) -> int:
        """See `Player.play`."""
        return sum(play(program, self.tables, threads=len(self.tables)))

    def play_some(self, programs: Steps) -> int:
        """See `Player.play_some`."""
        first = programs[0]
        assert not isinstance(first, IfRows)
        self.play(first)
        return 1

    def has(self, name: str) -> bool:
        """See `Player.has`."""
        return any(mine.has_rows(name) for mine in self.tables)

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """See `Player.take`."""
        return join_tables(_taken(self.tables, names))


def _taken(
    tables: Iterable[Tables], names: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    called = tables_called(names)
    for mine in tables:
        for name in [one for one in mine if called.fullmatch(one)]:
            yield name, mine[name]
            del mine[name]


def tables_called(names: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of the names of tables that :meth:`Player.take` takes."""
    return re.compile("|".join(f"{re.escape(name)}(?: [0-9]+)?" for name in names))


def join_tables(
    parts: Iterable[tuple[str, Mapping[str, np.ndarray]]],
) -> dict[str, dict[str, np.ndarray]]:
    """Return the rows of tables of a name, numbered or not, one after the other."""
    found: dict[str, list[Columns]] = {}
    for name, columns in parts:
        found.setdefault(re.sub(" [0-9]+$", "", name), []).append(columns)
    return {name: concatenate(tables) for name, tables in found.items()}
