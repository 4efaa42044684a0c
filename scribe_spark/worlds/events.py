"""The events of a world: a table with the round, node, event and group of each.

A user's table is read and checked here, by Spark if it is not on this machine; the events of
generators (:mod:`.registry`) are checked in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import InputError, shown
from scribe_spark.inputs import Kind, first_rows, is_local, read_table
from scribe_spark.remote_inputs import read_remote, refuse_unreadable
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.worlds.groups import GroupStart, WorldGroups
from scribe_spark.worlds.legality import (
    Fault,
    first_bad_cell,
    first_impossible,
    first_impossible_in_groups,
    live_after,
)
from scribe_spark.worlds.rows import (
    ALIVE_AFTER,
    EVENT_NAMES,
    NODE_EVENTS,
    EventRows,
    Extent,
    event_codes,
)

#: The columns of a table of events; in events of nodes the group is empty.
_COLUMNS: dict[str, Kind] = {"round": "int", "node": "int", "event": "str", "group": "optional int"}
_OPTIONAL = ("group",)


def check_events(path: str, extent: Extent, start: GroupStart | None = None) -> pa.Table:
    """Read and check a local table of events without Spark; add those of the start of groups.

    The result has the columns of `schemas.EVENTS`.
    """
    frame = read_table(path, "events", _COLUMNS, _OPTIONAL)
    rounds, nodes = (frame[name].to_numpy(np.int64) for name in ("round", "node"))
    names = frame["event"].to_numpy(dtype=object)
    groups = np.full(len(frame), NO_GROUP, dtype=np.int64)
    if "group" in frame:
        reserved = (frame["group"] == NO_GROUP).fillna(False).to_numpy()
        if reserved.any():
            row = first_rows(frame, reserved)
            raise InputError("events", path, f"a group must be above {NO_GROUP}: {row}")
        groups = frame["group"].to_numpy(np.int64, na_value=NO_GROUP)
    rows, starts = EventRows(rounds, nodes, event_codes(names), groups), EventRows.none()
    known = None if start is None else start.groups
    if start is not None and first_bad_cell(rows, names, extent, start.groups.numbers) is None:
        starts = start.rows(rows)
    check_rows(rows, extent, "events", path, names, known, starts)
    return sorted_events(EventRows.join(rows, starts))


def check_rows(
    rows: EventRows,
    extent: Extent,
    field: str,
    value: object,
    names: np.ndarray | None = None,
    groups: WorldGroups | None = None,
    starts: EventRows | None = None,
) -> None:
    """Refuse impossible events, and events that leave no live node.

    An event is refused if it is unknown, if its node, group or round does not exist, or if it is
    impossible in the state of its node.  `field` and `value` are the input that an error names;
    `names` are the names of the events in the table; `starts` are further events of round 0
    (creations of groups, and joins).
    """
    bad = first_bad_cell(rows, names, extent, None if groups is None else groups.numbers)
    if bad is not None:
        raise InputError(field, value, bad)
    impossible = first_impossible(rows, extent)
    if impossible is not None:
        raise InputError(field, value, impossible[-1])
    _refuse_empty(live_after(rows, extent), field, value)
    if groups is not None:
        impossible = first_impossible_in_groups(rows, extent, groups.access, starts)
        if impossible is not None:
            raise InputError(field, value, impossible[-1])


def _refuse_empty(live: np.ndarray, field: str, value: object) -> None:
    """Refuse a round after which no node is alive; `live` counts the live nodes of each."""
    if (live < 1).any():
        at = int(np.argmax(live < 1))
        raise InputError(field, value, f"leaves no node alive after round {at}; keep at least one")


def sorted_events(rows: EventRows) -> pa.Table:
    """Return events as `schemas.EVENTS`, sorted by round, node, event and group."""
    rows = rows.take(np.lexsort((rows.groups, rows.events, rows.nodes, rows.rounds)))
    names = pa.DictionaryArray.from_arrays(pa.array(rows.events), pa.array(EVENT_NAMES))
    columns = {
        "round": pa.array(rows.rounds.astype(np.int32)),
        "node": pa.array(rows.nodes),
        "event": names.cast(pa.string()),
        "group": pa.array(rows.groups, mask=rows.groups == NO_GROUP),
    }
    return pa.table(columns)


# --- tables that only Spark can read; messages are the same


def read_events(
    spark: SparkSession, path: str, extent: Extent, start: GroupStart | None = None
) -> DataFrame:
    """Read and check the user's events at `path`; add those of the start: `schemas.EVENTS`."""
    if is_local(path):
        return spark.createDataFrame(check_events(path, extent, start), schemas.EVENTS)
    given = read_remote(spark, path, "events", _COLUMNS, _OPTIONAL)
    if "group" not in given.columns:
        given = given.withColumn("group", F.lit(None).cast("bigint"))
    with refuse_unreadable("events", path):
        _refuse_bad_cells(given, path, extent, None if start is None else start.groups.numbers)
        _refuse_impossible(given, path, lambda table: first_impossible(_rows(table), extent))
        _refuse_no_nodes(given, path, extent)
        if start is None:
            return schemas.conform(given, schemas.EVENTS)
        is_node = F.col("event").isin(*EVENT_NAMES[:NODE_EVENTS])
        rows = _rows(given.where(is_node & (F.col("round") == 0)).toArrow())
        starts = spark.createDataFrame(sorted_events(start.rows(rows)), schemas.EVENTS)
        marked = given.withColumn("start", F.lit(False)).unionByName(
            starts.withColumn("start", F.lit(True))
        )
        access = start.groups.access

        def impossible(table: pa.Table) -> Fault | None:
            rows, is_start = _rows(table), table["start"].to_numpy(zero_copy_only=False)
            return first_impossible_in_groups(
                rows.take(~is_start), extent, access, rows.take(is_start)
            )

        _refuse_impossible(marked, path, impossible)
        return schemas.conform(given.unionByName(starts), schemas.EVENTS)


