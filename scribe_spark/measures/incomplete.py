"""Rounds of a world whose values do not count in means, and words in place of missing values.

If a system does not reach all members in a round, its delays cover the reached members only: they
become better while the system fails.  The round is *incomplete* for the system, and means leave
these values out.  A round is also incomplete if a publication starts nowhere, for example because
its group has no root.

A table is the result of `worlds.summary.measures_by_round`: a row for each round, a column for each
measure.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

#: The words in place of a value: the system has no simulated control messages; no publication of
#: the world has its deadline in the world; the system reaches all members in no round.
NOT_SIMULATED, NONE_DUE = "not simulated", "none is due"
NONE_COMPLETE = "no round reaches all members"

#: The measures of a system's multicasts that are lower if multicasts reach fewer members.
_OF_REACHED = re.compile(
    r"(latency|latency_hops|rad|rmd|rdp|depth)\.\w+"
    r"|(time_to|hops_to)_\d+\.\w+"
    r"|link_stress\.\w+|messages"
)

_EXPECTED = ".publications.expected"


def covers_reached(measure: str) -> bool:
    """Return True for measures of multicasts that cover only the members that these reach.

    Examples
    --------
    >>> covers_reached("scribe.rad.median"), covers_reached("scribe.time_to_99.median")
    (True, True)
    >>> covers_reached("scribe.control"), covers_reached("scribe.link_stress.payload.max")
    (False, False)
    """
    return _OF_REACHED.fullmatch(measure.partition(".")[2]) is not None


def incomplete_rounds(table: pd.DataFrame, measure: str) -> list[int]:
    """Return the rounds that are incomplete for a measure: its value covers only some members."""
    if measure not in table or not covers_reached(measure):
        return []
    rows = table.index[table[measure].notna() & (_reached(table, _system(measure)) < 1)]
    return [int(number) for number in rows]


def values_in_means(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return the values of a measure by round, only of complete rounds, which means count."""
    return table[measure].drop(incomplete_rounds(table, measure))


def has_gap(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return True for rounds with multicasts of the measure's system, but without its value."""
    multicasts = f"{_system(measure)}.multicasts"
    if multicasts not in table or not covers_reached(measure):
        return pd.Series(False, index=table.index)
    return table[measure].isna() & (table[multicasts] > 0)


def reached_in_incomplete(table: pd.DataFrame, system: str) -> pd.Series:
    """Return the share of the members that a system reaches, in incomplete rounds only."""
    share = _reached(table, system)
    return share[share < 1]


def systems_of_world(measures: Iterable[str]) -> list[str]:
    """Return the systems that a world played, found from the names of its measures."""
    ends = _EXPECTED, ".control"
    return list(dict.fromkeys(_system(name) for name in map(str, measures) if name.endswith(ends)))


def has_control(table: pd.DataFrame, system: str) -> bool:
    """Return True if a system simulates control messages (`SystemOnBuckets.control`)."""
    return f"{system}.control" in table


def rounds_not_due(table: pd.DataFrame, system: str) -> list[int]:
    """Return the rounds whose publications have their deadline after the end of the world."""
    expected, due = f"{system}{_EXPECTED}", f"{system}.publications.due"
    if due not in table:
        return []
    return [int(number) for number in table.index[table[due] < table[expected]]]


def has_none_due(table: pd.DataFrame, system: str) -> bool:
    """Return True if the system has publications, but none whose deadline is in the world."""
    return bool(rounds_not_due(table, system)) and not table[f"{system}.publications.due"].sum()


def words_in_place(table: pd.DataFrame) -> dict[str, str]:
    """Return what is shown for measures without a mean over the rounds: measure -> words."""
    words: dict[str, str] = {}
    for system in systems_of_world(table):
        if not has_control(table, system):
            words[f"{system}.control"] = NOT_SIMULATED
        if has_none_due(table, system):
            words[f"{system}.publications.lost"] = NONE_DUE
    for name in map(str, table):
        if incomplete_rounds(table, name) and not values_in_means(table, name).notna().any():
            words[name] = NONE_COMPLETE
    return words


def _system(measure: str) -> str:
    return measure.partition(".")[0]


def _reached(table: pd.DataFrame, system: str) -> pd.Series:
    """Return the share of the members that are reached in each round; NaN if it is unknown."""
    publications = f"{system}.publications"
    multicasts, in_time = f"{system}.multicasts.reached", f"{publications}.in_time"
    if multicasts not in table:  # delays are not measured
        return pd.Series(math.nan, index=table.index)
    share = table[multicasts]
    if in_time in table:  # of a share and NaN, the share is the smaller one
        share = np.fmin(share, table[in_time] / table[f"{publications}.expected"])
    return share
