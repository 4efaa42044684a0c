"""Schedules: the publications of a run, from a table or drawn.

Rules: docs/rules.md, W1 and W9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from scribe_spark.config.bandwidth import MOST_PUBLICATIONS, BandwidthConfig
from scribe_spark.core import draws, units
from scribe_spark.core.arrays import NONE, Rows
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import Kind, first_rows
from scribe_spark.core.keys import order_of
from scribe_spark.runtime.remote_inputs import read_input

_COLUMNS: dict[str, Kind] = {"time": "quantity", "group": "int", "node": "int", "size": "quantity"}


@dataclass(frozen=True)
class Schedule(Rows):
    """The publications of a run: sorted by time, group and source, then in the given order."""

    at_us: np.ndarray
    #: The numbers of the groups and of the publishing nodes.
    group: np.ndarray
    source: np.ndarray
    size: np.ndarray  # the size in bytes

    @classmethod
    def of(
        cls, at_us: np.ndarray, group: np.ndarray, source: np.ndarray, size: np.ndarray
    ) -> Schedule:
        """Return publications given in any order, sorted as those of a schedule."""
        return cls(at_us, group, source, size).take(np.lexsort((source, group, at_us)))


# --- from a table


def check_schedule(
    path: str, nodes: int, usual: int, spark: SparkSession | None = None
) -> Schedule:
    """Read and check a table of publications, of the size `usual` by default.

    A session (`spark`) also reads tables that are not on this machine.
    """
    frame = read_input(spark, path, "schedule", _COLUMNS, ("size",))
    if len(frame) > MOST_PUBLICATIONS:
        raise InputError("schedule", path, f"has more than {MOST_PUBLICATIONS:,} rows; give fewer")
    unknown = ~frame["node"].between(0, nodes - 1).to_numpy()
    if unknown.any():
        where = first_rows(frame[["group", "node"]], unknown)
        raise InputError("schedule", path, f"names no node: {where}; nodes are 0 to {nodes - 1}")
    at_us, size = amounts(frame, "schedule", path, "time"), np.full(len(frame), usual)
    if "size" in frame:
        size = amounts(frame, "schedule", path, "size")
    group, node = (frame[name].to_numpy(np.int64) for name in ("group", "node"))
    return Schedule.of(at_us, group, node, size)


#: The quantities in a table: the least value, and the unit of a number without one.
_QUANTITIES: dict[units.Quantity, tuple[int, str]] = {"time": (0, "ms"), "size": (1, "B")}


def amounts(
    frame: pd.DataFrame, field: str, path: str, name: units.Quantity, optional: bool = False
) -> np.ndarray:
    """Return a column of texts with units in base units: int64; NONE for an empty cell."""
    cells = frame[name]
    texts, which = np.unique(cells.fillna("").to_numpy(str), return_inverse=True)
    found = np.full(len(texts), NONE, dtype=np.int64)
    for place, text in enumerate(texts.tolist()):
        if optional and not text.strip():
            continue
        try:
            found[place] = units.parse(name, text, *_QUANTITIES[name])
        except ValueError as error:
            where = first_rows(frame[[name]], which == place, 1)
            raise InputError(field, path, f"column {name}: {where}: {error}") from None
    return found[which]


# --- drawn


def draw_schedule(
    config: BandwidthConfig,
    seed: int,
    group: np.ndarray,
    source: np.ndarray,
    members: tuple[np.ndarray, np.ndarray],
) -> Schedule:
    """Return the publications that a config describes, with drawn sources.

    Publication n of a group happens at n times the interval.  Its source is the member with index
    draw(``publisher``, group, n) modulo the number of members, sorted by node number; or the
    group's element of `source`.  A group without members has publications only from `source`.
    """
    each = config.publications or 1
    if config.published_by != "source":
        order = order_of(*members)
        of, node = (column[order] for column in members)
    if config.published_by == "everyone":
        group, source = of, node
    n = np.tile(np.arange(each), len(group))
    group, source = np.repeat(group, each), np.repeat(source, each)
    if config.published_by == "members":
        first, end = (np.searchsorted(of, group, side) for side in ("left", "right"))
        has = end > first
        group, n, first, end = group[has], n[has], first[has], end[has]
        drawn = draws.bits_np(seed, "publisher", group, n) % (end - first).astype(np.uint64)
        source = node[first + drawn.astype(np.int64)]
    return Schedule.of(n * config.interval_us, group, source, np.full(len(group), config.size))
