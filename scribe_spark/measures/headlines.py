"""The headline measures, which a reader of a run or world should see first."""

from __future__ import annotations

#: Headline measures of each system of a run, without the system's name.
_OF_RUNS = (
    "reached",
    *("latency.p50", "latency.p99", "time_to_50.median", "time_to_99.median"),
    *("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean", "depth.mean"),
    *("children_entries.mean", "children_entries.max"),
    *("link_stress.mean_existing", "link_stress.max", "messages"),
    *("duplicates.mean", "state.max", "join_messages.max"),
)

#: Headline measures of a run as a whole.
_OF_ALL_RUNS = ("pastry.hops.mean", "pastry.table_entries.mean")

#: Headline measures of each system in a world's rounds, without the system's name.
_OF_WORLDS = (
    *("publications.in_time", "publications.late", "publications.lost", "publications.open"),
    *("publications.duplicates", "publications.duplicates.mean"),
    *("multicasts.reached", "control", "orphans"),
    *("latency.p50", "latency.p99", "time_to_99.median"),
    *("rad.median", "rad.largest", "rmd.median", "rmd.largest", "rdp.mean"),
    "link_stress.payload.max",
)

#: Headline measures of a world's nodes and lookups.
_OF_ALL_WORLDS = (
    *("nodes.live", "leaf_sets.right", "cells.missing"),
    "link_stress.payload.max",  # Scribe's
    *("lookups.delivered", "lookups.right", "lookups.hops", "lookups.lost"),
)


def is_headline(measure: str, world: bool = False) -> bool:
    """Return True for headline measures of a run, or of a world's rounds.

    Examples
    --------
    >>> is_headline("scribe.rad.median"), is_headline("scribe.rad.max")
    (True, False)
    >>> is_headline("lookups.hops", world=True), is_headline("link_stress.payload.max", world=True)
    (True, True)
    >>> is_headline("gossipsub.link_stress.payload.max", world=True)
    True
    """
    of_systems, of_all = (_OF_WORLDS, _OF_ALL_WORLDS) if world else (_OF_RUNS, _OF_ALL_RUNS)
    return measure in of_all or measure.partition(".")[2] in of_systems
