"""The events of a world: a table of what happens to which node in which round.

A table of the user's is read and checked here; a generator's (:mod:`.generators`) is checked in the
same way.  Checked events are a pandas frame in the columns of `schemas.EVENTS`, ordered by round
and node; `event` is categorical.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.errors import InputError
from scribe_spark.inputs import Kind, is_local, read_table
from scribe_spark.remote_inputs import read_remote, refuse_unreadable
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.worlds.possible import first_bad_cell, first_impossible, live_after
from scribe_spark.worlds.rows import EVENT_NAMES, EventRows, Extent, event_codes

__all__ = ["check_events", "check_rows", "events_frame", "events_table", "read_events"]

#: Events of a group will have a column ``group``, which other events leave empty.
_COLUMNS: dict[str, Kind] = {"round": "int", "node": "int", "event": "str"}


def check_events(path: str, extent: Extent) -> pd.DataFrame:
    """Read a local table of events without Spark and check it.

    Raises
    ------
    InputError
        As :func:`check_rows`; a missing column, a value that is missing or of another type.
    """
    frame = read_table(path, "events", _COLUMNS)
    rounds, nodes = (frame[name].to_numpy(np.int64) for name in ("round", "node"))
    names = frame["event"].to_numpy(dtype=object)
    rows = EventRows(rounds, nodes, event_codes(names))
    check_rows(rows, extent, "events", path, names)
    return events_frame(rows)


def check_rows(
    rows: EventRows, extent: Extent, field: str, value: object, names: np.ndarray | None = None
) -> None:
    """Refuse events that cannot be, or that leave no node alive.

    Parameters
    ----------
    field, value
        What an error names: the input and where it came from.
    names : ndarray of object, shape (E,), optional
        The events by their names in the table.

    Raises
    ------
    InputError
        An unknown event; a node or a round that does not exist; two events of a node in a round; an
        event that is impossible in the node's state; a round after which no node is alive.
    """
    bad = first_bad_cell(rows, names, extent)
    if bad is not None:
        raise InputError(field, value, bad)
    impossible = first_impossible(rows, extent)
    if impossible is not None:
        raise InputError(field, value, impossible[-1])
    _refuse_empty(live_after(rows, extent), field, value)


def _refuse_empty(live: np.ndarray, field: str, value: object) -> None:
    if (live < 1).any():
        at = int(np.argmax(live < 1))
        raise InputError(field, value, f"leaves no node alive after round {at}; keep at least one")


def events_frame(rows: EventRows) -> pd.DataFrame:
    """Events as a frame, ordered by round and node."""
    rows = rows.take(np.lexsort((rows.nodes, rows.rounds)))
    return pd.DataFrame(
        {
            "round": rows.rounds.astype(np.int32),
            "node": rows.nodes,
            "event": pd.Categorical.from_codes(rows.events, list(EVENT_NAMES)),
        }
    )


def events_table(spark: SparkSession, events: pd.DataFrame) -> DataFrame:
    """Checked events as `schemas.EVENTS`."""
    names = pa.DictionaryArray.from_arrays(
        pa.array(events["event"].cat.codes.to_numpy()), pa.array(EVENT_NAMES)
    )
    columns = {
        "round": pa.array(events["round"].to_numpy(np.int32)),
        "node": pa.array(events["node"].to_numpy(np.int64)),
        "event": names.cast(pa.string()),
    }
    return spark.createDataFrame(pa.table(columns), schemas.EVENTS)


def read_events(spark: SparkSession, path: str, extent: Extent) -> DataFrame:
    """`schemas.EVENTS` from the user's table at `path`, checked.

    Raises
    ------
    InputError
        As :func:`check_events`.
    """
    if is_local(path):
        return events_table(spark, check_events(path, extent))
    given = read_remote(spark, path, "events", _COLUMNS)
    with refuse_unreadable("events", path):
        _refuse_bad_cells(given, path, extent)
        found = given.repartition("node").mapInArrow(
            _first_impossible_of(extent), "round bigint, node bigint, what string"
        )
        for row in found.orderBy("round", "node").take(1):
            raise InputError("events", path, row["what"])
        change = F.when(F.col("event").isin("arrive", "recover"), 1).otherwise(-1)
        changes = given.groupBy("round").agg(F.sum(change)).collect()
    by_round = np.zeros(extent.rounds, dtype=np.int64)
    for at, changed in changes:
        by_round[at] = changed
    _refuse_empty(extent.initial + np.cumsum(by_round), "events", path)
    return schemas.conform(given, schemas.EVENTS)


def _refuse_bad_cells(given: DataFrame, path: str, extent: Extent) -> None:
    """Refuse a row with a missing value, or with an event, a node or a round that is none."""
    valid = (
        F.col("round").between(0, extent.rounds - 1)
        & F.col("node").between(0, extent.nodes - 1)
        & F.col("event").isin(*EVENT_NAMES)
    )
    for bad in given.where(~F.coalesce(valid, F.lit(False))).take(1):
        at, node, name = bad["round"], bad["node"], bad["event"]
        if None in (at, node, name):
            what = f"row round={at}, node={node}, event={name!r} lacks a value of the right type"
            raise InputError("events", path, what)
        names = np.array([name], dtype=object)
        row = EventRows(np.array([at]), np.array([node]), event_codes(names))
        check_rows(row, extent, "events", path, names)
    if not given.take(1):
        raise InputError("events", path, "has no rows; needs at least one")


def _first_impossible_of(extent: Extent):
    """A kernel over all events of some nodes: the first that is impossible, if there is one."""

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = read_partition(batches)
        if table is None:
            return
        rounds, nodes = (table[name].to_numpy() for name in ("round", "node"))
        codes = event_codes(table["event"].to_numpy().astype(object))
        found = first_impossible(EventRows(rounds, nodes, codes), extent)
        if found is not None:
            columns = [pa.array([cell]) for cell in found]
            yield pa.RecordBatch.from_arrays(columns, names=["round", "node", "what"])

    return search
