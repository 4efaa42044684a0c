"""A user's table of events that only Spark can read; checked by Spark with the same messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import InputError, shown
from scribe_spark.inputs import is_local
from scribe_spark.remote_inputs import read_remote, refuse_unreadable
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.worlds.access import AccessLists
from scribe_spark.worlds.events import (
    COLUMNS,
    OPTIONAL,
    check_events,
    events_frame,
    events_table,
    refuse_empty,
)
from scribe_spark.worlds.group_legality import first_impossible_in_groups
from scribe_spark.worlds.group_start import GroupStart
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.legality import first_bad_cell, first_impossible
from scribe_spark.worlds.rows import (
    ALIVE_AFTER,
    EVENT_NAMES,
    NODE_EVENTS,
    EventRows,
    Extent,
    event_codes,
)

_Kernel = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def read_events(
    spark: SparkSession, path: str, extent: Extent, start: GroupStart | None = None
) -> DataFrame:
    """Read and check the user's events at `path`; add those of the start: `schemas.EVENTS`.

    Raises
    ------
    InputError
        See :func:`check_rows`; or a column or value is missing.
    """
    if is_local(path):
        return events_table(spark, check_events(path, extent, start))
    groups = None if start is None else start.groups
    given = read_remote(spark, path, "events", COLUMNS, OPTIONAL)
    if "group" not in given.columns:
        given = given.withColumn("group", F.lit(None).cast("bigint"))
    with refuse_unreadable("events", path):
        _refuse_bad_cells(given, path, extent, groups)
        _refuse_impossible(given, path, _first_impossible(extent))
        _refuse_no_nodes(given, path, extent)
        if start is None:
            return schemas.conform(given, schemas.EVENTS)
        is_node = F.col("event").isin(*EVENT_NAMES[:NODE_EVENTS])
        rows = _rows(given.where(is_node & (F.col("round") == 0)).toArrow())
        starts = events_table(spark, events_frame(start.rows(rows)))
        marked = given.withColumn("start", F.lit(False)).unionByName(
            starts.withColumn("start", F.lit(True))
        )
        _refuse_impossible(marked, path, _first_impossible_in_groups(extent, start.groups.access))
        return schemas.conform(given.unionByName(starts), schemas.EVENTS)


def _rows(table: pa.Table) -> EventRows:
    """Return rows of ``round, node, event, group`` as arrays."""
    rounds, nodes = (table[name].to_numpy().astype(np.int64) for name in ("round", "node"))
    codes = event_codes(table["event"].to_numpy().astype(object))
    groups = table["group"].fill_null(NO_GROUP).to_numpy().astype(np.int64)
    return EventRows(rounds, nodes, codes, groups)


def _refuse_bad_cells(
    given: DataFrame, path: str, extent: Extent, groups: WorldGroups | None
) -> None:
    """Refuse a row with a missing value, or with an unknown event, node, group or round."""
    lacking = F.isnull("round") | F.isnull("node") | F.isnull("event")
    lacking |= F.coalesce(F.col("group") == NO_GROUP, F.lit(False))
    for bad in given.where(lacking).take(1):
        at, node, name = bad["round"], bad["node"], bad["event"]
        what = f"row round={at}, node={node}, event={shown(name)} lacks a value of the right type"
        raise InputError("events", path, what)
    numbers = None if groups is None else groups.numbers

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            names = table["event"].to_numpy().astype(object)
            what = first_bad_cell(_rows(table), names, extent, numbers)
            if what is not None:
                yield pa.RecordBatch.from_arrays([pa.array([what])], names=["what"])

    for row in given.mapInArrow(search, "what string").take(1):
        raise InputError("events", path, row["what"])
    if not given.take(1):
        raise InputError("events", path, "has no rows; needs at least one")


def _refuse_impossible(given: DataFrame, path: str, search: _Kernel) -> None:
    found = given.repartition("node").mapInArrow(search, "round bigint, node bigint, what string")
    for row in found.orderBy("round", "node").take(1):
        raise InputError("events", path, row["what"])


def _refuse_no_nodes(given: DataFrame, path: str, extent: Extent) -> None:
    enter, leave = (
        [name for name, alive in zip(EVENT_NAMES, ALIVE_AFTER, strict=False) if alive == wanted]
        for wanted in (True, False)
    )
    event = F.col("event")
    change = F.when(event.isin(*enter), 1).when(event.isin(*leave), -1).otherwise(0)
    changes = given.groupBy("round").agg(F.sum(change)).collect()
    by_round = np.zeros(extent.rounds, dtype=np.int64)
    for at, changed in changes:
        by_round[at] = changed
    refuse_empty(extent.initial + np.cumsum(by_round), "events", path)


def _first_impossible(extent: Extent) -> _Kernel:
    """Return a kernel that finds the first impossible event in all events of some nodes."""

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = read_partition(batches)
        if table is not None:
            yield from _found(first_impossible(_rows(table), extent))

    return search


def _first_impossible_in_groups(extent: Extent, access: AccessLists) -> _Kernel:
    """Return a kernel that finds the first impossible group event of some nodes.

    The column ``start`` marks events of the start.
    """

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = read_partition(batches)
        if table is None:
            return
        rows, is_start = _rows(table), table["start"].to_numpy(zero_copy_only=False)
        rows, starts = rows.take(~is_start), rows.take(is_start)
        yield from _found(first_impossible_in_groups(rows, extent, access, starts))

    return search


def _found(found: tuple[int, int, str] | None) -> Iterator[pa.RecordBatch]:
    if found is not None:
        columns = [pa.array([cell]) for cell in found]
        yield pa.RecordBatch.from_arrays(columns, names=["round", "node", "what"])
