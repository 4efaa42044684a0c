"""Rounds of a world that the driver plays: each superstep is a Spark job.

References
----------
G. Malewicz et al.: Pregel: a system for large-scale graph processing, SIGMOD 2010.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import BucketTables
from scribe_spark.engine.on_spark_player import OnSpark
from scribe_spark.pastry.lookups import Lookups, try_routes
from scribe_spark.runtime.sessions import local_frame
from scribe_spark.scribe.events import JOINING, QUITTING
from scribe_spark.worlds.played import (
    EventsByRound,
    Played,
    RoundLeft,
    are_rounds,
    event_rows,
    lookup_table,
    lookups_of,
)
from scribe_spark.worlds.world_state import Protocols, WorldState

#: If a round has more joins and quits than this, they are sent to the buckets of their nodes and
#: not collected on the driver.
MANY = 2**16

#: The kinds of events of which a round may have many -> the messages to their nodes.
_MEMBERSHIPS = {"join": JOINING, "quit": QUITTING}


class OnDriver:
    """A world whose rounds the driver plays, from round `number`; executors hold its tables."""

    def __init__(
        self, rows: DataFrame, ring: BucketRing, protocols: Protocols, number: int
    ) -> None:
        self._ring, self._protocols, self._next = ring, protocols, number
        self._tables = BucketTables(ring.layout, rows)
        self._tables.settle()
        engine = OnSpark(self._tables)
        self._state = WorldState.of_engine(engine, ring.facts, ring.bounds, protocols)

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
        """Play rounds until a time limit; see `InTasks.play`."""
        started = time.monotonic()
        many: dict[int, DataFrame] = {}
        if self._protocols.groups is not None and not self._protocols.systems.systems:
            events, many = _many_memberships(events)
        by_round = EventsByRound(event_rows(add(events)).toArrow())
        left: list[RoundLeft] = []

        def memberships(number: int) -> DataFrame | None:
            return self._messages(many[number]) if number in many else None

        for number, done, played in self._state.play_rounds(
            rounds, by_round, time.monotonic(), messages, memberships
        ):
            lookups = lookup_table(done.result.lookups, self._state.ring.node)
            told = replace(played, costs=self._tables.costs)
            left.append(RoundLeft(told, done.tables, lookups, done.outcomes))
            self._next = number + 1
            if tell is not None:
                tell(number, told)
            if time.monotonic() - started >= seconds:
                break
        return left

    def _messages(self, memberships: DataFrame) -> DataFrame:
        """Return joins and quits as messages to their nodes: `ROWS`; lazy."""
        assert self._protocols.groups is not None
        numbers = self._protocols.groups.numbers

        def columns(facts: Facts, batch: pa.RecordBatch) -> Columns:
            return {"group": np.searchsorted(numbers, batch.column("group").to_numpy())}

        joins, quits = (
            self._ring.messages(memberships.where(F.col("event") == event), kind, "node", columns)
            for event, kind in _MEMBERSHIPS.items()
        )
        return joins.unionByName(quits)

    def route(self, messages: pa.Table) -> DataFrame:
        """Route messages through the current tables; see `InTasks.route`."""
        node, keys = lookups_of(messages)
        found = try_routes(self._state.player, Lookups(self._ring.facts.positions(node), keys))
        table = lookup_table(found, self._state.ring.node)
        return local_frame(self._ring.layout.spark, table)

    def release(self) -> None:
        """Free the tables on the executors."""
        self._state.player.release()


def _many_memberships(events: DataFrame) -> tuple[DataFrame, dict[int, DataFrame]]:
    """Take the joins and quits of rounds with many from events, without collecting them."""
    is_change = F.col("event").isin(*_MEMBERSHIPS)
    counts = events.where(is_change).groupBy("round").count().where(F.col("count") > MANY)
    many: dict[int, DataFrame] = {}
    for number in counts.toArrow().column("round").to_pylist():
        is_here = is_change & are_rounds(number, number)
        many[number] = events.where(is_here).select("node", "event", "group")
        events = events.where(~is_here)
    return events, many
