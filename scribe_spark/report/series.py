"""The curves of a figure: one for each of its systems and measures.

The systems are those of the registry (`systems`), and any other system with data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from scribe_spark.core.histogram import Histogram
from scribe_spark.report.catalogue import FigureSpec
from scribe_spark.report.text import readable
from scribe_spark.systems import UNICAST, all_systems, find_system

#: Columns of the table `distributions`.
COLUMNS = ("figure", "system", "measure", "value", "count")

#: The `system` of rows that are the same for all systems.
ALL_SYSTEMS = "all"

#: The names of curves by measure, if a figure shows several measures of one system.
_MEASURE_LABELS = {"rad": "RAD", "rmd": "RMD"}


@dataclass(frozen=True)
class Series:
    """One curve of a figure."""

    label: str
    system: str  # with `measure`, the key of its rows in the distributions
    measure: str
    inset_only: bool = False  # True if it would leave the axes of the main figure

    @property
    def deviation_name(self) -> str:
        """The name of its average standard deviation over topologies, in `metrics.json`."""
        return f"{self.system}.{self.measure}.average_std"


def series_of(spec: FigureSpec, distributions: pd.DataFrame) -> tuple[Series, ...]:
    """Return the curves of a figure: the paper's, then those of other systems.

    The paper's curves are included even without data.
    """
    if spec.measures == ("group_size",):
        return (Series("Group size", ALL_SYSTEMS, "group_size"),)
    paper = [s.name for s in all_systems() if s.figures is not None and spec.number in s.figures]
    systems = [*paper, *_other_systems(spec, distributions)]
    return tuple(
        Series(
            label=_label(spec, system, measure, len(systems) > 1),
            system=system,
            measure=measure,
            inset_only=spec.unicast_in_inset and _is_unicast(system),
        )
        for system in systems
        for measure in spec.measures
    )


def label_of(system: str) -> str:
    """Return the name of a system in figures: its label, or its name if it has no label."""
    known = find_system(system)
    return readable(system) if known is None else known.label


def measure_in_words(measure: str) -> str:
    """Return the name of a measure for readers, a system by its label.

    Examples
    --------
    >>> measure_in_words("gossipsub.rad.median")
    'GossipSub, RAD, median'
    """
    system, _, rest = measure.partition(".")
    words = readable(measure)
    return words if find_system(system) is None else f"{label_of(system)}, {_lower(readable(rest))}"


def _lower(words: str) -> str:
    """Return words for the middle of a sentence; an abbreviation stays as it is."""
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def measure_label(measure: str) -> str:
    """Return the name of a measure in figures that show several measures of one system."""
    return _MEASURE_LABELS[measure]


def _label(spec: FigureSpec, system: str, measure: str, several: bool) -> str:
    if len(spec.measures) == 1:
        return label_of(system)
    return f"{label_of(system)}, {measure_label(measure)}" if several else measure_label(measure)


def _is_unicast(system: str) -> bool:
    known = find_system(system)
    return known is not None and known.family == UNICAST


def _other_systems(spec: FigureSpec, distributions: pd.DataFrame) -> list[str]:
    """Return the systems with data of a figure that are in no figure of the paper."""
    if not set(COLUMNS) <= set(distributions.columns):
        return []
    rows = distributions[distributions["figure"].astype(str) == spec.number]
    there = {*rows.loc[rows["measure"].isin(spec.measures), "system"]}
    known = {system.name: system.figures for system in all_systems()}
    others = [name for name, figures in known.items() if name in there and figures is None]
    return [*others, *sorted(there - known.keys())]


def read_histogram(
    distributions: pd.DataFrame, figure: str, system: str, measure: str, positive: bool = False
) -> Histogram:
    """Return the rows of one curve; empty without data."""
    if not set(COLUMNS) <= set(distributions.columns):
        return Histogram()
    rows = distributions[
        (distributions["figure"].astype(str) == figure)
        & (distributions["system"] == system)
        & (distributions["measure"] == measure)
    ]
    values = rows["value"].to_numpy(dtype=float, na_value=np.nan)
    counts = rows["count"].to_numpy(dtype=float, na_value=np.nan)
    kept = np.isfinite(values) & (counts > 0)
    if positive:
        kept &= values > 0
    distinct, which = np.unique(values[kept], return_inverse=True)
    return Histogram(distinct, np.bincount(which, counts[kept], minlength=len(distinct)))
