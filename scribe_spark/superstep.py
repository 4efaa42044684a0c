"""The one loop of the simulation: step, truncate, release, count, stop, report.

A superstep turns one table of messages into the next.  The loop owns everything that makes that
cheap and flat in memory; no other module persists or checkpoints in a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from scribe_spark.progress import Progress, Silent
from scribe_spark.runtime.blocks import (
    coalesce_to_shuffle_partitions,
    describe_jobs,
    materialise,
    release,
    union_tables,
)

__all__ = ["Log", "Rounds", "run"]

#: step(messages, past) -> messages: the next round's messages, lazily.
Step = Callable[[DataFrame, Sequence[DataFrame]], DataFrame]


@dataclass(frozen=True)
class Rounds:
    """What a loop leaves: one materialised table per round, to be released by the caller."""

    tables: tuple[DataFrame, ...]
    rows: tuple[int, ...]

    def union(self) -> DataFrame:
        """All rounds' rows in one DataFrame, of no more partitions than a round's."""
        return coalesce_to_shuffle_partitions(union_tables(self.tables))

    def release(self) -> None:
        """Free every round's blocks."""
        for table in self.tables:
            release(table)


def run(
    name: str,
    first: DataFrame,
    step: Step,
    *,
    harvest: Callable[[DataFrame], DataFrame] | None = None,
    limit: int = 10_000,
    progress: Progress | None = None,
) -> Rounds:
    """Run supersteps until a round has no message.

    Parameters
    ----------
    name : str
        What the progress report calls the loop; its jobs are ``NAME round N`` in Spark's UI.
    first : DataFrame
        The messages of round 0.
    step : callable
        ``step(messages, past) -> messages``; `past` holds the tables kept so far, this round's
        last.
    harvest : callable, optional
        The part of a round's table to keep; the rest is released once the next round stands, so
        memory does not grow with the number of rounds.  Without it whole tables are kept.
    limit : int
        More rounds than this mean that the messages never end.

    Raises
    ------
    RuntimeError
        `limit` rounds were not enough.
    """
    progress = progress or Silent()
    kept: list[DataFrame] = []
    counts: list[int] = []
    messages, before = first, None
    context = first.sparkSession.sparkContext
    started = time.perf_counter()
    for number in range(limit):
        # 1. truncate: one job computes the round, cuts its lineage and counts it
        with describe_jobs(context, f"{name} round {number}"):
            table, rows = materialise(messages)
        # 2. release the round before, which nothing needs any more
        if before is not None:
            release(before)
        # 3. stop
        if rows == 0:
            release(table)
            return Rounds(tuple(kept), tuple(counts))
        # 4. keep
        counts.append(rows)
        if harvest is None:
            kept.append(table)
        else:
            with describe_jobs(context, f"{name} round {number}"):
                part, any_part = materialise(harvest(table))
            if any_part:
                kept.append(part)
            else:
                release(part)
            before = table
        # 5. report
        now = time.perf_counter()
        progress.round(name, number, rows, now - started)
        started = now
        # 6. step
        messages = step(table, tuple(kept))
    raise RuntimeError(f"{name}: messages still on their way after {limit} rounds")


class Log:
    """The rows of all rounds so far as one table.

    A union of them costs more to plan with every round; this costs what its rows do.
    """

    def __init__(self) -> None:
        self._table: DataFrame | None = None

    def add(self, table: DataFrame) -> DataFrame:
        """Take in a round's table; all that was taken in so far."""
        before = self._table
        together = (
            table if before is None else coalesce_to_shuffle_partitions(before.unionByName(table))
        )
        self._table, _ = materialise(together)
        if before is not None:
            release(before)
        return self._table

    def release(self) -> None:
        """Free the table."""
        if self._table is not None:
            release(self._table)
