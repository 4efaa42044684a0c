"""The measures of all rounds as a few numbers of the whole world."""

from __future__ import annotations

import math

import pandas as pd

from scribe_spark.systems import all_systems
from scribe_spark.worlds.group_measures import GROUP_MEASURES
from scribe_spark.worlds.group_measures import PREFIX as GROUP_PREFIX
from scribe_spark.worlds.live_systems import system_measures
from scribe_spark.worlds.live_tree import LIVE_TREE_MEASURES
from scribe_spark.worlds.round_measures import ROUND_MEASURES
from scribe_spark.worlds.scribe_multicasts import MULTICAST_MEASURES
from scribe_spark.worlds.steady import steady_from

#: The ending of the mean over the steady state.
STEADY = ".steady"

#: What follows the name of a measure, where the number is not the mean over the rounds.
_ENDINGS = (".first", ".last", ".least", ".most", STEADY)

#: Names of counts begin so: a round without one has 0 of it.  All measures of groups are counts,
#: but those of its multicasts.
_COUNTS = ("messages.", GROUP_PREFIX)


def summary_units() -> dict[str, str]:
    """Every number that :func:`summarise` may make -> its unit."""
    return {
        f"{measure}{ending}": unit
        for measure, unit in (
            *(ROUND_MEASURES | GROUP_MEASURES | MULTICAST_MEASURES | LIVE_TREE_MEASURES).items(),
            *(one for s in all_systems() if s.world for one in system_measures(s).items()),
        )
        for ending in ("", *_ENDINGS)
    }


def measure_of(metric: str) -> str:
    """The measure that a number of :func:`summarise` is of.

    Examples
    --------
    >>> measure_of("lookups.hops.last"), measure_of("lookups.hops")
    ('lookups.hops', 'lookups.hops')
    """
    measure, dot, ending = metric.rpartition(".")
    return measure if dot + ending in _ENDINGS else metric


def measures_by_round(rounds: pd.DataFrame) -> pd.DataFrame:
    """A row for each round, a column for each measure.

    Where a round has no such measure, the value is 0 for a count of messages or of groups, and for
    the share of lookups by hops if any lookup was delivered; else it is NaN.

    Parameters
    ----------
    rounds : DataFrame
        `schemas.ROUNDS`, of one world.
    """
    table = rounds.pivot(index="round", columns="measure", values="value").sort_index()
    # what did not occur in a round is not among its rows
    for name in table:
        if name in MULTICAST_MEASURES:
            continue
        if name.startswith(_COUNTS):
            table[name] = table[name].fillna(0.0)
        elif name.startswith("hops."):  # of the delivered lookups, if there are any
            table[name] = table[name].fillna(0.0).where(table["lookups.hops"].notna())
    return table


def totals_by_number(rounds: pd.DataFrame, measure: str) -> dict[int, float]:
    """N -> the sum of ``MEASURE.N`` over all rounds, ascending; such as ``scribe.repaired.N``.

    Parameters
    ----------
    rounds : DataFrame
        From :func:`measures_by_round`.
    """
    begins = f"{measure}."
    ends = {name.removeprefix(begins): name for name in rounds if name.startswith(begins)}
    totals = {int(end): rounds[name].sum() for end, name in ends.items() if end.isdecimal()}
    return dict(sorted(totals.items()))


def summarise(rounds: pd.DataFrame) -> dict[str, float | None]:
    """Numbers of a world, for each measure of its rounds.

    Parameters
    ----------
    rounds : DataFrame
        From :func:`measures_by_round`.

    Returns
    -------
    dict
        ``MEASURE`` (the mean over the rounds that have it), ``MEASURE.first`` and ``MEASURE.last``
        (of the first and the last round, None where that has none), ``MEASURE.least`` and
        ``MEASURE.most``; and ``MEASURE.steady``, the mean over the rounds from the first of the
        measure's steady state on (`steady.steady_from`), where the measure settles.
    """
    found: dict[str, float | None] = {}
    for measure, line in rounds.items():
        values = [None if math.isnan(value) else float(value) for value in line]
        known = [value for value in values if value is not None]
        found |= {
            str(measure): math.fsum(known) / len(known),
            f"{measure}.first": values[0],
            f"{measure}.last": values[-1],
            f"{measure}.least": min(known),
            f"{measure}.most": max(known),
        }
        begin = steady_from(line.to_numpy())
        if begin is not None:
            later = [value for value in values[begin:] if value is not None]
            found[f"{measure}{STEADY}"] = math.fsum(later) / len(later)
    return found
