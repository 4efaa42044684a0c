"""The curves of a figure: one for each system and measure that it shows.

The systems are those of the registry (`systems`), and any other that has data.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from scribe_spark.report.figure_spec import FigureSpec
from scribe_spark.report.histograms import COLUMNS
from scribe_spark.report.text import readable
from scribe_spark.systems import UNICAST, all_systems, find_system

__all__ = ["Series", "series_of"]

#: What curves are called by their measure, where a figure shows several of one system.
_MEASURE_LABELS = {"rad": "RAD", "rmd": "RMD"}


@dataclass(frozen=True)
class Series:
    """One curve of a figure.

    Attributes
    ----------
    label : str
    system, measure : str
        Which rows of the distributions it shows.
    inset_only : bool
        It would leave the axes of the figure proper, so it is drawn in the inset only.
    """

    label: str
    system: str
    measure: str
    inset_only: bool = False

    @property
    def deviation_name(self) -> str:
        """The name of its average standard deviation over topologies, in `metrics.json`."""
        return f"{self.system}.{self.measure}.average_std"


def series_of(spec: FigureSpec, distributions: pd.DataFrame) -> tuple[Series, ...]:
    """The curves of a figure: the paper's, then those of systems that the paper does not have.

    The paper's are there even without data, so that every curve keeps its colour.
    """
    if spec.measures == ("group_size",):
        return (Series("Group size", "all", "group_size"),)
    paper = [s for s in all_systems() if s.figures is not None and spec.number in s.figures]
    several = len(spec.measures) > 1
    series = [
        Series(
            label=_MEASURE_LABELS[measure] if several else system.label,
            system=system.name,
            measure=measure,
            inset_only=spec.unicast_in_inset and system.family == UNICAST,
        )
        for system in paper
        for measure in spec.measures
    ]
    for name in _other_systems(spec, distributions):
        system = find_system(name)
        label = readable(name) if system is None else system.label
        for measure in spec.measures:
            words = f"{label}, {_MEASURE_LABELS[measure]}" if several else label
            inset_only = spec.unicast_in_inset and system is not None and system.family == UNICAST
            series.append(Series(words, name, measure, inset_only))
    return tuple(series)


def _other_systems(spec: FigureSpec, distributions: pd.DataFrame) -> list[str]:
    """The systems with data of a figure that are in no figure of the paper's."""
    if not set(COLUMNS) <= set(distributions.columns):
        return []
    rows = distributions[distributions["figure"].astype(str) == spec.number]
    there = dict.fromkeys(rows.loc[rows["measure"].isin(spec.measures), "system"])
    known = {system.name for system in all_systems() if system.figures is not None}
    return [name for name in there if name not in known]
