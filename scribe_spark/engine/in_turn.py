"""Programs one after the other, of which those that have nothing to do cost no superstep.

A program that sends nothing ends with its superstep 0.  On Spark that would be a job for each, so
superstep 0 of several programs is played in one job (`InTurn`), in the hope that all but the last
send nothing.  A bucket stops at the program in which it sends.  Where all buckets have stopped at
the same program the job stands; else it is played again, up to the first at which one has stopped
(`on_spark.BucketTables.play_in_turn`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import Inbox, Outbox, Prefixed, Program, Tables, Together

_STOPPED = "stopped at"  # and the index of the program: a table


@dataclass(frozen=True)
class IfRows:
    """Programs that are played where a table has rows in any bucket.

    Attributes
    ----------
    tables : tuple of str
    programs : tuple of Program
    """

    tables: tuple[str, ...]
    programs: tuple[Program, ...]

    def has_rows(self, tables: Tables) -> bool:
        """Return whether one of them has rows in a bucket."""
        return any(tables.has_rows(name) for name in self.tables)


#: Programs to be played one after the other.
Steps = Sequence[Program | IfRows]


@dataclass(frozen=True)
class InTurn:
    """Superstep 0 of programs, one after the other, up to the one in which the bucket sends.

    It stops also before programs that are played only if a table has rows, if it has rows here.

    Attributes
    ----------
    programs : tuple of Program or IfRows
        The first is a program.
    """

    programs: tuple[Program | IfRows, ...]

    @property
    def bounds(self) -> np.ndarray:
        """See `engine.Program`."""
        first = self.programs[0]
        assert not isinstance(first, IfRows)
        return first.bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """See `engine.Program`."""
        outbox: Outbox = {}
        for index, program in enumerate(self.programs):
            if isinstance(program, IfRows):
                if program.has_rows(tables):
                    break
                continue
            outbox = program.step(bucket, tables, {} if index else inbox, 0)
            if any(count_rows(columns) for columns in outbox.values()):
                break
        tables[f"{_STOPPED} {index}"] = {"bucket": np.array([bucket])}
        return outbox


def is_silent(program: Program) -> bool:
    """Return whether a program declares that it will send nothing."""
    return getattr(program, "silent", False)


def stopped_at(names: Iterable[str]) -> dict[int, str]:
    """Return the tables that tell at which programs buckets have stopped: index -> name."""
    found = (re.fullmatch(f"{_STOPPED} ([0-9]+)", name) for name in names)
    return {int(match[1]): match[0] for match in found if match}


def trimmed(programs: Steps) -> tuple[Program | IfRows, ...]:
    """Return programs without those at the end that are played only if a table has rows."""
    count = max(n for n, program in enumerate(programs, 1) if not isinstance(program, IfRows))
    return tuple(programs[:count])


def name_of(program: Program) -> str:
    """Return what a program is called in progress and Spark's pages.

    Examples
    --------
    >>> name_of(Together((program_of_class_EndRound, program_of_class_LiveRoute)))
    'EndRound, LiveRoute'
    """
    if isinstance(program, Prefixed):
        return program.prefix + name_of(program.program)
    if isinstance(program, Together):
        return ", ".join(name_of(one) for one in program.programs)
    return type(program).__name__.strip("_")
