"""Rounds of a world in tasks that keep their buckets: one Spark job for many rounds.

The rows of the world and the events go in; its rows, and what each round leaves, come out.  The
tables of a bucket stay in the memory of its task from round to round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.engine import Tables
from scribe_spark.engine.barrier import Work, play_in_tasks, run_again_where_lost
from scribe_spark.engine.between_tasks import Exchange
from scribe_spark.engine.buckets import BucketRing, tables_by_bucket
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import ROWS
from scribe_spark.errors import InputError
from scribe_spark.living_checks import faults_of_tasks
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.events import ImpossibleRound
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.runtime.sessions import describe_jobs
from scribe_spark.runtime.task_reports import Address, Reporter
from scribe_spark.worlds.played import (
    EVENT,
    EventsByRound,
    Played,
    RoundLeft,
    event_columns,
    lookup_table,
)
from scribe_spark.worlds.world_state import PlayedRound, Protocols, WorldState

#: Seconds after which a job of rounds ends that cannot report them on its way.
UNHEARD = 1.0

#: The rows of the world, and its events, whose name is NULL.
_INPUT = StructType([*(StructField(one.name, one.dataType) for one in ROWS), *EVENT.fields])

#: The rows of the world, which are tables; and what each round leaves, which are none: the name,
#: and a stream of Arrow.
_OUTPUT = StructType([*ROWS.fields, StructField("round", LongType())])

#: Names of what rounds leave, besides `PlayedRound.of_groups`; that a round cannot be played.
_MEASURES, _SECONDS, _LOOKUPS, _OUTCOMES = "measures", "seconds", "lookups", "outcomes"
_REFUSED = "refused"


@dataclass(frozen=True)
class _Job:
    """The common data of the tasks of a job of rounds; picklable."""

    facts: Facts
    bounds: np.ndarray
    protocols: Protocols

    def state(
        self, rows: Iterable[pa.RecordBatch], exchange: Exchange
    ) -> tuple[WorldState, InTask]:
        """Return the world of some rows, in this task and those that it exchanges with."""
        found = tables_by_bucket(rows)
        engine = InTask([found.get(exchange.rank, Tables())], exchange)
        return WorldState.of_engine(engine, self.facts, self.bounds, self.protocols), engine


class InTasks:
    """A world whose rounds are played in tasks that keep their buckets.

    Parameters
    ----------
    rows : DataFrame
        `ROWS` of the world, materialised; they are freed when others take their place.
    ring : BucketRing
        All nodes.
    protocols : Protocols
    """

    def __init__(self, rows: DataFrame, ring: BucketRing, protocols: Protocols) -> None:
        self.rows, self._made, self._ring = rows, rows, ring
        self._job = _Job(ring.facts, ring.bounds, protocols)

    def play(
        self,
        rounds: range,
        events: DataFrame,
        add: Callable[[DataFrame], DataFrame],
        seconds: float,
        report_to: Address | None = None,
        *,
        messages: bool = False,
    ) -> list[RoundLeft]:
        """Play rounds, as many as some seconds allow.

        Parameters
        ----------
        events : DataFrame
            `schemas.EVENTS` of `rounds`, checked.
        add : callable
            Adds events that are not checked.
        seconds : float
            No further round begins when the tasks are older than this.
        report_to : Address, optional
            Where each round is reported as it ends: ``round, seconds, measures``.
        messages : bool
            Keep the messages of the last round.

        Raises
        ------
        InputError
            The first round cannot be played; the world stays as it was.
        """
        job = self._job

        def play(exchange: Exchange, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            reporter, limit = Reporter(report_to), seconds
            if report_to is not None and not reporter.is_heard:
                limit = min(seconds, UNHEARD)
            yield from _play(job, exchange, batches, rounds, limit, reporter, messages)
            reporter.close()

        spark = self._ring.layout.spark
        with describe_jobs(spark, f"world rounds from {rounds[0]}"), faults_of_tasks():
            frame = self._in_tasks(play, _OUTPUT, _event_rows(add(events)))
            made, _ = run_again_where_lost(lambda: materialise(frame))
            left = made.where(~F.col("table")).select("name", "data", "round").toArrow()
        try:
            done = _read_left(left, rounds)
        except InputError:
            release(made)
            raise
        self.release()
        self._made, self.rows = made, made.where("table").select(ROWS.names)
        return done

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages by what nodes know now: `schemas.LOOKUPS`; lazy.

        Parameters
        ----------
        messages : pyarrow.Table
            ``node, key_hi, key_lo``.
        """
        job = self._job
        node, hi, lo = (messages.column(name).to_numpy() for name in messages.column_names)
        keys = Keys(hi.view(np.uint64), lo.view(np.uint64))

        def route(
            exchange: Exchange, batches: Iterable[pa.RecordBatch]
        ) -> Iterator[pa.RecordBatch]:
            state, _ = job.state(_rows_of(batches), exchange)
            lookups = Lookups(job.facts.positions(node), keys)
            found = lookup_table(try_routes(state.player, lookups), state.ring.node)
            if not exchange.rank:
                yield from found.to_batches()

        return self._in_tasks(route, schemas.LOOKUPS)

    def _in_tasks(
        self, work: Work, schema: StructType, events: DataFrame | None = None
    ) -> DataFrame:
        """Return what the tasks of the buckets make of the rows and the events; lazy."""
        nothing = [F.lit(None).cast(one.dataType).alias(one.name) for one in EVENT]
        rows, buckets = self.rows.select(*ROWS.names, *nothing), self._ring.layout.buckets
        if events is not None:
            rows = rows.unionByName(events.withColumn("bucket", _every(buckets)))
        made = play_in_tasks(rows, buckets, work, schema)
        if buckets == 1:
            return made
        # behind a shuffle Spark plays a stage of tasks again where one is lost, and what is made
        # of the rows afterwards is no such stage
        return made.repartition(1) if schema is not _OUTPUT else self._ring.layout.partition(made)

    def release(self) -> None:
        """Free the rows."""
        release(self._made)


