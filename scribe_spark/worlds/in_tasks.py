"""Rounds of a world in one Spark job whose tasks keep their buckets in memory.

The job reads the tables of the world and the events; it returns the new tables and the results of
each round.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.task_reports import Address, Reporter, receive_reports
from scribe_spark.worlds.played import (
    EventsByRound,
    Played,
    RoundLeft,
    event_rows,
    lookup_table,
    lookups_of,
)
from scribe_spark.worlds.world_state import Protocols, WorldState

#: The time limit in seconds of a job of rounds whose tasks cannot report rounds to the driver.
_UNHEARD = 1.0

#: The table of the first bucket that holds the results of a job, pickled.
_RESULTS = "results of rounds"


class InTasks:
    """A world whose rounds are played in tasks that keep their buckets.

    `rows` (`ROWS`) are materialised; they are freed when they are replaced.
    """

    def __init__(self, rows: DataFrame, ring: BucketRing, protocols: Protocols) -> None:
        self._start: DataFrame | None = rows
        self._tables = BucketTables(ring.layout, rows)
        self._facts, self._spark = ring.facts, ring.layout.spark
        #: Returns the world on the tables of a task and of the tasks that it is connected to.
        self._state: Callable[[InTask], WorldState] = partial(
            WorldState.of_engine, facts=ring.facts, bounds=ring.bounds, protocols=protocols
        )

    @property
    def rows(self) -> DataFrame:
        """The rows of the world: `ROWS`; lazy."""
        return self._tables.rows()

    def play(
        self,
        rounds: range,
        events: DataFrame,
        add: Callable[[DataFrame], DataFrame],
        seconds: float,
        tell: Callable[[int, Played], None] | None = None,
        *,
        messages: bool = False,
    ) -> list[RoundLeft]:
        """Play rounds until a time limit; return the results of each.

        Parameters
        ----------
        events : DataFrame
            The events of `rounds`, checked: `schemas.EVENTS`.
        add : callable
            Adds unchecked events to a table of events.
        seconds : float
            No round begins when the job is older than this.
        tell : callable, optional
            Called for each round with its number and its results, while the job runs if tasks can
            report to the driver.
        messages : bool
            If True, the messages of the last round are kept.
        """
        if tell is None:
            return self._play(rounds, add(events), seconds, None, messages)
        teller = _Teller(tell, rounds)
        with receive_reports(self._spark, teller.take) as address:
            limit = min(seconds, _UNHEARD) if address is None else seconds
            done = self._play(rounds, add(events), limit, address, messages)
        for number, left in zip(rounds, done, strict=False):
            teller.tell(number, left.played)
        return done

    def _play(
        self,
        rounds: range,
        events: DataFrame,
        seconds: float,
        report_to: Address | None,
        messages: bool,
    ) -> list[RoundLeft]:
        of_engine = self._state

        def play(player: InTask, events: pa.Table) -> None:
            reporter, limit = Reporter(report_to), seconds
            if report_to is not None and not reporter.is_heard:
                limit = min(seconds, _UNHEARD)
            by_round = EventsByRound(events)
            del events  # the table would stay in memory during all rounds
            _play_rounds(of_engine, player, by_round, rounds, limit, reporter, messages)
            reporter.close()

        called = f"world rounds from {rounds[0]}"
        self._tables.play_in_tasks(play, called, beside=event_rows(events))
        self._release_start()
        return _take_results(self._tables)

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages ``node, key_hi, key_lo`` through the current tables: `schemas.LOOKUPS`."""
        of_engine, (node, keys) = self._state, lookups_of(messages)
        lookups = Lookups(self._facts.positions(node), keys)

        def route(player: InTask, beside: pa.Table) -> None:
            state = of_engine(player)
            found = lookup_table(try_routes(state.player, lookups), state.ring.node)
            player.release()  # the tables are unchanged and need not be returned
            if not player.first:
                _put_results(player, found)

        tables = self._tables.fork()
        try:
            tables.play_in_tasks(route, "routes")
            found = _take_results(tables)
        finally:
            tables.release()
        return local_frame(self._spark, found)

    def release(self) -> None:
        """Free the rows."""
        self._tables.release()
        self._release_start()

    def _release_start(self) -> None:
        if self._start is not None:
            release(self._start)
            self._start = None


class _Teller:
    """Reports each round once, even if a repeated task reports it twice."""

    def __init__(self, tell: Callable[[int, Played], None], rounds: range) -> None:
        self._tell, self._next = tell, rounds[0]

    def take(self, report: dict[str, Any]) -> None:
        """Receive the report of a task."""
        self.tell(report["round"], Played(report["measures"], report["seconds"]))

    def tell(self, number: int, played: Played) -> None:
        """Report a round that was not reported before."""
        if number == self._next:
            self._next += 1
            self._tell(number, played)


def _play_rounds(
    of_engine: Callable[[InTask], WorldState],
    player: InTask,
    events: EventsByRound,
    rounds: range,
    seconds: float,
    reporter: Reporter,
    messages: bool,
) -> None:
    """Play rounds on the tables of a task until the time limit; store results beside the tables."""
    started, left = time.monotonic(), list[RoundLeft]()
    state = of_engine(player)
    for number, done, played in state.play_rounds(rounds, events, started, messages):
        last, last_number = done, number
        if not player.first:
            report = {"round": number, "seconds": played.seconds, "measures": played.measures}
            reporter.report(report)
            left.append(RoundLeft(played, done.tables))
        if not player.agree(time.monotonic() - started < seconds):
            break
    player.tables[0].update(state.tables(last_number + 1, player.first))
    if not player.first:
        left[-1].lookups = lookup_table(last.result.lookups, state.ring.node)
        left[-1].outcomes = dict(last.outcomes)
        _put_results(player, left)


def _put_results(player: InTask, results: Any) -> None:
    """Store the results of a job in a table of the first bucket."""
    data = np.frombuffer(pickle.dumps(results), np.uint8)
    player.tables[0][_RESULTS] = {"bytes": data}


def _take_results(tables: BucketTables) -> Any:
    """Take the results of a job, which its tasks have stored."""
    ((_, _, packed),) = tables.take(_RESULTS)
    return pickle.loads(packed["bytes"].tobytes())
