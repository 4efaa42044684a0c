"""The names and units of the measures of a world's systems, and statistics over all rounds.

The steady state of a world under churn: the rounds over which figures average.  A world starts with
perfect tables and trees, and with all members alive.  Under churn the tables degrade for a while,
so a mean over all rounds would depend on the number of rounds.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scribe_spark.measures.coverage import coverage_units, is_of_coverage
from scribe_spark.measures.incomplete import rounds_not_due, values_in_means
from scribe_spark.measures.multicasts import BASELINES, multicast_units
from scribe_spark.rounds.declaration import System
from scribe_spark.schemas import PASTRY, PUBLICATION_COUNTS
from scribe_spark.systems.reference_tree.live import LIVE_TREE_MEASURES
from scribe_spark.systems.registry import SCRIBE, all_systems, find_system
from scribe_spark.systems.scribe.scribe import SCRIBE_KINDS
from scribe_spark.systems.scribe.sources import FATES
from scribe_spark.worlds.round_measures import (
    LINK_STRESS_MEASURES,
    ROUND_MEASURES,
    byte_units,
    packet_measures,
)

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.coverage import CoverageConfig

#: The measures of publications with units, reported for the round of publication; see
#: :func:`publication_measures`.
PUBLICATION_MEASURES: dict[str, str] = {
    **{f"publications.{count}": "deliveries" for count in PUBLICATION_COUNTS},
    **dict.fromkeys(
        (f"publications.{name}" for name in ("first_copies", "duplicates", "duplicates.mean")),
        "copies",
    ),
}

#: The measures of Scribe's messages, which have no name of a system before them, because messages
#: of Pastry and Scribe are counted together.
_OF_MESSAGES: dict[str, str] = LINK_STRESS_MEASURES | {
    f"messages.{lost}{kind}": "messages" for kind in SCRIBE_KINDS for lost in ("", "lost ")
}


def system_measures(system: System) -> dict[str, str]:
    """Return all measures of a system in a world's rounds: name -> unit.

    Only Scribe has a measure for each kind of message.
    """
    of: dict[str, str] = {"control": "messages per live node and second", **PUBLICATION_MEASURES}
    of |= system.measures_of_worlds
    found, beside = dict[str, str](), tuple[str, ...]()
    if system.name == SCRIBE:
        found |= _OF_MESSAGES
        beside = BASELINES
    else:
        of |= packet_measures(("payload", "control"))
    found |= {f"{system.name}.{name}": unit for name, unit in of.items()}
    found |= byte_units(system.name)
    return found | multicast_units(system.name, beside, system.may_go_by_hops)


def system_of(measure: str) -> str:
    """Return the value of the column `system` for a measure of a round.

    Examples
    --------
    >>> system_of("scribe.repaired.99"), system_of("messages.JOIN"), system_of("lookups.hops")
    ('scribe', 'scribe', 'pastry')
    >>> system_of("messages.join message"), system_of("ip_multicast.link_stress.max")
    ('pastry', 'ip_multicast')
    """
    if measure in _OF_MESSAGES:
        return SCRIBE
    system = measure.partition(".")[0]
    return PASTRY if find_system(system) is None else system


def publication_measures(publications: pd.DataFrame) -> dict[int, dict[str, float]]:
    """Return measures of the publications (`schemas.PUBLICATIONS`) of each round, by system.

    ``publications.COUNT``, but no ``publications.lost`` of a round whose publications are not due.
    ``publications.duplicates.mean``: the duplicates divided by the first copies, if there are any.
    """
    sums = publications.groupby(["system", "round"])[list(PUBLICATION_COUNTS)].sum()
    found: dict[int, dict[str, float]] = {}
    for (system, number), row in sums.iterrows():
        of = {name: float(row[name]) for name in sums}
        if row["due"] < row["expected"]:
            del of["lost"]
        if row["first_copies"]:
            of["duplicates.mean"] = float(row["duplicates"] / row["first_copies"])
        named = {f"{system}.publications.{name}": value for name, value in of.items()}
        found.setdefault(int(number), {}).update(named)
    return found


#: The window of the moving mean in rounds, and the maximal relative difference to the mean of the
#: later rounds.
WINDOW, TOLERANCE = 10, 0.02


def steady_from(
    values: Sequence[float] | np.ndarray, window: int = WINDOW, tolerance: float = TOLERANCE
) -> int | None:
    """Return the index of the first value of the steady state.

    The steady state begins at the first value from which the mean of `window` values differs by
    less than `tolerance` (relative) from the mean of all later values; there must be at least
    `window` later values.  The result is None if the values do not settle.  NaN, for rounds without
    the measure, is ignored.

    Examples
    --------
    >>> steady_from([9, 8, 5, 5, 5, 5, 5, 5], window=2)
    2
    >>> steady_from(range(8), window=2) is None
    True
    """
    line = np.asarray(values, dtype=float)
    for begin in range(len(line) - 2 * window + 1):
        mean, later = _mean_of(line[begin : begin + window]), _mean_of(line[begin + window :])
        if mean == later or abs(mean - later) < tolerance * abs(later):
            return begin
    return None


def first_steady(lines: Iterable[Sequence[float] | np.ndarray]) -> int | None:
    """Return the index from which all of several series are steady; None if one never is."""
    begins = [steady_from(line) for line in lines]
    return None if None in begins else max((one for one in begins if one is not None), default=0)


def _mean_of(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if len(known) else float("nan")


# --- rounds without messages of a kind


#: The counts of messages of a system by kind, and of Scribe's events by their cause or number of
#: rounds: a round measures those above 0 only.
_WITH_ZEROS = re.compile(
    rf"([^.]+\.)?messages\..+|{SCRIBE}\."
    rf"((joins|refused|repaired|deliveries\.late)\..+|publications\.({'|'.join(FATES)}))"
)

#: The shares of a round's delivered lookups by their hops.
_SHARES, _OF_ALL = "hops.", "lookups.hops"


def with_zeros(measured: Mapping[int, Mapping[str, float]]) -> dict[int, dict[str, float]]:
    """Return measures by round, with 0 for counts and shares that only other rounds have.

    Rounds without delivered lookups have no shares of lookups.

    Examples
    --------
    >>> with_zeros({0: {"messages.JOIN": 7.0, "cells.delay": 1.0}, 1: {"nodes.live": 9.0}})[1]
    {'nodes.live': 9.0, 'messages.JOIN': 0.0}
    """
    names = dict.fromkeys(name for measures in measured.values() for name in measures)
    counts = dict.fromkeys((name for name in names if _WITH_ZEROS.fullmatch(name)), 0.0)
    shares = dict.fromkeys((name for name in names if name.startswith(_SHARES)), 0.0)
    return {
        number: {**measures, **_absent(counts, measures)}
        | (_absent(shares, measures) if _OF_ALL in measures else {})
        for number, measures in measured.items()
    }


def _absent(zeros: Mapping[str, float], measures: Mapping[str, float]) -> dict[str, float]:
    return {name: zero for name, zero in zeros.items() if name not in measures}


# --- statistics of all rounds


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


def summary_units(asked: Iterable[tuple[CoverageConfig, bool]] = ()) -> dict[str, str]:
    """Return the unit of every statistic of :func:`summarise`.

    `asked` are questions about coverage, and whether a group may publish several times in a round.
    """
    living = [system for system in all_systems() if system.world]
    questions = [one for of in asked for one in coverage_units(*of).items()]
    return {
        f"{measure}{ending}": unit
        for measure, unit in (
            *ROUND_MEASURES.items(),
            *(one for system in living for one in system_measures(system).items()),
            *((f"{system.name}.{name}", unit) for system in living for name, unit in questions),
            *LIVE_TREE_MEASURES.items(),
        )
        for ending in ("", *_ENDINGS)
    }


def measure_of(metric: str) -> str:
    """Return the measure of a statistic of :func:`summarise`, without the statistic's name.

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
        if name in _NO_COUNTS or is_of_coverage(name):
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
    (`summary.steady_from`), without incomplete rounds, if the measure settles.
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