def _rows(table: pa.Table) -> EventRows:
    """Return rows of ``round, node, event, group`` as arrays."""
    rounds, nodes = (table[name].to_numpy().astype(np.int64) for name in ("round", "node"))
    codes = event_codes(table["event"].to_numpy().astype(object))
    groups = table["group"].fill_null(NO_GROUP).to_numpy().astype(np.int64)
    return EventRows(rounds, nodes, codes, groups)


def _refuse_bad_cells(
    given: DataFrame, path: str, extent: Extent, groups: np.ndarray | None
) -> None:
    """Refuse a row with a missing value, or with an unknown event, node, group or round."""
    lacking = F.isnull("round") | F.isnull("node") | F.isnull("event")
    lacking |= F.coalesce(F.col("group") == NO_GROUP, F.lit(False))
    for bad in given.where(lacking).take(1):
        at, node, name = bad["round"], bad["node"], bad["event"]
        what = f"row round={at}, node={node}, event={shown(name)} lacks a value of the right type"
        raise InputError("events", path, what)

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            names = table["event"].to_numpy().astype(object)
            what = first_bad_cell(_rows(table), names, extent, groups)
            if what is not None:
                yield pa.RecordBatch.from_arrays([pa.array([what])], names=["what"])

    for row in given.mapInArrow(search, "what string").take(1):
        raise InputError("events", path, row["what"])
    if not given.take(1):
        raise InputError("events", path, "has no rows; needs at least one")


def _refuse_impossible(
    given: DataFrame, path: str, find: Callable[[pa.Table], Fault | None]
) -> None:
    """Refuse the first fault that `find` returns for all events of some nodes."""

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = read_partition(batches)
        found = None if table is None else find(table)
        if found is not None:
            columns = [pa.array([cell]) for cell in found]
            yield pa.RecordBatch.from_arrays(columns, names=["round", "node", "what"])

    found = given.repartition("node").mapInArrow(search, "round bigint, node bigint, what string")
    for row in found.orderBy("round", "node").take(1):
        raise InputError("events", path, row["what"])


def _refuse_no_nodes(given: DataFrame, path: str, extent: Extent) -> None:
    event, change = F.col("event"), F.lit(0)
    for name, alive in zip(EVENT_NAMES, ALIVE_AFTER.tolist(), strict=False):
        change = F.when(event == name, 1 if alive else -1).otherwise(change)
    changes = given.groupBy("round").agg(F.sum(change)).collect()
    by_round = np.zeros(extent.rounds, dtype=np.int64)
    for at, changed in changes:
        by_round[at] = changed
    _refuse_empty(extent.initial + np.cumsum(by_round), "events", path)
