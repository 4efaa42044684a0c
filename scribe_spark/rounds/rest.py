"""The own rounds that overlays need to come to rest after joins, quits and failures: rule O13.

A builder records by group the own round of the last event of a member, and the one in which the
overlay has last changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scribe_spark.core.arrays import SortedTable, distinct, find_sorted, read_table, whole_numbers
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.exchange import distinct_rows
from scribe_spark.engine.packing import concatenate
from scribe_spark.rounds.player import Counted, Counts

#: The table of a builder, which stays; and its counts at the end of a round of the world.
REST, REST_COUNTS = "state: rest", "counts of rest"

_ROUNDS, _MOVING = "rounds", "moving"


@dataclass
class Rest(SortedTable):
    """The own rounds of the last event and of the last change, by group (an index)."""

    event: np.ndarray = field(default_factory=whole_numbers)
    change: np.ndarray = field(default_factory=whole_numbers)


def structure_rows(
    state: Mapping[str, Columns], structure: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Return the rows of an overlay; `structure` has the name of its table and the columns."""
    name, *columns = structure
    rows = state.get(name, {})
    return {one: rows.get(one, whole_numbers()) for one in columns}


def note_rest(
    tables: Tables, number: int, events: np.ndarray, died: np.ndarray, before: Columns, now: Columns
) -> None:
    """Note the events and the changes of the own round `number`.

    `events` are the groups with joins or quits, `died` the nodes that died, ascending; `before` and
    `now` are the rows of the overlay: ``group``, ``node`` and others.
    """
    rest = read_table(Rest, tables, REST)
    hit = before["group"][find_sorted(died, before["node"]) >= 0]
    begun, changed = distinct(np.r_[events, hit]), whole_numbers()
    if not all(np.array_equal(before[name], now[name]) for name in now):
        _, keys, times = distinct_rows(*concatenate([before, now]).values())
        changed = distinct(keys[0][times == 1])
    for groups, column in ((begun, "event"), (changed, "change")):
        row = rest.find(groups)
        rest.put(groups[row < 0], event=number, change=number - 1)
        kept = {name: getattr(rest, name)[rest.find(groups)] for name in rest.columns()}
        rest.put(groups, **kept | {column: number})
    if not len(begun) and not len(changed):
        return
    rest.keep(find_sorted(distinct(np.r_[now["group"], events]), rest.key) >= 0)
    tables.pop(REST, None)
    if len(rest):
        tables[REST] = rest.to_columns()


def count_rest(tables: Tables, number: int) -> None:
    """Count the groups of a builder by the own rounds that they needed, after round `number`."""
    rest, counts = read_table(Rest, tables, REST), Counts()
    counts.add(_ROUNDS, np.maximum(rest.change - rest.event + 1, 0))
    counts.add(_MOVING, (rest.change == number).astype(np.int64))
    tables[REST_COUNTS] = counts.columns()


def rest_measures(taken: Columns) -> dict[str, float]:
    """Return the measures from the counts of all builders; see `declaration.GROWN_MEASURES`."""
    counted = Counted(taken)
    rounds = counted.histogram(_ROUNDS)
    return {
        "rest.mean": rounds.mean() or 0.0,
        "rest.max": rounds.max or 0.0,
        "rest.moving": counted.histogram(_MOVING).mean() or 0.0,
    }
