"""Rounds of a world: in one Spark job whose tasks keep their buckets, or a job for each superstep
(as Pregel does: Malewicz et al., SIGMOD 2010).
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import index_sorted
from scribe_spark.engine import Columns, in_task, on_spark
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.pastry.round import Lookups, try_routes
from scribe_spark.rounds.group_events import JOINING, QUITTING
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.task_reports import ReportAddress, Reporter, receive_reports
from scribe_spark.systems.scribe import upcalls
from scribe_spark.worlds.played import (
    EventFiles,
    EventsByRound,
    Played,
    RoundLeft,
    are_rounds,
    event_rows,
    lookup_table,
    lookups_of,
)
from scribe_spark.worlds.save import Start
from scribe_spark.worlds.world_state import Protocols, WorldState

#: Makes the application of anycasts for a number of nodes.
MakeApplication = Callable[[int], upcalls.ScribeApplication]

#: The time limit in seconds of a job of rounds whose tasks cannot report rounds to the driver.
_UNHEARD = 1.0

#: The table of the first bucket that holds the results of a job, pickled.
_RESULTS = "results of rounds"

#: If a round has more joins and quits than this, the driver sends them to the buckets of their
#: nodes and does not collect them.
MANY = 2**16

#: The kinds of events of which a round may have many -> the messages to their nodes.
_MEMBERSHIPS = {"join": JOINING, "quit": QUITTING}


class _Driver:
    """A driver of a world; its queries leave the world as it is."""

    _facts: Facts

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages ``node, key_hi, key_lo`` through the current tables: `schemas.LOOKUPS`."""
        node, keys = lookups_of(messages)
        lookups = Lookups(self._facts.positions(node), keys)

        def route(state: WorldState) -> pa.Table:
            return lookup_table(try_routes(state.player, lookups), state.ring.node)

        return self._ask(route, "routes")

    def anycast(
        self, number: int, messages: pa.Table, application: MakeApplication | None
    ) -> DataFrame:
        """Send anycasts ``group, node, number`` after a round: `schemas.ANYCASTS`."""
        return self._ask(lambda state: state.anycast(number, messages, application), "anycasts")

    def _ask(self, ask: Callable[[WorldState], pa.Table], called: str) -> DataFrame:
        """Return the table that an orchestrator returns; `called` is the name of its Spark job."""
        raise NotImplementedError


class InTasks(_Driver):
    """A driver of a world whose rounds are played in tasks that keep their buckets."""

    def __init__(self, start: Start, ring: BucketRing, protocols: Protocols) -> None:
        self._start: DataFrame | None = start.rows
        self._fill = start.fill
        self._tables = on_spark.BucketTables(ring.layout, start.rows)
        self._facts, self._spark = ring.facts, ring.layout.spark
        #: Returns the world on the tables of a task and of the tasks that it is connected to.
        self._state: Callable[[in_task.InTask], WorldState] = partial(
            WorldState.of_engine, facts=ring.facts, bounds=ring.bounds, protocols=protocols
        )

    @property
    def rows(self) -> DataFrame:
        """The rows of the world (`ROWS`), in which its buckets are stored; lazy."""
        return self._filled.rows()

    @property
    def _filled(self) -> on_spark.BucketTables:
        """The tables of the buckets, in which nodes' tables are filled."""
        if (fill := self._fill) is not None:
            self._tables.play_in_tasks(fill, "overlay")
            self._fill = None
            self._release_start()
        return self._tables

    def play(
        self,
        rounds: range,
        events: DataFrame | EventFiles,
        add: Callable[[DataFrame], DataFrame],
        seconds: float,
        tell: Callable[[int, Played], None] | None = None,
        *,
        messages: bool = False,
    ) -> list[RoundLeft]:
        """Play rounds with checked `events` until a job is `seconds` old; return the results of
        each.

        ``add(events)`` adds unchecked events; ``tell(number, results)`` is called for each round,
        while the job runs if tasks can report to the driver.  With `messages`, those of the last
        round are kept.
        """
        given = events if isinstance(events, EventFiles) else add(events)
        if tell is None:
            return self._play(rounds, given, seconds, None, messages)
        teller = _Teller(tell, rounds)
        with receive_reports(self._spark, teller.take) as address:
            limit = min(seconds, _UNHEARD) if address is None else seconds
            done = self._play(rounds, given, limit, address, messages)
        for number, left in zip(rounds, done, strict=False):
            teller.tell(number, left.played)
        return done

    def _play(
        self,
        rounds: range,
        given: DataFrame | EventFiles,
        seconds: float,
        report_to: ReportAddress | None,
        messages: bool,
    ) -> list[RoundLeft]:
        of_engine, files = self._state, given if isinstance(given, EventFiles) else None
        fill = self._fill

        def play(player: in_task.InTask, events: pa.Table | None = None) -> None:
            if fill is not None:
                fill(player)
            reporter, limit = Reporter(report_to), seconds
            if report_to is not None and not reporter.is_heard:
                limit = min(seconds, _UNHEARD)
            if events is None:
                assert files is not None
                events = files.read(rounds)
            by_round = EventsByRound(events)
            del events  # the table would stay in memory during all rounds
            _play_rounds(of_engine, player, by_round, rounds, limit, reporter, messages)
            reporter.close()

        beside = None if isinstance(given, EventFiles) else event_rows(given)
        self._tables.play_in_tasks(play, f"world rounds from {rounds[0]}", beside=beside)
        self._fill = None
        self._release_start()
        return _take_results(self._tables)

    def _ask(self, ask: Callable[[WorldState], pa.Table], called: str) -> DataFrame:
        """Play an orchestrator on a copy of the tables, and return the table that it returns."""
        of_engine = self._state

        def play(player: in_task.InTask) -> None:
            found = ask(of_engine(player))
            player.release()  # the tables are unchanged and need not be returned
            if not player.first:
                _put_results(player, found)

        tables = self._filled.fork()
        try:
            tables.play_in_tasks(play, called)
            found = _take_results(tables)
        finally:
            tables.release()
        return local_frame(self._spark, found)

    def release(self) -> None:
        """Free the rows of the world."""
        self._tables.release()
        self._release_start()

    def _release_start(self) -> None:
        if self._start is not None:
            release(self._start)
            self._start = None


