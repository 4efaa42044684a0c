"""The counts of a world's rounds: a round without messages of a kind has the count 0."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scribe_spark.scribe.sources import FATES
from scribe_spark.systems import SCRIBE

#: The counts of messages of a system by kind, and of Scribe's events by their cause or number of
#: rounds: a round measures those above 0 only.
_COUNTS = re.compile(
    rf"([^.]+\.)?messages\..+|{SCRIBE}\."
    rf"((joins|refused|repaired|deliveries\.late)\..+|publications\.({'|'.join(FATES)}))"
)

#: The shares of a round's delivered lookups by their hops.
_SHARES, _OF_ALL = "hops.", "lookups.hops"


def with_zeros(measured: Mapping[int, Mapping[str, float]]) -> dict[int, dict[str, float]]:
    """Return the measures of rounds; a count or share of any round is 0 in rounds without it.

    Rounds without delivered lookups have no shares of lookups.

    Examples
    --------
    >>> with_zeros({0: {"messages.JOIN": 7.0, "cells.delay": 1.0}, 1: {"nodes.live": 9.0}})[1]
    {'nodes.live': 9.0, 'messages.JOIN': 0.0}
    """
    names = dict.fromkeys(name for measures in measured.values() for name in measures)
    counts = dict.fromkeys((name for name in names if _COUNTS.fullmatch(name)), 0.0)
    shares = dict.fromkeys((name for name in names if name.startswith(_SHARES)), 0.0)
    return {
        number: {**measures, **_absent(counts, measures)}
        | (_absent(shares, measures) if _OF_ALL in measures else {})
        for number, measures in measured.items()
    }


def _absent(zeros: Mapping[str, float], measures: Mapping[str, float]) -> dict[str, float]:
    return {name: zero for name, zero in zeros.items() if name not in measures}
