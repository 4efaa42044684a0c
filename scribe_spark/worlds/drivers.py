"""Rounds of a world: in one Spark job whose tasks keep their buckets, or a job for each superstep
(as Pregel does: Malewicz et al., SIGMOD 2010).
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DecimalType

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP, NONE, whole_numbers
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import in_task, on_spark
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts, Keys
from scribe_spark.engine.packing import take
from scribe_spark.pastry.round import LookupResults, Lookups, no_lookups, try_routes
from scribe_spark.rounds.event_rows import event_codes
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.task_reports import Reporter, receive_reports
from scribe_spark.systems.scribe import upcalls
from scribe_spark.worlds.save import Start
from scribe_spark.worlds.world_state import EventsOf, Played, Protocols, WorldState

#: Makes the application of anycasts for a number of nodes.
MakeApplication = Callable[[int], upcalls.ScribeApplication]

#: ``tell(number, results)`` is called for each round that has been played.
Tell = Callable[[int, Played], None]

#: The time limit in seconds of a job of rounds whose tasks cannot report rounds to the driver.
_UNHEARD = 1.0

#: The table of the first bucket that holds the results of a job, pickled.
_RESULTS = "results of rounds"


# --- events


_ROUND = DecimalType(20, 0)


def are_rounds(first: int, last: int) -> Column:
    """Return a Column of Spark that is True for rows of the rounds `first` to `last`."""
    # DECIMALs, because Spark would write integers into generated code, anew for each job
    return F.col("round").cast(_ROUND).between(F.lit(Decimal(first)), F.lit(Decimal(last)))


def event_rows(events: DataFrame) -> DataFrame:
    """Return events as `schemas.WORLD_EVENTS`; the given ones may lack the column `group`."""
    if "group" not in events.columns:
        events = events.withColumn("group", F.lit(None))
    schema = schemas.events_of(schemas.WORLD_EVENTS, events.columns)
    return events.select(*(F.col(one.name).cast(one.dataType).alias(one.name) for one in schema))


@dataclass(frozen=True)
class EventFiles:
    """The events of a world (`schemas.WORLD_EVENTS`) in Parquet files that all tasks can read."""

    files: tuple[str, ...]

    def read(self, rounds: range) -> pa.Table:
        """Return the events of some rounds, as `schemas.WORLD_EVENTS`."""
        wanted = [("round", ">=", rounds[0]), ("round", "<=", rounds[-1])]
        return pq.read_table(list(self.files), filters=wanted, partitioning=None, use_threads=False)


def events_by_round(given: pa.Table) -> EventsOf:
    """Return a function of a round that returns its events, and forgets them.

    `given` is a table `schemas.WORLD_EVENTS`.  The result has ``node, event, group``: events by
    their codes, and `NO_GROUP` where there is no group.  In a world with a schedule there are also
    ``time`` in microseconds and ``size`` in bytes, NONE where there are none.
    """
    rounds = given.column("round").to_numpy()
    event = given.column("event").combine_chunks().dictionary_encode()
    codes = event_codes(np.array(event.dictionary.to_pylist(), dtype=object))
    columns = {
        "node": given.column("node").to_numpy(),
        "event": codes[event.indices.to_numpy()],
        "group": given.column("group").fill_null(NO_GROUP).to_numpy(),
    }
    for name, times in (("time", MICROSECONDS), ("size", 1)):
        if name in given.column_names:
            columns[name] = _amounts(given.column(name), times)
    none = {name: whole_numbers() for name in columns}
    order = np.argsort(rounds, kind="stable")
    found, starts = np.unique(rounds[order], return_index=True)
    of = {
        number: take(columns, rows)
        for number, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=False)
    }
    return lambda number: of.pop(number, none)


def _amounts(cells: pa.ChunkedArray, times: int) -> np.ndarray:
    """Return cells multiplied by `times`: int64; NONE for NULL, NONE - 1 for a negative cell."""
    values = np.nan_to_num(cells.cast(pa.float64()).fill_null(0).to_numpy(), nan=-1)
    found = np.rint(np.clip(values * times, 0, 2**62)).astype(np.int64)
    found[values < 0] = NONE - 1
    found[cells.is_null().to_numpy()] = NONE
    return found


def lookup_table(found: LookupResults, number: np.ndarray) -> pa.Table:
    """Return results of lookups as `schemas.LOOKUPS`, with the numbers (K,) of nodes."""
    columns = {
        "source": number[found.source],
        "key_hi": found.keys.hi.view(np.int64),
        "key_lo": found.keys.lo.view(np.int64),
        "at": number[found.at],
        **{name: getattr(found, name) for name in ("delivered", "right", "hops", "lost")},
    }
    return pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))


# --- a job for many rounds


class _Driver:
    """A driver of a world; its queries leave the world as it is."""

    _facts: Facts

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages ``node, key_hi, key_lo`` through the current tables: `schemas.LOOKUPS`."""
        node, hi, lo = (messages.column(name).to_numpy() for name in messages.column_names)
        keys = Keys(hi.view(np.uint64), lo.view(np.uint64))
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
            self._release_start()
        return self._tables

    def play(
        self,
        rounds: range,
        given: DataFrame | EventFiles,
        seconds: float,
        tell: Tell,
        *,
        messages: bool = False,
    ) -> list[Played]:
        """Play rounds with `given` events until a job is `seconds` old; return their results.

        ``tell(number, results)`` is called while the job runs if tasks can report to the driver.
        With `messages`, those of the last round are kept.
        """
        of_engine, fill = self._state, self._fill
        files = given if isinstance(given, EventFiles) else None
        told = rounds[0]

        def tell_once(number: int, played: Played) -> None:
            nonlocal told
            if number == told:  # a repeated task may report a round again
                told += 1
                tell(number, played)

        def told_by_task(report: Any) -> None:
            number, seconds, measures = report
            tell_once(number, Played(measures, seconds=seconds))

        with receive_reports(self._spark, told_by_task) as address:

            def play(player: in_task.InTask, events: pa.Table | None = None) -> None:
                if fill is not None:
                    fill(player)
                reporter = Reporter(address)
                limit = seconds if reporter.is_heard else min(seconds, _UNHEARD)
                if files is not None:
                    events = files.read(rounds)
                by_round = events_by_round(events)
                del events  # the table would stay in memory during all rounds
                _play_rounds(of_engine, player, by_round, rounds, limit, reporter, messages)
                reporter.close()

            beside = None if isinstance(given, EventFiles) else given
            self._tables.play_in_tasks(play, f"world rounds from {rounds[0]}", beside=beside)
        self._release_start()
        done = _take_results(self._tables)
        for number, played in zip(rounds, done, strict=False):
            tell_once(number, played)
        return done

    def _ask(self, ask: Callable[[WorldState], pa.Table], called: str) -> DataFrame:
        """Play an orchestrator on a copy of the tables, and return the table that it returns."""
        of_engine = self._state

        def play(player: in_task.InTask) -> None:
            found = ask(of_engine(player))
            player.release()  # the tables are unchanged and need not be returned
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
        self._fill = None
        if self._start is not None:
            release(self._start)
            self._start = None


