"""Rounds of a world in one Spark job whose tasks keep their buckets in memory.

The job reads the tables of the world and the events; it returns the new tables and the results of
each round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.in_task import InTask
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.errors import InputError
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.events import ImpossibleRound
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.runtime.task_reports import Address, Reporter
from scribe_spark.worlds.played import (
    EventsByRound,
    Played,
    RoundLeft,
    event_columns,
    lookup_table,
)
from scribe_spark.worlds.world_state import PlayedRound, Protocols, WorldState

#: The time limit in seconds of a job of rounds whose tasks cannot report rounds to the driver.
UNHEARD = 1.0

#: The table of the first bucket that holds the results of the job's rounds.
_RESULTS = "results of rounds"

#: The names of a round's results, in addition to `PlayedRound.of_groups`.
_MEASURES, _SECONDS, _LOOKUPS, _OUTCOMES = "measures", "seconds", "lookups", "outcomes"


@dataclass(frozen=True)
class _Job:
    """The data that all tasks of a job of rounds need; picklable."""

    facts: Facts
    bounds: np.ndarray
    protocols: Protocols

    def state(self, player: InTask) -> WorldState:
        """Return the world on the tables of this task and of the tasks that it is connected to."""
        return WorldState.of_engine(player, self.facts, self.bounds, self.protocols)


class InTasks:
    """A world whose rounds are played in tasks that keep their buckets.

    Parameters
    ----------
    rows : DataFrame
        The rows of the world (`ROWS`), materialised; freed when they are replaced.
    ring : BucketRing
        The ring of all nodes.
    protocols : Protocols
    """

    def __init__(self, rows: DataFrame, ring: BucketRing, protocols: Protocols) -> None:
        self._start: DataFrame | None = rows
        self._tables = BucketTables(ring.layout, rows)
        self._job, self._spark = _Job(ring.facts, ring.bounds, protocols), ring.layout.spark

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
        report_to: Address | None = None,
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
        report_to : Address, optional
            The address to which each finished round is reported: ``round, seconds, measures``.
        messages : bool
            If True, the messages of the last round are kept.

        Raises
        ------
        InputError
            The first round is impossible; the world is unchanged.
        """
        job = self._job

        def play(player: InTask, events: pa.Table) -> None:
            reporter, limit = Reporter(report_to), seconds
            if report_to is not None and not reporter.is_heard:
                limit = min(seconds, UNHEARD)
            by_round = EventsByRound(events)
            del events  # the table would stay in memory during all rounds
            _play(job, player, by_round, rounds, limit, reporter, messages)
            reporter.close()

        rows = add(events)
        called, beside = f"world rounds from {rounds[0]}", rows.select(*event_columns(rows))
        self._tables.play_in_tasks(play, called, beside=beside)
        self._release_start()
        return _read_rounds(self._tables)

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages through the current tables: `schemas.LOOKUPS`.

        Parameters
        ----------
        messages : pyarrow.Table
            ``node, key_hi, key_lo``.
        """
        job = self._job
        node, hi, lo = (messages.column(name).to_numpy() for name in messages.column_names)
        keys = Keys(hi.view(np.uint64), lo.view(np.uint64))

        def route(player: InTask, beside: pa.Table) -> None:
            state = job.state(player)
            lookups = Lookups(job.facts.positions(node), keys)
            found = lookup_table(try_routes(state.player, lookups), state.ring.node)
            player.release()  # the tables are unchanged and need not be returned
            if not player.first:
                results = _Results()
                results.add(0, _LOOKUPS, found)
                results.put(player)

        tables = self._tables.fork()
        try:
            tables.play_in_tasks(route, "routes")
            ((_, _, found),) = _read_results(tables)
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


def _play(
    job: _Job,
    player: InTask,
    events: EventsByRound,
    rounds: range,
    seconds: float,
    reporter: Reporter,
    messages: bool,
) -> None:
    """Play rounds on the tables of a task until the time limit; store results beside the tables."""
    started = before = time.monotonic()
    state, results = job.state(player), _Results()
    last, number = None, rounds[0]
    for number in rounds:
        try:
            done = state.play(number, events.take(number), messages)
        except ImpossibleRound as impossible:  # raised before anything is played
            if last is None:
                words = f"cannot be played: {impossible.what}"
                raise InputError("round", number, words) from None
            number -= 1
            break
        last, now = done, time.monotonic()
        took, before = now - before, now
        if not player.first:
            measures = {name: float(value) for name, value in done.measures.items()}
            reporter.report({"round": number, "seconds": took, "measures": measures})
            results.add_round(done, measures, number, took)
        if not player.agree(now - started < seconds):
            break
    assert last is not None
    player.tables[0].update(state.tables(number + 1, player.first))
    if not player.first:
        results.add(number, _LOOKUPS, lookup_table(last.result.lookups, state.ring.node))
        results.add(number, _OUTCOMES, pa.table(dict(last.outcomes)))
        results.put(player)


@dataclass
class _Results:
    """The results of rounds: tables with the number of the round and a name."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add_round(
        self, done: PlayedRound, measures: dict[str, float], number: int, seconds: float
    ) -> None:
        """Add the results of a round."""
        names, values = pa.array(list(measures), pa.string()), pa.array(list(measures.values()))
        self.add(number, _MEASURES, pa.table({"name": names, "value": values}))
        self.add(number, _SECONDS, pa.table({"value": [seconds]}))
        for name, table in done.of_groups.items():
            self.add(number, name, table)

    def add(self, number: int, name: str, table: pa.Table) -> None:
        """Add a table."""
        data = _to_bytes(table).to_pybytes()
        self.rows.append({"round": number, "name": name, "data": data})

    def put(self, player: InTask) -> None:
        """Store all results in a table of the player's bucket."""
        schema = pa.schema({"round": pa.int64(), "name": pa.string(), "data": pa.large_binary()})
        data = _to_bytes(pa.Table.from_pylist(self.rows, schema))
        player.tables[0][_RESULTS] = {"bytes": np.frombuffer(data, np.uint8)}


def _to_bytes(table: pa.Table) -> pa.Buffer:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _read_results(tables: BucketTables) -> list[tuple[int, str, pa.Table]]:
    """Take the results of a job from the tables: (round, name, table) of each."""
    ((_, _, packed),) = tables.take(_RESULTS)
    rows = pa.ipc.open_stream(pa.py_buffer(packed["bytes"])).read_all().to_pylist()
    return [(row["round"], row["name"], pa.ipc.open_stream(row["data"]).read_all()) for row in rows]


def _read_rounds(tables: BucketTables) -> list[RoundLeft]:
    """Take the results of the rounds of a job, in order."""
    found: dict[int, dict[str, pa.Table]] = {}
    for number, name, table in _read_results(tables):
        found.setdefault(number, {})[name] = table
    done = []
    for _, of in sorted(found.items()):
        names, values = of.pop(_MEASURES).to_pydict().values()
        seconds = of.pop(_SECONDS).column("value")[0].as_py()
        played = Played(dict(zip(names, values, strict=True)), seconds)
        outcomes = of.pop(_OUTCOMES, pa.table({}))
        more = {_LOOKUPS: of.pop(_LOOKUPS)} if _LOOKUPS in of else {}
        columns = {name: outcomes.column(name).to_numpy() for name in outcomes.column_names}
        done.append(RoundLeft(played, of, outcomes=columns, **more))
    return done
