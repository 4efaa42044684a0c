"""The one loop of the simulation, as in Pregel: vertex state beside messages, round by round.

A superstep reads the messages that have arrived (the *inbox*) and the state of the nodes that they
are at, and makes changes of state and new messages (the *outbox*).  The loop owns everything that
makes this cheap and flat in memory: it materialises, counts and releases; no other module persists
or checkpoints in a loop.

References
----------
G. Malewicz et al.: Pregel: a system for large-scale graph processing, SIGMOD 2010.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from scribe_spark.progress import Progress, Silent
from scribe_spark.runtime.blocks import (
    count_and_materialise,
    materialise,
    release,
)
from scribe_spark.runtime.concurrent_jobs import Submit, concurrent_jobs
from scribe_spark.runtime.sessions import describe_jobs
from scribe_spark.superstep.step import Arrival, Round, State, Step, StepFunction
from scribe_spark.superstep.table import Change, Table

__all__ = ["Finished", "run"]

#: Rounds from one in which estimates of sizes are forgotten to the next.
_FORGET = 8


@dataclass(frozen=True)
class Finished:
    """What a loop leaves, besides the state that it was given.

    Attributes
    ----------
    messages : tuple of int
        Messages of each round.
    """

    messages: tuple[int, ...]
    _outcomes: Table | None

    def outcomes(self) -> DataFrame | None:
        """The outcomes of all rounds; None if there were none."""
        return self._outcomes.rows() if self._outcomes is not None else None

    def release(self) -> None:
        """Free the outcomes' blocks."""
        if self._outcomes is not None:
            self._outcomes.release()


def run(
    name: str,
    first: DataFrame,
    step: StepFunction,
    *,
    state: State | None = None,
    arrival: Arrival | None = None,
    counts: Mapping[str, Column] | None = None,
    limit: int = 10_000,
    progress: Progress | None = None,
) -> Finished:
    """Run supersteps until no message is left.

    Parameters
    ----------
    name : str
        What the progress report calls the loop; its jobs are ``NAME round N`` in Spark's UI.
    first : DataFrame
        The messages of round 0, partitioned by node.
    step : callable
        ``step(state, inbox, round) -> Step``.
    state : dict of Table, optional
        The vertex state.  The loop writes a round's changes into it; it is the caller's to read
        and to release.
    arrival : callable, optional
        What becomes of messages before they are the inbox (those to nodes that do not exist are
        left out there); without it they are the inbox.
    counts : dict of Column, optional
        Conditions on the inbox's rows; how many satisfy each is known to the step.
    limit : int
        More rounds than this mean that the messages never end.

    Raises
    ------
    RuntimeError
        `limit` rounds were not enough.
    """
    progress = progress or Silent()
    outbox: DataFrame | None = first
    messages: list[int] = []
    started = time.perf_counter()
    with ExitStack() as on_failure, concurrent_jobs(first.sparkSession) as submit:
        loop = _Loop(name, state or {}, counts or {}, arrival, submit)
        on_failure.callback(loop.abandon)
        for number in range(limit):
            # 1. materialise the inbox: one job computes it, cuts its lineage and counts it
            inbox, round = loop.receive(number, outbox)
            # 2. stop
            if inbox is None or round.messages == 0:
                loop.close()
                on_failure.pop_all()
                return Finished(tuple(messages), loop.outcomes)
            # 3. step
            done = step(loop.state, inbox, round)
            # 4. begin to materialise what changes and what leaves the loop, beside the next inbox
            loop.apply(done, inbox, round)
            # 5. report
            messages.append(round.messages)
            now = time.perf_counter()
            progress.round(name, number, round.messages, now - started)
            started, outbox = now, done.outbox
        raise RuntimeError(f"{name}: messages still on their way after {limit} rounds")


@dataclass(frozen=True)
class _Pending:
    """A change of a table, being materialised."""

    table: Table
    change: Change
    materialised: Future[tuple[DataFrame, int]]

    def write(self) -> None:
        self.table.write(self.change, *self.materialised.result())

    def release(self) -> None:
        if self.materialised.done() and not self.materialised.exception():
            release(self.materialised.result()[0])


class _Loop:
    """The blocks of a loop: which are needed still, and when they are freed."""

    def __init__(
        self,
        name: str,
        state: State,
        counts: Mapping[str, Column],
        arrival: Arrival | None,
        submit: Submit,
    ) -> None:
        self.name, self.state, self.counts = name, state, counts
        self.arrival, self._submit = arrival, submit
        self.outcomes: Table | None = None
        self._inbox: tuple[DataFrame, int] | None = None
        self._keep_inbox = self._forget = False
        self._pending: list[_Pending] = []
        self._temporary: list[DataFrame] = []

    def receive(self, number: int, outbox: DataFrame | None) -> tuple[DataFrame | None, Round]:
        """The inbox of a round; what the round before has left is settled and freed.

        The outbox is computed from the inbox and the state of the round before, so both stay as
        they were until it is materialised.
        """
        inbox, rows, counted = None, 0, dict.fromkeys(self.counts, 0)
        if outbox is not None:
            arrived = outbox if self.arrival is None else self.arrival(outbox)
            with describe_jobs(outbox.sparkSession, f"{self.name} round {number}"):
                self._forget = number % _FORGET == 0
                inbox, rows, counted = count_and_materialise(arrived, self.counts, self._forget)
        self.close()
        self._inbox = None if inbox is None else (inbox, rows)
        return inbox, Round(number, rows, counted)

    def apply(self, done: Step, inbox: DataFrame, round: Round) -> None:
        """Begin to materialise a step's changes and outcomes."""
        self._temporary.extend(done.temporary)
        with describe_jobs(inbox.sparkSession, f"{self.name} round {round.number}"):
            for table, changes in done.changes.items():
                self._begin(self.state[table], changes, round.messages)
            if done.outcomes is inbox:  # materialised already
                self._keep_inbox = True
            elif done.outcomes is not None:
                self._add_outcomes(done.outcomes, round.messages)

    def _begin(self, table: Table, changes: DataFrame, most: int) -> None:
        change = table.prepare(changes, most)
        self._pending.append(
            _Pending(table, change, self._submit(materialise, change.frame, self._forget))
        )

    def _outcomes_like(self, frame: DataFrame) -> Table:
        if self.outcomes is None:
            self.outcomes = Table(frame.columns, append_only=True)
        return self.outcomes

    def _add_outcomes(self, frame: DataFrame, most: int) -> None:
        self._begin(self._outcomes_like(frame), frame, most)

    def close(self) -> None:
        """Write the changes of the last round into the state, free its messages."""
        while self._pending:
            self._pending[0].write()
            del self._pending[0]
        inbox, self._inbox = self._inbox, None
        if inbox is not None and self._keep_inbox:
            self._outcomes_like(inbox[0]).write(Change(inbox[0]), *inbox)
        elif inbox is not None:
            release(inbox[0])
        self._keep_inbox = False
        self._release_temporary()

    def _release_temporary(self) -> None:
        for table in self._temporary:
            release(table)
        self._temporary.clear()

    def abandon(self) -> None:
        """Free all that the loop made, but for the state."""
        for pending in self._pending:
            pending.release()
        if self._inbox is not None:
            release(self._inbox[0])
        if self.outcomes is not None:
            self.outcomes.release()
        self._release_temporary()
