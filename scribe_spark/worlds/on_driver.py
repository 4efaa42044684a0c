"""Rounds of a world that the driver plays: each superstep is a Spark job.

References
----------
G. Malewicz et al.: Pregel: a system for large-scale graph processing, SIGMOD 2010.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.errors import InputError
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.events import ImpossibleRound
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.events import JOINING, QUITTING
from scribe_spark.worlds.played import (
    EventsByRound,
    Played,
    RoundLeft,
    event_columns,
    is_round,
    lookup_table,
)
from scribe_spark.worlds.world_state import Protocols, WorldState

#: If a round has more joins and quits than this, they are sent to the buckets of their nodes and
#: not collected on the driver.
MANY = 2**16

#: The kinds of events of which a round may have many.
_MEMBERSHIPS = ("join", "quit")


class OnDriver:
    """A world whose rounds the driver plays; the executors hold its tables.

    Parameters
    ----------
    rows : DataFrame
        The rows of the world: `ROWS`.
    ring : BucketRing
        The ring of all nodes.
    protocols : Protocols
    number : int
        The number of the next round.
    """

    def __init__(
        self, rows: DataFrame, ring: BucketRing, protocols: Protocols, number: int
    ) -> None:
        self._ring, self._protocols, self._next = ring, protocols, number
        tables = BucketTables(ring.layout, rows)
        tables.settle()
        self._tables = tables
        self._state = WorldState.of_engine(OnSpark(tables), ring.facts, ring.bounds, protocols)

    @property
    def rows(self) -> DataFrame:
        """The rows of the world: `ROWS`; lazy."""
        own = pa.Table.from_batches(self._state.rows(self._next))
        return self._tables.rows().unionByName(local_frame(self._ring.layout.spark, own))

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
        """Play rounds until a time limit; see `InTasks.play`.

        Parameters
        ----------
        tell : callable, optional
            Called after each round with its number and its results.
        """
        started = time.monotonic()
        many: dict[int, DataFrame] = {}
        if self._protocols.groups is not None and not self._protocols.systems.systems:
            many = _many_memberships(events)
        rows = add(_without(events, many))
        by_round = EventsByRound(rows.select(*event_columns(rows)).toArrow())
        done: list[RoundLeft] = []
        for number in rounds:
            before = time.monotonic()
            memberships = self._messages(many[number]) if number in many else None
            try:
                played = self._state.play(number, by_round.take(number), messages, memberships)
            except ImpossibleRound as impossible:
                if done:  # the impossible round is refused when it is the first one
                    break
                raise InputError(
                    "round", number, f"cannot be played: {impossible.what}"
                ) from impossible
            now = time.monotonic()
            measures = {name: float(value) for name, value in played.measures.items()}
            told = Played(measures, now - before, self._tables.costs)
            lookups = lookup_table(played.result.lookups, self._state.ring.node)
            done.append(RoundLeft(told, played.of_groups, lookups, played.outcomes))
            self._next = number + 1
            if tell is not None:
                tell(number, told)
            if now - started >= seconds:
                break
        return done

    def _messages(self, memberships: DataFrame) -> DataFrame:
        """Return joins and quits as messages to their nodes: `ROWS`; lazy."""
        assert self._protocols.groups is not None
        numbers = self._protocols.groups.numbers

        def columns(facts: Facts, batch: pa.RecordBatch) -> Columns:
            return {"group": np.searchsorted(numbers, batch.column("group").to_numpy())}

        joins, quits = (
            self._ring.messages(memberships.where(F.col("event") == event), kind, "node", columns)
            for event, kind in (("join", JOINING), ("quit", QUITTING))
        )
        return joins.unionByName(quits)

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages through the current tables; see `InTasks.route`."""
        node, hi, lo = (messages.column(name).to_numpy() for name in messages.column_names)
        keys = Keys(hi.view(np.uint64), lo.view(np.uint64))
        found = try_routes(self._state.player, Lookups(self._ring.facts.positions(node), keys))
        table = lookup_table(found, self._state.ring.node)
        return local_frame(self._ring.layout.spark, table)

    def release(self) -> None:
        """Free the tables on the executors."""
        self._state.release()


def _many_memberships(events: DataFrame) -> dict[int, DataFrame]:
    """Return joins and quits of rounds with many, without collecting them on the driver."""
    changes = events.where(F.col("event").isin(*_MEMBERSHIPS))
    counts = changes.groupBy("round").count().where(F.col("count") > MANY).toArrow()
    return {
        number: changes.where(is_round(number)).select("node", "event", "group")
        for number in counts.column("round").to_pylist()
    }


def _without(events: DataFrame, rounds: Iterable[int]) -> DataFrame:
    """Return events without the joins and quits of some rounds."""
    for number in rounds:
        events = events.where(~(is_round(number) & F.col("event").isin(*_MEMBERSHIPS)))
    return events