def _play(
    job: _Job,
    exchange: Exchange,
    batches: Iterable[pa.RecordBatch],
    rounds: range,
    seconds: float,
    reporter: Reporter,
    messages: bool,
) -> Iterator[pa.RecordBatch]:
    """Read the world, play rounds until time is up; yield what they leave, and the world."""
    started = before = time.monotonic()
    given = list(batches)
    events = EventsByRound(_events_of(given))
    state, engine = job.state(_rows_of(given), exchange)
    del given
    is_first = not exchange.rank
    last, number = None, rounds[0]
    for number in rounds:
        try:
            done = state.play(number, events.of(number), messages)
        except ImpossibleRound as impossible:  # nothing of the round has been played
            if last is None:
                if is_first:
                    yield _left(number, _REFUSED, pa.table({"what": [impossible.what]}))
                return
            number -= 1
            break
        last, now = done, time.monotonic()
        took, before = now - before, now
        if is_first:
            measures = {name: float(value) for name, value in done.measures.items()}
            reporter.report({"round": number, "seconds": took, "measures": measures})
            yield from _results(done, measures, number, took)
        if not engine.agree(now - started < seconds):
            break
    assert last is not None
    if is_first:
        yield _left(number, _LOOKUPS, lookup_table(last.result.lookups, state.ring.node))
        yield _left(number, _OUTCOMES, pa.table(dict(last.outcomes)))
    own = range(exchange.rank, exchange.rank + 1)
    for rows in (engine.rows(), state.rows(number + 1, own)):
        for batch in rows:
            yield _with_round(batch, None)


def _results(
    done: PlayedRound, measures: dict[str, float], number: int, seconds: float
) -> Iterator[pa.RecordBatch]:
    """Yield what a round leaves."""
    names, values = pa.array(list(measures), pa.string()), pa.array(list(measures.values()))
    yield _left(number, _MEASURES, pa.table({"name": names, "value": values}))
    yield _left(number, _SECONDS, pa.table({"value": [seconds]}))
    for name, table in done.of_groups.items():
        yield _left(number, name, table)


def _left(number: int, name: str, table: pa.Table) -> pa.RecordBatch:
    """Return a row of :data:`_OUTPUT` with a table that a round leaves."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data = sink.getvalue()
    values = [0, 0, False, name, len(table), None, data, 0, 1]
    arrays = [
        pa.array([data.to_pybytes() if value is data else value], one.type)
        for value, one in zip(values, to_arrow_schema(ROWS), strict=True)
    ]
    return _with_round(pa.RecordBatch.from_arrays(arrays, schema=to_arrow_schema(ROWS)), number)


def _with_round(rows: pa.RecordBatch, number: int | None) -> pa.RecordBatch:
    """Return rows of `ROWS` as rows of :data:`_OUTPUT`."""
    rounds = pa.array([number] * rows.num_rows, pa.int64())
    return pa.RecordBatch.from_arrays([*rows.columns, rounds], schema=to_arrow_schema(_OUTPUT))


def _read_left(left: pa.Table, rounds: range) -> list[RoundLeft]:
    """Return what rounds have left, in their order.

    Raises
    ------
    InputError
        The first of them cannot be played.
    """
    found: dict[int, dict[str, pa.Table]] = {}
    for row in left.to_pylist():
        table = pa.ipc.open_stream(row["data"]).read_all()
        found.setdefault(row["round"], {})[row["name"]] = table
    done = []
    for _, of in sorted(found.items()):
        if _REFUSED in of:
            what = of[_REFUSED].column("what")[0].as_py()
            raise InputError("round", rounds[0], f"cannot be played: {what}")
        names, values = of.pop(_MEASURES).to_pydict().values()
        seconds = of.pop(_SECONDS).column("value")[0].as_py()
        played = Played(dict(zip(names, values, strict=True)), seconds)
        outcomes = of.pop(_OUTCOMES, pa.table({}))
        more = {_LOOKUPS: of.pop(_LOOKUPS)} if _LOOKUPS in of else {}
        columns = {name: outcomes.column(name).to_numpy() for name in outcomes.column_names}
        done.append(RoundLeft(played, of, outcomes=columns, **more))
    return done


def _every(buckets: int) -> Column:
    """Return the numbers of all buckets, in a row each."""
    return F.lit(0) if buckets == 1 else F.explode(F.sequence(F.lit(0), F.lit(buckets - 1)))


def _event_rows(events: DataFrame) -> DataFrame:
    """Return events (`schemas.EVENTS`) as rows of :data:`_INPUT`; lazy."""
    nothing = [F.lit(None).cast(one.dataType).alias(one.name) for one in ROWS]
    return events.select(*nothing, *event_columns(events))


def _events_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return ``round, node, event, group`` of rows of :data:`_INPUT`."""
    names = EVENT.names
    parts = [
        batch.select(names).filter(pc.is_null(batch.column("name")))
        for batch in batches
        if batch.column("name").null_count
    ]
    return pa.Table.from_batches(parts, schema=to_arrow_schema(EVENT))


def _rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the world among rows of :data:`_INPUT`; nothing is copied."""
    for batch in batches:
        rows = batch.select(ROWS.names)
        if not batch.column("name").null_count:
            yield rows
            continue
        for at in np.flatnonzero(batch.column("name").is_valid()):
            yield rows.slice(int(at), 1)
