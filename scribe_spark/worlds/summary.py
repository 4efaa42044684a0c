"""Statistics of a world's measures over all rounds."""

from __future__ import annotations

import math

import pandas as pd

from scribe_spark.measures.incomplete import rounds_not_due, values_in_means
from scribe_spark.measures.multicasts import BASELINES, multicast_units
from scribe_spark.systems import SCRIBE, all_systems
from scribe_spark.worlds.group_measures import system_measures
from scribe_spark.worlds.live_tree import LIVE_TREE_MEASURES
from scribe_spark.worlds.round_bytes import byte_units
from scribe_spark.worlds.round_measures import ROUND_MEASURES
from scribe_spark.worlds.steady import steady_from

#: The suffix of the mean over the steady state.
STEADY = ".steady"

#: The suffixes of statistics other than the mean over all rounds.
_ENDINGS = (".first", ".last", ".least", ".most", STEADY)

#: The prefixes of counts, which are 0 in a round without a value.  All measures of groups are
#: counts, except those of multicasts.
_COUNTS = ("messages.", f"{SCRIBE}.")

_PUBLICATIONS = f"{SCRIBE}.publications."

#: Scribe's measures that some rounds do not have.
_NO_COUNTS = {
    *multicast_units(SCRIBE, BASELINES),
    *byte_units(SCRIBE),
    f"{_PUBLICATIONS}duplicates.mean",
}


def summary_units() -> dict[str, str]:
    """Return the unit of every statistic that :func:`summarise` may return."""
    return {
        f"{measure}{ending}": unit
        for measure, unit in (
            *ROUND_MEASURES.items(),
            *(one for s in all_systems() if s.world for one in system_measures(s).items()),
            *LIVE_TREE_MEASURES.items(),
        )
        for ending in ("", *_ENDINGS)
    }


def measure_of(metric: str) -> str:
    """Return the measure of a statistic of :func:`summarise`.

    Examples
    --------
    >>> measure_of("lookups.hops.last"), measure_of("lookups.hops")
    ('lookups.hops', 'lookups.hops')
    """
    measure, dot, ending = metric.rpartition(".")
    return measure if dot + ending in _ENDINGS else metric


def measures_by_round(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a row for each round and a column for each measure.

    If a round has no value of a measure, the value is 0 for counts, and for the shares of lookups
    by hops if any lookup was delivered; otherwise it is NaN.  Publications that are not due have no
    number of lost deliveries.  `rounds` is `schemas.ROUNDS` of one world.
    """
    table = rounds.pivot(index="round", columns="measure", values="value").sort_index()
    # a round has no row for a count of 0
    for name in table:
        if name in _NO_COUNTS:
            continue
        if name.startswith(_COUNTS):
            table[name] = table[name].fillna(0.0)
        elif name.startswith("hops."):  # shares of delivered lookups; NaN if there are none
            table[name] = table[name].fillna(0.0).where(table["lookups.hops"].notna())
    if (lost := f"{_PUBLICATIONS}lost") in table:
        table.loc[rounds_not_due(table, SCRIBE), lost] = math.nan
    return table


def totals_by_number(rounds: pd.DataFrame, measure: str) -> dict[int, float]:
    """Return N -> the sum of ``MEASURE.N`` over all rounds, for example ``scribe.repaired.N``.

    `rounds` is the result of :func:`measures_by_round`.
    """
    begins = f"{measure}."
    ends = {name.removeprefix(begins): name for name in rounds if name.startswith(begins)}
    totals = {int(end): rounds[name].sum() for end, name in ends.items() if end.isdecimal()}
    return dict(sorted(totals.items()))


def summarise(rounds: pd.DataFrame) -> dict[str, float | None]:
    """Return statistics of each measure over the rounds (:func:`measures_by_round`) of a world.

    ``MEASURE``: the mean over the rounds that have it, without incomplete rounds
    (`measures.incomplete`); None if no round is left.  ``MEASURE.first``, ``MEASURE.last``: the
    values of the first and last round, or None.  ``MEASURE.least``, ``MEASURE.most``: minimum and
    maximum.  ``MEASURE.steady``: the mean from the start of the steady state
    (`steady.steady_from`), without incomplete rounds, if the measure settles.
    """
    found: dict[str, float | None] = {}
    for measure, line in rounds.items():
        name, known = str(measure), [float(value) for value in line.dropna()]
        counted = line.where(line.index.isin(values_in_means(rounds, name).index))
        found |= {
            name: _mean(counted),
            f"{name}.first": _number(line.iloc[0]),
            f"{name}.last": _number(line.iloc[-1]),
            f"{name}.least": min(known),
            f"{name}.most": max(known),
        }
        begin = steady_from(counted.to_numpy())
        if begin is not None:
            found[f"{name}{STEADY}"] = _mean(counted.iloc[begin:])
    return found


def _mean(line: pd.Series) -> float | None:
    known = [float(value) for value in line.dropna()]
    return math.fsum(known) / len(known) if known else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