def _play_rounds(
    of_engine: Callable[[in_task.InTask], WorldState],
    player: in_task.InTask,
    events: EventsOf,
    rounds: range,
    seconds: float,
    reporter: Reporter,
    messages: bool,
) -> None:
    """Play `rounds` on the tables of a task, until `seconds` are over; store results there, too."""
    started, left = time.monotonic(), list[Played]()
    state = of_engine(player)
    for number, played in state.play_rounds(rounds, events, started, messages):
        last = number
        # the driver needs lookups and multicasts of the last round only
        left[-1:] = [replace(one, lookups=no_lookups(), multicasts={}) for one in left[-1:]]
        left.append(played)
        if not player.first:
            reporter.report((number, played.seconds, played.measures))
        if not player.agree(time.monotonic() - started < seconds):
            break
    player.tables[0].update(state.tables(last + 1, player.first))
    _put_results(player, left)


def _put_results(player: in_task.InTask, results: Any) -> None:
    """Store the results of a job in a table of the first bucket, for :func:`_take_results`."""
    if not player.first:
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
        self._next, self._facts, self._spark = number, ring.facts, ring.layout.spark
        tables = on_spark.BucketTables(ring.layout, start.rows)
        tables.settle()
        self._engine = on_spark.OnSpark(tables)
        if start.fill is not None:
            start.fill(self._engine)
        self._state = WorldState.of_engine(self._engine, ring.facts, ring.bounds, protocols)
        release(start.rows)

    @property
    def rows(self) -> DataFrame:
        """The rows of the world (`ROWS`), in which its buckets are stored; lazy."""
        own = pa.Table.from_batches(self._state.rows(self._next))
        return self._engine.tables.rows().unionByName(local_frame(self._spark, own))

    def play(
        self,
        rounds: range,
        given: DataFrame,
        seconds: float,
        tell: Tell,
        *,
        messages: bool = False,
    ) -> list[Played]:
        """Play rounds until a time limit; see `InTasks.play`."""
        started, left = time.monotonic(), list[Played]()
        events = events_by_round(given.toArrow())
        for number, played in self._state.play_rounds(rounds, events, time.monotonic(), messages):
            left.append(replace(played, costs=self._engine.tables.costs))
            self._next = number + 1
            tell(number, left[-1])
            if time.monotonic() - started >= seconds:
                break
        return left

    def _ask(self, ask: Callable[[WorldState], pa.Table], called: str) -> DataFrame:
        return local_frame(self._spark, ask(self._state))

    def release(self) -> None:
        """Free the tables on the executors."""
        self._state.player.release()
