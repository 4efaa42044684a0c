"""Programs that are played one after the other, in one Spark job where they send nothing.

A program that sends nothing ends after its superstep 0.  On Spark each superstep is a job, so
`InTurn` plays superstep 0 of several programs in one job and expects that all but the last send
nothing.  Each bucket stops at the first program in which it sends.  If all buckets stopped at the
same program, the job's result is kept.  Otherwise the job is run again with fewer programs: up to
the first program at which some bucket stopped (`on_spark.BucketTables.play_in_turn`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import (
    Inbox,
    Outbox,
    Prefixed,
    Program,
    Tables,
    Together,
    messages_to,
)

_STOPPED = "stopped at"  # the name of a table begins so; the program's index follows


@dataclass(frozen=True)
class IfRows:
    """Programs that are played only if one of the named `tables` has rows in any bucket."""

    tables: tuple[str, ...]
    programs: tuple[Program, ...]

    def has_rows(self, tables: Tables) -> bool:
        """Return True if one of the named tables has rows in a bucket with these `tables`."""
        return any(tables.has_rows(name) for name in self.tables)


#: Programs to be played one after the other.
Steps = Sequence[Program | IfRows]


@dataclass(frozen=True)
class InTurn:
    """A program that plays superstep 0 of several programs until the bucket sends.

    The kinds of messages to a program begin with the program's index.  The step also stops before
    an `IfRows` whose tables have rows in this bucket.
    """

    programs: tuple[Program | IfRows, ...]

    @property
    def bounds(self) -> np.ndarray:
        first = self.programs[0]
        return (first.programs[0] if isinstance(first, IfRows) else first).bounds

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        outbox: Outbox = {}
        for index, program in enumerate(self.programs):
            if isinstance(program, IfRows):
                if program.has_rows(tables):
                    break
                continue
            outbox = program.step(bucket, tables, messages_to(index, inbox), 0)
            if any(count_rows(columns) for columns in outbox.values()):
                if is_silent(program):
                    raise RuntimeError(f"{name_of(program)} is declared silent, and sends")
                break
        tables[f"{_STOPPED} {index}"] = {"bucket": np.array([bucket])}
        return outbox


def is_silent(program: Program) -> bool:
    """Return True if a program declares by an attribute `silent` that it never sends."""
    if isinstance(program, Prefixed):
        return is_silent(program.program)
    if isinstance(program, Together):
        return all(map(is_silent, program.programs))
    return getattr(program, "silent", False)


def stopped_at(names: Iterable[str]) -> dict[int, str]:
    """Return the index of each program at which buckets stopped, and the table that names them."""
    found = (re.fullmatch(f"{_STOPPED} ([0-9]+)", name) for name in names)
    return {int(match[1]): match[0] for match in found if match}


def are_silent(programs: Steps) -> bool:
    """Return True if all programs are silent (:func:`is_silent`), leaving out each `IfRows`."""
    return all(isinstance(one, IfRows) or is_silent(one) for one in programs)


def trimmed(programs: Steps) -> tuple[Program | IfRows, ...]:
    """Return the programs without each `IfRows` after the last program."""
    count = max(n for n, program in enumerate(programs, 1) if not isinstance(program, IfRows))
    return tuple(programs[:count])


def name_of(program: Program) -> str:
    """Return the name of a program for progress lines: ``EndRound, LiveRoute`` if together."""
    if isinstance(program, Prefixed):
        return program.prefix + name_of(program.program)
    if isinstance(program, Together):
        return ", ".join(name_of(one) for one in program.programs)
    return type(program).__name__.strip("_")


def step_of(program: Program) -> str:
    """Return the name of a program with that of its system, or of its package, for errors."""
    if isinstance(program, Prefixed):  # the prefix is that of the system
        return name_of(program)
    one = program.programs[0] if isinstance(program, Together) else program
    package = type(one).__module__.removeprefix("scribe_spark.").partition(".")[0]
    return f"{package} {name_of(program)}"
