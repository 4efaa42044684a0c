"""The events and the results of rounds on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DecimalType

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP, NONE, whole_numbers
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine.facts import Keys
from scribe_spark.engine.on_spark import Costs
from scribe_spark.engine.packing import take
from scribe_spark.pastry.round import LookupResults
from scribe_spark.rounds.system import Multicasts


@dataclass(frozen=True)
class Played:
    """The results of a round: measures by name, run time in seconds, and costs.

    The time of the first round of a job includes reading the state. Costs (supersteps, messages and
    bytes) are known if each superstep is a job.
    """

    measures: dict[str, float]
    seconds: float
    costs: Costs | None = None


def _no_lookups() -> pa.Table:
    return to_arrow_schema(schemas.LOOKUPS).empty_table()


@dataclass
class RoundLeft:
    """The results of a round on the driver (see `PlayedRound`); `lookups` is `schemas.LOOKUPS`."""

    played: Played
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    lookups: pa.Table = field(default_factory=_no_lookups)
    multicasts: Mapping[str, Multicasts] = field(default_factory=dict)


_ROUND = DecimalType(20, 0)


def are_rounds(first: int, last: int) -> Column:
    """Return a Column of Spark that is True for rows of the rounds `first` to `last`."""
    # DECIMALs, because Spark would write integers into generated code, anew for each job
    return F.col("round").cast(_ROUND).between(F.lit(Decimal(first)), F.lit(Decimal(last)))


def event_rows(events: DataFrame) -> DataFrame:
    """Return events as `schemas.WORLD_EVENTS`; the given ones may lack the column `group`."""
    if "group" not in events.columns:
        events = events.withColumn("group", F.lit(None))
    schema = schemas.events_of(schemas.WORLD_EVENTS, events.columns)
    return events.select(*(F.col(one.name).cast(one.dataType).alias(one.name) for one in schema))


@dataclass(frozen=True)
class EventFiles:
    """The events of a world (`schemas.WORLD_EVENTS`) in Parquet files that all tasks can read."""

    files: tuple[str, ...]

    def read(self, rounds: range) -> pa.Table:
        """Return the events of some rounds, as `schemas.WORLD_EVENTS`."""
        wanted = [("round", ">=", rounds[0]), ("round", "<=", rounds[-1])]
        return pq.read_table(list(self.files), filters=wanted, partitioning=None, use_threads=False)


class EventsByRound:
    """The events of several rounds, of a table `schemas.WORLD_EVENTS`."""

    def __init__(self, given: pa.Table) -> None:
        rounds = given.column("round").to_numpy()
        event = given.column("event").combine_chunks().dictionary_encode()
        self._names = np.array(event.dictionary.to_pylist(), dtype=str)
        columns = {
            "node": given.column("node").to_numpy(),
            "event": event.indices.to_numpy(),
            "group": given.column("group").fill_null(NO_GROUP).to_numpy(),
        }
        for name, times in (("time", MICROSECONDS), ("size", 1)):
            if name in given.column_names:
                columns[name] = _amounts(given.column(name), times)
        self._none = {name: whole_numbers() for name in columns}
        order = np.argsort(rounds, kind="stable")
        found, starts = np.unique(rounds[order], return_index=True)
        self._of = {
            number: take(columns, rows)
            for number, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=False)
        }

    def take(self, number: int) -> dict[str, np.ndarray]:
        """Return ``node, event, group`` of a round, and forget them.

        The group is `NO_GROUP` where there is none.  In a world with a schedule there are also
        ``time`` in microseconds and ``size`` in bytes, NONE where there are none.
        """
        columns = self._of.pop(number, self._none)
        return {**columns, "event": self._names[columns["event"]]}


def _amounts(cells: pa.ChunkedArray, times: int) -> np.ndarray:
    """Return cells multiplied by `times`: int64; NONE for NULL, NONE - 1 for a negative cell."""
    values = np.nan_to_num(cells.cast(pa.float64()).fill_null(0).to_numpy(), nan=-1)
    found = np.rint(np.clip(values * times, 0, 2**62)).astype(np.int64)
    found[values < 0] = NONE - 1
    found[cells.is_null().to_numpy()] = NONE
    return found


def lookups_of(messages: pa.Table) -> tuple[np.ndarray, Keys]:
    """Return the starting nodes and the keys of messages ``node, key_hi, key_lo``."""
    node, hi, lo = (messages.column(name).to_numpy() for name in messages.column_names)
    return node, Keys(hi.view(np.uint64), lo.view(np.uint64))


def lookup_table(found: LookupResults, number: np.ndarray) -> pa.Table:
    """Return results of lookups as `schemas.LOOKUPS`, with the numbers (K,) of nodes."""
    columns = {
        "source": number[found.source],
        "key_hi": found.keys.hi.view(np.int64),
        "key_lo": found.keys.lo.view(np.int64),
        "at": number[found.at],
        **{name: getattr(found, name) for name in ("delivered", "right", "hops", "lost")},
    }
    return pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))
