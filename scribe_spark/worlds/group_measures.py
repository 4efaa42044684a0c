"""The names and units of the measures of a world's systems, and the measures of publications.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

import pandas as pd

from scribe_spark.measures.multicasts import BASELINES, multicast_units
from scribe_spark.rounds.declaration import System
from scribe_spark.schemas import PASTRY, PUBLICATION_COUNTS
from scribe_spark.systems.registry import SCRIBE, find_system
from scribe_spark.systems.scribe.scribe import SCRIBE_KINDS
from scribe_spark.worlds.link_stress import LINK_STRESS_MEASURES, packet_measures
from scribe_spark.worlds.round_bytes import byte_units

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
    """Return all measures of a system in a world's rounds with units.

    Of messages by kind, there are only those of Scribe.
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
