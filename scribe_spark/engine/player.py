"""The interface of players, which hold the tables of buckets and play programs on them.

An *orchestrator* is a plain function of a player: it plays programs one after the other and reads
small results.  It runs where the player runs.  `in_task.InTask` keeps tables in the memory of a
task; `on_spark.OnSpark` keeps them on the executors, and each superstep is a job.

A superstep moves a message to another node, and a step of a protocol sends a message through a node
a few times at most.  So a step whose supersteps are many times as many as the nodes never ends, for
example because delays are negative, or because nodes answer each other: :func:`counted` ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from scribe_spark.core.errors import RunError
from scribe_spark.engine.packing import Columns, concatenate
from scribe_spark.engine.program import Program

#: Supersteps of a step in an overlay of few nodes: those of the longest steps, many times over.
_LEAST = 1_000

#: Further supersteps for each node: a message may wait, be refused and be sent again.
_OF_A_NODE = 4

#: Supersteps in the largest overlay.  Routes and trees are a few dozen hops deep, and jobs for more
#: supersteps than these take hours.
_MOST = 10_000


def most_supersteps(nodes: int) -> int:
    """Return the number of supersteps, or of repetitions, after which a step is endless."""
    return min(_LEAST + _OF_A_NODE * nodes, _MOST)


def counted(step: str, most: int, what: str = "supersteps") -> Iterator[int]:
    """Yield 0, 1, ..., `most` - 1, then raise a `RunError` that names the system and its `step`."""
    yield from range(most)
    why = "its messages run in a circle; look at the delays, rules and applications that it uses"
    raise RunError(f"{step}: has not ended after {most:,} {what}; {why}")


#: Arrays by name, which the programs of all buckets can read.
Shared = Mapping[str, np.ndarray]


class PlaysSteps(Protocol):
    """The type of objects that play programs one after the other (:func:`play_in_turn`)."""

    def play(self, program: Program) -> int:
        """Play a program; return the number of messages sent."""

    def has(self, name: str) -> bool:
        """Return True if a table has rows in any bucket."""


class PlaysPrograms(PlaysSteps, Protocol):
    """The type of objects that play programs on the tables of a protocol."""

    def play(self, program: Program, first: Mapping[str, Columns] | None = None) -> int:
        """Play a program; return the number of messages sent."""

    def keep(self, orchestrate: Callable[[Any], None], called: str) -> None:
        """Let an orchestrator (picklable) play on a player that keeps its buckets in a process."""


class Player(PlaysPrograms, Protocol):
    """The type of objects that hold the tables of all buckets and play programs on them."""

    def begin_round(self, number: int) -> None:
        """Begin round `number`, and free data that only the previous round needed."""

    def take(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Remove tables from all buckets; return their rows, concatenated in order of buckets.

        A name also matches the tables ``name 0``, ``name 1``, ...  A table that no bucket has is
        missing in the result.
        """

    def gather(self, *names: str) -> dict[str, dict[str, np.ndarray]]:
        """Return tables of all buckets as :meth:`take` does, without removing them."""

    def forget(self, match: Callable[[str], bool]) -> None:
        """Remove from all buckets each table for whose name ``match(name)`` is True."""

    def share(self, **arrays: np.ndarray) -> Shared:
        """Make arrays readable for the programs of all buckets; return an object with them."""

    def free(self, shared: Shared) -> None:
        """Free arrays, given as the result of :meth:`share`."""

    def release(self) -> None:
        """Free the tables of all buckets; the player cannot be used any more."""


@dataclass(frozen=True)
class IfRows:
    """Programs that are played only if one of the named `tables` has rows in any bucket."""

    tables: tuple[str, ...]
    programs: tuple[Program, ...]


#: Programs to be played one after the other.
Steps = Sequence[Program | IfRows]


def play_in_turn(player: PlaysSteps, programs: Steps) -> None:
    """Play programs one after the other, each until no node sends."""
    for one in programs:
        if not isinstance(one, IfRows):
            player.play(one)
        elif any(map(player.has, one.tables)):
            play_in_turn(player, one.programs)


def tables_called(names: Iterable[str]) -> re.Pattern[str]:
    """Return the regular expression for the tables that :meth:`Player.take` finds by names."""
    return re.compile("|".join(f"{re.escape(name)}(?: [0-9]+)?" for name in names))


def join_tables(
    parts: Iterable[tuple[str, Mapping[str, np.ndarray]]],
) -> dict[str, dict[str, np.ndarray]]:
    """Return tables by name; tables whose names differ only in a number at the end become one."""
    found: dict[str, list[Columns]] = {}
    for name, columns in parts:
        found.setdefault(re.sub(" [0-9]+$", "", name), []).append(columns)
    return {name: concatenate(tables) for name, tables in found.items()}
