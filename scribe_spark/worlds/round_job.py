"""Rounds of a world as one Spark job: packed state and events in, packed state and results out.

One task plays them, as many as some seconds allow: to unpack the state and to pack it again costs
as much as a round.  A round of a thousand messages in supersteps takes some twenty Spark jobs, each
of which costs more than all of its messages; and what nodes know changes with every hop.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import InputError
from scribe_spark.pastry.arrivals.closeness import Keys
from scribe_spark.pastry.events import ImpossibleRound
from scribe_spark.pastry.live_knowledge import live_knowledge
from scribe_spark.pastry.lookups import LookupResults, Lookups, try_routes
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.player import InProcess
from scribe_spark.pastry.rules import WorldRules
from scribe_spark.pastry.traffic import Traffic
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.runtime.task_reports import Address, Reporter
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.live_world import PlayedRound, Protocols, unpack_overlay
from scribe_spark.worlds.packed import pack, unpack
from scribe_spark.worlds.state_table import NODES
from scribe_spark.worlds.world_rows import (
    BATCH,
    EVENT,
    LOOKUPS,
    MEASURE,
    MESSAGES,
    MULTICASTS,
    NEW_LEAFS,
    OF_GROUPS,
    REFUSED,
    SECONDS,
    STATE,
    WORLD_ROWS,
    as_rows,
    as_table,
)

__all__ = [
    "UNHEARD",
    "EventsByRound",
    "LastRound",
    "event_rows",
    "live_overlay",
    "lookup_columns",
    "message_table",
    "played",
    "routed",
]

#: Seconds after which a job of rounds ends that cannot report them on its way.
UNHEARD = 1.0


def played(
    state: DataFrame,
    events: DataFrame,
    rounds: range,
    seconds: float,
    protocols: Protocols,
    report_to: Address | None = None,
    messages: bool = False,
) -> DataFrame:
    """Everything after some rounds: :data:`WORLD_ROWS`, in one partition; lazy.

    The first of `rounds` that cannot be played leaves one row, `REFUSED`, whose name says why.  A
    later one that cannot be is not played.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`, before the first of `rounds`.
    events : DataFrame
        `schemas.EVENTS` of `rounds`.
    seconds : float
        No further round begins when the task is older than this.
    report_to : Address, optional
        Where each round is reported as it ends: ``round, seconds, measures``.
    messages : bool
        Keep the messages of the last round.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows, limit = read_partition(batches), seconds
        if rows is not None:
            reporter = Reporter(report_to)
            if report_to is not None and not reporter.is_heard:
                limit = min(seconds, UNHEARD)
            for table in _play(rows, rounds, limit, protocols, reporter, messages):
                yield from table.to_batches(BATCH)
            reporter.close()

    rows = as_rows(state, STATE).unionByName(event_rows(events))
    return rows.coalesce(1).mapInArrow(run, WORLD_ROWS)


def event_rows(events: DataFrame) -> DataFrame:
    """Return rows of :data:`WORLD_ROWS` of some events (`schemas.EVENTS`); lazy."""
    named = events.withColumn("name", F.col("event"))  # `group` may be missing: it is NULL then
    return as_rows(named, EVENT)


def _play(
    rows: pa.Table,
    rounds: range,
    seconds: float,
    protocols: Protocols,
    reporter: Reporter,
    messages: bool,
) -> Iterator[pa.Table]:
    """Unpack the state, play rounds until time is up, pack it again."""
    started = before = time.monotonic()
    what = rows.column("what").to_numpy()
    events = EventsByRound(rows.filter(pa.array(what == EVENT)))
    try:
        world = protocols.unpack(unpack(rows.filter(pa.array(what == STATE))))
    except InputError as refused:  # more groups and nodes than keys have room for
        yield as_table(REFUSED, {"name": pa.array([str(refused)])}, rounds[0])
        return
    for number in rounds:
        sent = Traffic() if messages else None
        try:
            done = protocols.play(world, number, events.of(number), sent)
        except ImpossibleRound as impossible:  # nothing of the round has been played
            if number == rounds[0]:
                yield as_table(REFUSED, {"name": pa.array([impossible.what])}, number)
                return
            break
        traffic = sent
        now = time.monotonic()
        took, before = now - before, now
        measures = {name: float(value) for name, value in done.measures.items()}
        reporter.report({"round": number, "seconds": took, "measures": measures})
        yield from _results(world.overlay, done, number, took)
        if now - started >= seconds:
            break
    if multicasts := done.multicasts():
        yield as_table(MULTICASTS, pack(multicasts))
    if traffic is not None:
        table = message_table(*traffic.named(world.overlay.states.known.node))
        yield as_table(MESSAGES, pack({"messages": table}))
    for name, table in protocols.pack(world):
        yield as_table(STATE, pack({name: table}))


class EventsByRound:
    """The events of some rounds: rows of :data:`WORLD_ROWS`."""

    def __init__(self, given: pa.Table) -> None:
        rounds = given.column("round").to_numpy()
        order = np.argsort(rounds, kind="stable")
        self._rounds = rounds[order]
        self._columns = {
            "node": given.column("node").to_numpy()[order],
            "event": given.column("name").to_numpy(zero_copy_only=False).astype(str)[order],
            "group": pc.fill_null(given.column("group"), NO_GROUP).to_numpy()[order],
        }

    def of(self, number: int) -> dict[str, np.ndarray]:
        """Return ``node, event, group`` of a round; the group is `NO_GROUP` where there is none."""
        first, last = np.searchsorted(self._rounds, [number, number + 1])
        return {name: column[first:last] for name, column in self._columns.items()}


@dataclass(frozen=True)
class LastRound:
    """What the last round of a world on buckets has left.

    Attributes
    ----------
    tables : dict of int to pyarrow.Table
        `LOOKUPS`.
    """

    tables: dict[int, pa.Table]

    @classmethod
    def of(cls, played: PlayedRound, number: np.ndarray) -> LastRound:
        """Return what a round has left; `number` has the nodes' numbers by position."""
        lookups = pa.Table.from_pydict(
            lookup_columns(played.result.lookups, number), schema=to_arrow_schema(schemas.LOOKUPS)
        )
        return cls({LOOKUPS: lookups})


def routed(state: DataFrame, messages: DataFrame, rules: WorldRules, kernel: Kernel) -> DataFrame:
    """Route messages by what nodes know now: `schemas.LOOKUPS`, in one partition; lazy.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    messages : DataFrame
        ``node, key_hi, key_lo``: where each begins, and its key.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        is_state = pa.array(rows.column("what").to_numpy() == STATE)
        overlay = _overlay(rows.filter(is_state), rules, kernel)
        sent = rows.filter(pc.invert(is_state))
        known = overlay.states.known
        hi, lo = (sent.column(name).to_numpy().view(np.uint64) for name in ("key_hi", "key_lo"))
        source = known.positions(sent.column("source").to_numpy())
        player = InProcess.of(overlay, rules, kernel)
        found = try_routes(player, Lookups(source, Keys(hi, lo)))
        columns = lookup_columns(found, known.node)
        table = pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))
        yield from table.to_batches(BATCH)

    sent = messages.select(F.col("node").alias("source"), "key_hi", "key_lo")
    nodes = state.where(F.col("name") == NODES)
    rows = as_rows(nodes, STATE).unionByName(as_rows(sent, LOOKUPS))
    return rows.coalesce(1).mapInArrow(run, schemas.LOOKUPS)


def live_overlay(
    state: DataFrame, rules: WorldRules, underlay: Underlay, partitions: int
) -> PastryOverlay:
    """What live nodes know of live nodes, laid out for routing.

    Parameters
    ----------
    state : DataFrame
        `schemas.PACKED`.
    partitions : int
        In how many the nodes are laid out.
    """
    kernel = underlay.kernel

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            overlay = _overlay(rows, rules, kernel)
            known = live_knowledge(overlay, kernel)
            for first in range(0, len(known), BATCH):
                yield known.take(slice(first, first + BATCH)).to_arrow()

    nodes = state.where(F.col("name") == NODES)
    known = nodes.coalesce(1).mapInArrow(run, schemas.KNOWLEDGE).repartition(partitions, "node")
    return PastryOverlay.of_knowledge(known, underlay, rules.b, rules.leaf_set)


def _overlay(packed: pa.Table, rules: WorldRules, kernel: Kernel) -> OverlayState:
    """Return the overlay in the table of nodes."""
    return unpack_overlay(unpack(packed)[NODES], rules, kernel)


def _results(
    overlay: OverlayState, done: PlayedRound, number: int, seconds: float
) -> Iterator[pa.Table]:
    """The rows that a round leaves."""
    measures, result, node = done.measures, done.result, overlay.states.known.node
    columns = {"name": pa.array(list(measures)), "value": pa.array(list(measures.values()))}
    yield as_table(MEASURE, columns, number)
    yield as_table(SECONDS, {"value": pa.array([seconds])}, number)
    if done.of_groups:
        yield as_table(OF_GROUPS, pack(done.of_groups), number)
    yield as_table(LOOKUPS, lookup_columns(result.lookups, node), number)
    yield as_table(NEW_LEAFS, {"node": pa.array(node[result.new_leafs])}, number)


def message_table(kind: np.ndarray, sender: np.ndarray, receiver: np.ndarray) -> pa.Table:
    """`schemas.MESSAGES`, of kinds and numbers of nodes."""
    return pa.table([kind, sender, receiver], names=schemas.MESSAGES.names)


def lookup_columns(found: LookupResults, number: np.ndarray) -> dict[str, pa.Array]:
    """`schemas.LOOKUPS`; `number` has the nodes' numbers by position."""
    return {
        "source": pa.array(number[found.source]),
        "key_hi": pa.array(found.keys.hi.view(np.int64)),
        "key_lo": pa.array(found.keys.lo.view(np.int64)),
        "at": pa.array(number[found.at]),
        "delivered": pa.array(found.delivered),
        "right": pa.array(found.right),
        "hops": pa.array(found.hops),
        "lost": pa.array(found.lost),
    }
