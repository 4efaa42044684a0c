"""The results of a round for the driver, wherever the round was played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.core.arrays import NO_GROUP
from scribe_spark.engine import Columns
from scribe_spark.engine.on_spark import Costs
from scribe_spark.pastry.lookups import LookupResults


@dataclass(frozen=True)
class Played:
    """A round that has been played.

    Attributes
    ----------
    measures : dict of str to float
        By name; see :mod:`.round_measures`, :mod:`.group_measures`, :mod:`.live_tree`.
    seconds : float
        How long the round took; the first of a job's rounds, with reading the state.
    costs : Costs, optional
        Supersteps, messages and bytes, where a superstep is a job.
    """

    measures: dict[str, float]
    seconds: float
    costs: Costs | None = None


def _no_lookups() -> pa.Table:
    return to_arrow_schema(schemas.LOOKUPS).empty_table()


@dataclass(frozen=True)
class RoundLeft:
    """A round that has been played, and what it leaves besides the tables of buckets.

    Attributes
    ----------
    played : Played
    of_groups : mapping of str to pyarrow.Table
        As of `PlayedRound`.
    lookups : pyarrow.Table
        `schemas.LOOKUPS`.
    outcomes : Columns
        As of `PlayedRound`.
    """

    played: Played
    of_groups: Mapping[str, pa.Table] = field(default_factory=dict)
    lookups: pa.Table = field(default_factory=_no_lookups)
    outcomes: Columns = field(default_factory=dict)


def is_round(number: int) -> Column:
    """Return whether rows belong to a round."""
    # a DECIMAL: whole numbers are written into generated code, which would be new in each job
    return F.col("round").cast(_ROUND) == F.lit(Decimal(number))


def are_rounds(rounds: range) -> Column:
    """Return whether rows belong to some rounds."""
    first, last = (F.lit(Decimal(number)) for number in (rounds[0], rounds[-1]))
    return F.col("round").cast(_ROUND).between(first, last)


_ROUND = DecimalType(20, 0)


#: The columns of events.
EVENT = StructType(
    [
        StructField("round", LongType()),
        StructField("node", LongType()),
        StructField("event", StringType()),
        StructField("group", LongType()),
    ]
)


def event_columns(events: DataFrame) -> list[Column]:
    """Return the columns of :data:`EVENT`; `schemas.EVENTS` may lack the group."""
    return [
        (F.col(one.name) if one.name in events.columns else F.lit(None))
        .cast(one.dataType)
        .alias(one.name)
        for one in EVENT
    ]


class EventsByRound:
    """The events of some rounds, of a table with the columns of :data:`EVENT`."""

    def __init__(self, given: pa.Table) -> None:
        rounds = given.column("round").to_numpy()
        order = np.argsort(rounds, kind="stable")
        self._rounds = rounds[order]
        event = given.column("event").combine_chunks().dictionary_encode()
        names = np.array(event.dictionary.to_pylist(), dtype=str)
        self._columns = {
            "node": given.column("node").to_numpy()[order],
            "event": names[event.indices.to_numpy()[order]],
            "group": given.column("group").fill_null(NO_GROUP).to_numpy()[order],
        }

    def of(self, number: int) -> dict[str, np.ndarray]:
        """Return ``node, event, group`` of a round; the group is `NO_GROUP` where there is none."""
        first, last = np.searchsorted(self._rounds, [number, number + 1])
        return {name: column[first:last] for name, column in self._columns.items()}


def lookup_table(found: LookupResults, number: np.ndarray) -> pa.Table:
    """Return `schemas.LOOKUPS`; `number` has the nodes' numbers by position."""
    columns = {
        "source": number[found.source],
        "key_hi": found.keys.hi.view(np.int64),
        "key_lo": found.keys.lo.view(np.int64),
        "at": number[found.at],
        "delivered": found.delivered,
        "right": found.right,
        "hops": found.hops,
        "lost": found.lost,
    }
    return pa.Table.from_pydict(columns, schema=to_arrow_schema(schemas.LOOKUPS))
