"""What a superstep gets and what it makes; all DataFrames are lazy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from scribe_spark.superstep.table import Table

__all__ = ["Arrival", "Round", "State", "Step", "StepFunction"]


@dataclass(frozen=True)
class Round:
    """The round that a step belongs to.

    Attributes
    ----------
    number : int
        From 0.
    messages : int
        Rows of the inbox.
    counts : dict of int
        Of the inbox's rows, those that satisfy each condition that :func:`run` was given.
    """

    number: int
    messages: int
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Step:
    """What a superstep does, all of it lazily.

    Attributes
    ----------
    outbox : DataFrame or None
        Messages, partitioned by the node where they arrive; the next round's inbox, or what the
        loop's `Arrival` makes of them.
    changes : dict of DataFrame
        Per table of the state: rows to write, as :meth:`Table.prepare` takes them.
    outcomes : DataFrame or None
        Rows that leave the loop, for example messages that were delivered; of the same columns in
        every round.
    temporary : sequence of DataFrame
        Tables that the step has materialised, for example the outcomes of a loop inside it, and
        that the three above are computed from; the loop releases them when the round is over.
    """

    outbox: DataFrame | None = None
    changes: Mapping[str, DataFrame] = field(default_factory=dict)
    outcomes: DataFrame | None = None
    temporary: Sequence[DataFrame] = ()


#: arrival(messages): those at nodes that exist, with what the nodes add to them.
Arrival = Callable[[DataFrame], DataFrame]
State = Mapping[str, Table]
#: step(state, inbox, round): the state is that before the round.
StepFunction = Callable[[State, DataFrame, Round], Step]
