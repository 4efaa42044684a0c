"""The events of a world: a table with the round, node, event and group of each.

A user's table is read and checked here; the events of generators (:mod:`.registry`) are checked in
the same way.  Checked events are a pandas frame with the columns of `schemas.EVENTS`, sorted by
round, node, event and group; `event` is categorical.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.errors import InputError
from scribe_spark.inputs import Kind, first_rows, read_table
from scribe_spark.worlds.group_legality import first_impossible_in_groups
from scribe_spark.worlds.group_start import GroupStart
from scribe_spark.worlds.groups import WorldGroups
from scribe_spark.worlds.legality import first_bad_cell, first_impossible, live_after
from scribe_spark.worlds.rows import EVENT_NAMES, EventRows, Extent, event_codes

#: The columns of a table of events; in events of nodes the group is empty.
COLUMNS: dict[str, Kind] = {"round": "int", "node": "int", "event": "str", "group": "optional int"}
OPTIONAL = ("group",)


def check_events(path: str, extent: Extent, start: GroupStart | None = None) -> pd.DataFrame:
    """Read and check a local table of events without Spark.

    Parameters
    ----------
    start : GroupStart, optional
        The start of a world's groups, whose events are added.

    Raises
    ------
    InputError
        See :func:`check_rows`; or a column or value is missing or has a wrong type.
    """
    rows, names = read_rows(path)
    groups = None if start is None else start.groups
    starts = EventRows.none()
    if start is not None and first_bad_cell(rows, names, extent, start.groups.numbers) is None:
        starts = start.rows(rows)
    check_rows(rows, extent, "events", path, names, groups, starts)
    return events_frame(EventRows.join(rows, starts))


def read_rows(path: str) -> tuple[EventRows, np.ndarray]:
    """Read a local table of events without checking it; return rows and names of events.

    Raises
    ------
    InputError
    """
    frame = read_table(path, "events", COLUMNS, OPTIONAL)
    rounds, nodes = (frame[name].to_numpy(np.int64) for name in ("round", "node"))
    names = frame["event"].to_numpy(dtype=object)
    groups = np.full(len(frame), NO_GROUP, dtype=np.int64)
    if "group" in frame:
        reserved = (frame["group"] == NO_GROUP).fillna(False).to_numpy()
        if reserved.any():
            row = first_rows(frame, reserved)
            raise InputError("events", path, f"a group must be above {NO_GROUP}: {row}")
        groups = frame["group"].to_numpy(np.int64, na_value=NO_GROUP)
    return EventRows(rounds, nodes, event_codes(names), groups), names


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

    Parameters
    ----------
    field, value
        The input that an error names, and its value.
    names : ndarray of object, shape (E,), optional
        The names of the events in the table.
    groups : WorldGroups, optional
        The groups of the world, if it has any.
    starts : EventRows, optional
        Further events of round 0: creations of groups, and joins.

    Raises
    ------
    InputError
        An event is unknown; a node, group or round does not exist; a node has two events in a
        round; an event is impossible in the state of its node; no node is alive after some round.
    """
    bad = first_bad_cell(rows, names, extent, None if groups is None else groups.numbers)
    if bad is not None:
        raise InputError(field, value, bad)
    impossible = first_impossible(rows, extent)
    if impossible is not None:
        raise InputError(field, value, impossible[-1])
    refuse_empty(live_after(rows, extent), field, value)
    if groups is not None:
        impossible = first_impossible_in_groups(rows, extent, groups.access, starts)
        if impossible is not None:
            raise InputError(field, value, impossible[-1])


def refuse_empty(live: np.ndarray, field: str, value: object) -> None:
    """Refuse a round after which no node is alive.

    Parameters
    ----------
    live : ndarray of int64, shape (R,)
        The number of live nodes after each round.

    Raises
    ------
    InputError
    """
    if (live < 1).any():
        at = int(np.argmax(live < 1))
        raise InputError(field, value, f"leaves no node alive after round {at}; keep at least one")


def events_frame(rows: EventRows) -> pd.DataFrame:
    """Return events as a frame, sorted by round, node, event and group."""
    rows = rows.take(np.lexsort((rows.groups, rows.events, rows.nodes, rows.rounds)))
    return pd.DataFrame(
        {
            "round": rows.rounds.astype(np.int32),
            "node": rows.nodes,
            "event": pd.Categorical.from_codes(rows.events, list(EVENT_NAMES)),
            "group": pd.arrays.IntegerArray(rows.groups, rows.groups == NO_GROUP),
        }
    )


def events_table(spark: SparkSession, events: pd.DataFrame) -> DataFrame:
    """Return checked events as a DataFrame: `schemas.EVENTS`."""
    return spark.createDataFrame(events_of_frame(events), schemas.EVENTS)


def events_of_frame(events: pd.DataFrame) -> pa.Table:
    """Return checked events as an Arrow table: `schemas.EVENTS`."""
    names = pa.DictionaryArray.from_arrays(
        pa.array(events["event"].cat.codes.to_numpy()), pa.array(EVENT_NAMES)
    )
    columns = {
        "round": pa.array(events["round"].to_numpy(np.int32)),
        "node": pa.array(events["node"].to_numpy(np.int64)),
        "event": names.cast(pa.string()),
        "group": pa.array(events["group"], type=pa.int64()),
    }
    return pa.table(columns)
