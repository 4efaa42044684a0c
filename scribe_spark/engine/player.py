"""The player of programs: the tables of buckets, wherever they are, behind one interface.

An *orchestrator* is a plain function of a player: it plays programs one after the other and asks
for small results.  It runs where the player is.  `in_task.InTask` keeps tables in the memory of a
task; `on_spark_player.OnSpark` keeps them on the executors, and a superstep is a job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from scribe_spark.engine.in_turn import IfRows, Steps
from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.program import Program

#: Arrays by name that all buckets read.
Shared = Mapping[str, np.ndarray]


class PlaysSteps(Protocol):
    """Plays programs one after the other."""

    def play_some(self, programs: Steps) -> int:
        """Play the first of some programs, and as many of the next ones as it pays; how many.

        The first is a program; programs that are played if a table has rows are passed over where
        it has none, else the caller goes on with them.
        """
        ...

    def has(self, name: str) -> bool:
        """Return whether any bucket has rows in a table."""
        ...


class Player(PlaysSteps, Protocol):
    """Keeps the tables of buckets, and plays programs on them."""

    def begin_round(self, number: int) -> None:
        """Free what only the round before has needed."""
        ...

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """Play a program until nobody sends; return how many messages were sent.

        Parameters
        ----------
        first : mapping of Columns, optional
            Messages of superstep 0, by kind.
        """
        ...

    def keep(self, orchestrate: Callable[[Player], None], called: str) -> None:
        """Let an orchestrator play programs that keep the state of buckets between supersteps.

        Parameters
        ----------
        orchestrate : callable
            Plays programs on a player whose buckets stay in one process; picklable.
        called : str
            Names the job, if there is one.
        """
        ...

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Return tables off the buckets, where they are no more: rows bucket by bucket.

        A name stands for the tables ``name 0``, ``name 1``, ... too; one that nobody has is not in
        the result.
        """
        ...

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Return tables of all buckets, where they stay, as :meth:`take` does."""
        ...

    def share(self, **arrays: np.ndarray) -> Shared:
        """Let the programs of all buckets read arrays; in a task they are the arrays themselves."""
        ...

    def free(self, shared: Shared) -> None:
        """Free shared arrays that no program reads any more."""
        ...

    def release(self) -> None:
        """Free the tables."""
        ...


def play_in_turn(player: PlaysSteps, programs: Steps) -> None:
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
