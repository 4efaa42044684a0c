"""The results of a round on the driver."""

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
from scribe_spark.core.arrays import NO_GROUP, whole_numbers
from scribe_spark.engine import Columns
from scribe_spark.engine.on_spark import Costs
from scribe_spark.engine.packing import take
from scribe_spark.pastry.lookups import LookupResults


@dataclass(frozen=True)
class Played:
    """The measures and the cost of a round.

    Attributes
    ----------
    measures : dict of str to float
        Measures by name; see :mod:`.round_measures`, :mod:`.group_measures`, :mod:`.live_tree`.
    seconds : float
        The run time of the round; the first round of a job includes reading the state.
    costs : Costs, optional
        Supersteps, messages and bytes, if each superstep is a job.
    """

    measures: dict[str, float]
    seconds: float
    costs: Costs | None = None


def _no_lookups() -> pa.Table:
    return to_arrow_schema(schemas.LOOKUPS).empty_table()


@dataclass(frozen=True)
class RoundLeft:
    """The results of a round except the tables of buckets.

    Attributes
    ----------
    played : Played
    of_groups : mapping of str to pyarrow.Table
        See `PlayedRound`.
    lookups : pyarrow.Table
        `schemas.LOOKUPS`.
    outcomes : Columns
        See `PlayedRound`.
    """

    played: Played
    of_groups: Mapping[str, pa.Table] = field(default_factory=dict)
    lookups: pa.Table = field(default_factory=_no_lookups)
    outcomes: Columns = field(default_factory=dict)


def is_round(number: int) -> Column:
    """Return a column that is True for rows of a round."""
    # a DECIMAL, because Spark would write an integer into generated code, anew for each job
    return F.col("round").cast(_ROUND) == F.lit(Decimal(number))


def are_rounds(rounds: range) -> Column:
    """Return a column that is True for rows of a range of rounds."""
    first, last = (F.lit(Decimal(number)) for number in (rounds[0], rounds[-1]))
    return F.col("round").cast(_ROUND).between(first, last)


_ROUND = DecimalType(20, 0)


#: The schema of events.
EVENT = StructType(
    [
        StructField("round", LongType()),
        StructField("node", LongType()),
        StructField("event", StringType()),
        StructField("group", LongType()),
    ]
)


def event_columns(events: DataFrame) -> list[Column]:
    """Return the columns of :data:`EVENT`; the given events may lack the column `group`."""
    return [
        (F.col(one.name) if one.name in events.columns else F.lit(None))
        .cast(one.dataType)
        .alias(one.name)
        for one in EVENT
    ]


class EventsByRound:
    """The events of several rounds, of a table with the columns of :data:`EVENT`."""

    def __init__(self, given: pa.Table) -> None:
        rounds = given.column("round").to_numpy()
        event = given.column("event").combine_chunks().dictionary_encode()
        self._names = np.array(event.dictionary.to_pylist(), dtype=str)
        columns = {
            "node": given.column("node").to_numpy(),
            "event": event.indices.to_numpy(),
            "group": given.column("group").fill_null(NO_GROUP).to_numpy(),
        }
        order = np.argsort(rounds, kind="stable")
        found, starts = np.unique(rounds[order], return_index=True)
        self._of = {
            number: take(columns, rows)
            for number, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=False)
        }

    def take(self, number: int) -> dict[str, np.ndarray]:
        """Return ``node, event, group`` of a round, and forget them.

        The group is `NO_GROUP` where there is none.
        """
        columns = self._of.pop(number, _NO_EVENTS)
        return {**columns, "event": self._names[columns["event"]]}


_NO_EVENTS = {name: whole_numbers() for name in ("node", "event", "group")}


def lookup_table(found: LookupResults, number: np.ndarray) -> pa.Table:
    """Return `schemas.LOOKUPS`; `number` has the number of the node at each position."""
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