class _Teller:
    """The reporter of a job: it reports each round once, even if a repeated task does so twice."""

    def __init__(self, tell: Callable[[int, Played], None], rounds: range) -> None:
        self._tell, self._next = tell, rounds[0]

    def take(self, report: dict[str, Any]) -> None:
        self.tell(report["round"], Played(report["measures"], report["seconds"]))

    def tell(self, number: int, played: Played) -> None:
        """Report the results of a round, unless they have been reported."""
        if number == self._next:
            self._next += 1
            self._tell(number, played)


def _play_rounds(
    of_engine: Callable[[in_task.InTask], WorldState],
    player: in_task.InTask,
    events: EventsByRound,
    rounds: range,
    seconds: float,
    reporter: Reporter,
    messages: bool,
) -> None:
    """Play `rounds` on the tables of a task, until `seconds` are over; store results there, too."""
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
        left[-1].multicasts = last.multicasts
        _put_results(player, left)


def _put_results(player: in_task.InTask, results: Any) -> None:
    """Store the results of a job in a table of the first bucket, for :func:`_take_results`."""
    data = np.frombuffer(pickle.dumps(results), np.uint8)
    player.tables[0][_RESULTS] = {"bytes": data}


def _take_results(tables: on_spark.BucketTables) -> Any:
    """Take the results of a job from its tables, in which its tasks have stored them."""
    ((_, _, packed),) = tables.take(_RESULTS)
    return pickle.loads(packed["bytes"].tobytes())


# --- a job for each superstep


class OnDriver(_Driver):
    """A world whose rounds are played from the driver; executors hold its tables."""

    def __init__(self, start: Start, ring: BucketRing, protocols: Protocols, number: int) -> None:
        self._ring, self._protocols, self._next = ring, protocols, number
        self._facts, self._spark = ring.facts, ring.layout.spark
        tables = on_spark.BucketTables(ring.layout, start.rows)
        tables.settle()
        self._engine = on_spark.OnSpark(tables)
        if start.fill is not None:
            start.fill(self._engine)
        self._state = WorldState.of_engine(self._engine, ring.facts, ring.bounds, protocols)

    @property
    def rows(self) -> DataFrame:
        """The rows of the world (`ROWS`), in which its buckets are stored; lazy."""
        own = pa.Table.from_batches(self._state.rows(self._next))
        return self._engine.tables.rows().unionByName(local_frame(self._spark, own))

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
        """Play rounds until a time limit; see `InTasks.play`."""
        started = time.monotonic()
        many: dict[int, DataFrame] = {}
        systems = self._protocols.systems.systems.values()
        if systems and all(system.takes_messages for system in systems):
            events, many = _many_memberships(events)
        by_round = EventsByRound(event_rows(add(events)).toArrow())
        left: list[RoundLeft] = []

        def memberships(number: int) -> DataFrame | None:
            return self._messages(many[number]) if number in many else None

        for number, done, played in self._state.play_rounds(
            rounds, by_round, time.monotonic(), messages, memberships
        ):
            lookups = lookup_table(done.result.lookups, self._state.ring.node)
            told = replace(played, costs=self._engine.tables.costs)
            left.append(RoundLeft(told, done.tables, lookups, done.multicasts))
            self._next = number + 1
            if tell is not None:
                tell(number, told)
            if time.monotonic() - started >= seconds:
                break
        return left

    def _messages(self, memberships: DataFrame) -> DataFrame:
        """Return joins and quits as messages of the engine to their nodes: `ROWS`; lazy."""
        assert self._protocols.groups is not None
        numbers = self._protocols.groups.numbers

        def columns(facts: Facts, batch: pa.RecordBatch) -> Columns:
            return {"group": index_sorted(numbers, batch.column("group").to_numpy())}

        joins, quits = (
            self._ring.messages(memberships.where(F.col("event") == event), kind, "node", columns)
            for event, kind in _MEMBERSHIPS.items()
        )
        return joins.unionByName(quits)

    def _ask(self, ask: Callable[[WorldState], pa.Table], called: str) -> DataFrame:
        return local_frame(self._spark, ask(self._state))

    def release(self) -> None:
        """Free the tables on the executors."""
        self._state.player.release()


def _many_memberships(events: DataFrame) -> tuple[DataFrame, dict[int, DataFrame]]:
    """Return the other events, and the joins and quits of rounds with many of them, by round."""
    is_change = F.col("event").isin(*_MEMBERSHIPS)
    counts = events.where(is_change).groupBy("round").count().where(F.col("count") > MANY)
    many: dict[int, DataFrame] = {}
    for number in counts.toArrow().column("round").to_pylist():
        is_here = is_change & are_rounds(number, number)
        many[number] = events.where(is_here).select("node", "event", "group")
        events = events.where(~is_here)
    return events, many
