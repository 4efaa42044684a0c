"""The figures of the paper, and the curves of each.

A figure is a row of :data:`FIGURES`; a new figure of a known kind is a new row.  The registry of
systems (`systems`) has the systems of each figure; the values that the paper quotes come with the
run's metrics, if the run is the paper's experiment.

References
----------
Castro, Druschel, Kermarrec, Rowstron, "Scribe: a large-scale and decentralized application-level
multicast infrastructure", JSAC 20(8), 2002, Section IV, Figures 6-14.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.measures.histogram import Histogram
from scribe_spark.measures.published import main_figures
from scribe_spark.report.text import readable
from scribe_spark.systems import UNICAST, all_systems, find_system


@dataclass(frozen=True)
class Mark:
    """Numbers that the paper quotes, drawn as a thin line with a few words."""

    #: For example ``max {scribe.rad.max}``: each metric in braces is replaced by its published
    #: value.  The line is at the first of them; without all values there is no mark.
    words: str
    coloured: bool = False  # True for the colour of the first metric's system, else grey
    axis: str = "x"  # ``x`` for a vertical line, ``y`` for a horizontal one
    side: str = "right"  # the words' side of a vertical line, their end of a horizontal one
    end: str = "bottom"  # the start of the words of a vertical line: ``top`` or ``bottom``

    @property
    def metrics(self) -> list[str]:
        """The metrics in its words."""
        return re.findall(r"\{(.*?)\}", self.words)

    @property
    def system(self) -> str:
        """The system of its first metric."""
        return self.metrics[0].partition(".")[0]

    def is_published(self, published: Mapping[str, float]) -> bool:
        """Return True if all its metrics are published for this run."""
        return all(name in published for name in self.metrics)

    def value(self, published: Mapping[str, float]) -> float:
        """Return the position of its line."""
        return float(published[self.metrics[0]])

    def text(self, published: Mapping[str, float]) -> str:
        """Return its words with the published values."""
        return "paper: " + re.sub(r"\{(.*?)\}", lambda m: f"{published[m[1]]:,g}", self.words)


@dataclass(frozen=True)
class FigureSpec:
    """One figure of the paper: its axes, curves and quoted values."""

    number: str  # in the paper, and its key in the distributions
    slug: str  # the text for file names
    title: str
    caption: str
    #: ``ranks`` (size against rank), ``cumulative`` (things with at most x) or ``counts`` (things
    #: with exactly x; an inset has those with at least x, on log scales).
    kind: str
    x: str  # the titles of the axes
    y: str
    thing: str  # the counted things, in the plural
    measures: tuple[str, ...]  # of each system in the figure
    marks: tuple[Mark, ...] = ()
    log_x: bool = False  # True for a logarithmic x axis, without things with the value 0
    unicast_in_inset: bool = False  # True if curves of unicast are too long for the main figure

    @property
    def name(self) -> str:
        """The name of its files, for example ``figure-07-delay-penalty``."""
        return f"figure-{int(self.number):02d}-{self.slug}"


#: The common parts of figures of the same measure.
_TABLES: dict[str, Any] = {
    "caption": "The number of nodes with exactly x non-empty children tables; nodes without one "
    "have x = 0. The inset shows the number of nodes with at least x, on logarithmic axes.",
    "kind": "counts",
    "x": "children tables",
    "y": "nodes",
    "thing": "nodes",
    "measures": ("children_tables",),
}
_ENTRIES: dict[str, Any] = {
    "caption": "The number of nodes with exactly x entries in all their children tables; nodes "
    "without entries have x = 0. The inset shows the number of nodes with at least x, on "
    "logarithmic axes.",
    "kind": "counts",
    "x": "children-table entries",
    "y": "nodes",
    "thing": "nodes",
    "measures": ("children_entries",),
}
_LINKS: dict[str, Any] = {
    "caption": "The number of directed links that carry exactly x packets; links without packets "
    "are left out. The inset shows the number of links with at least x, on logarithmic axes.",
    "kind": "counts",
    "x": "link stress (packets)",
    "y": "directed links",
    "thing": "links with traffic",
    "measures": ("link_stress",),
    "log_x": True,
}

FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec(
        number="6",
        slug="group-size",
        title="Group size against group rank",
        caption="The size of each group by its rank; both axes are logarithmic.",
        kind="ranks",
        x="group rank",
        y="group size (members)",
        thing="groups",
        measures=("group_size",),
        log_x=True,
        marks=(
            Mark("largest {groups.size.max}", axis="y"),
            Mark("smallest {groups.size.min}", axis="y", side="left"),
        ),
    ),
    FigureSpec(
        number="7",
        slug="delay-penalty",
        title="Delay penalty relative to IP multicast",
        caption="The number of groups whose RAD (ratio of mean delays) or RMD (ratio of maximum "
        "delays) is at most x. Most groups are small; the figure of RAD by group size shows the "
        "large ones.",
        kind="cumulative",
        x="delay penalty (delay / delay by IP multicast)",
        y="groups with at most x (cumulative)",
        thing="groups",
        measures=("rad", "rmd"),
        marks=(
            Mark("median RAD {scribe.rad.median}, RMD {scribe.rmd.median}"),
            Mark("max RAD {scribe.rad.max}", coloured=True),
            Mark("max RMD {scribe.rmd.max}", coloured=True, side="left"),
        ),
    ),
    FigureSpec(
        number="8",
        slug="children-tables",
        title="Children tables per node",
        **_TABLES,
        marks=(
            Mark("median {scribe.children_tables.median}"),
            Mark("max {scribe.children_tables.max}", side="left", end="top"),
        ),
    ),
    FigureSpec(
        number="9",
        slug="children-entries",
        title="Children-table entries per node",
        **_ENTRIES,
        marks=(
            Mark("median {scribe.children_entries.median}"),
            Mark("max {scribe.children_entries.max}", side="left", end="top"),
        ),
    ),
    FigureSpec(
        number="10",
        slug="link-stress",
        title="Link stress, one message to every group",
        **_LINKS,
        unicast_in_inset=True,
        marks=(
            Mark("max {scribe.link_stress.max}", coloured=True),
            Mark("max {ip_multicast.link_stress.max}", coloured=True, side="left", end="top"),
        ),
    ),
    FigureSpec(
        number="11",
        slug="bottleneck-remover",
        title="Children-table entries per node, with the bottleneck remover",
        **_ENTRIES,
        marks=(Mark("bound {scribe_bottleneck.children_entries.max}", side="left", end="top"),),
    ),
    FigureSpec(
        number="12",
        slug="small-groups-children-tables",
        title="Many small groups: children tables per node",
        **_TABLES,
    ),
    FigureSpec(
        number="13",
        slug="small-groups-children-entries",
        title="Many small groups: children-table entries per node",
        **_ENTRIES,
        marks=(
            Mark("mean {scribe.children_entries.mean}", coloured=True),
            Mark(
                "mean {scribe_collapse.children_entries.mean}",
                coloured=True,
                side="left",
                end="top",
            ),
        ),
    ),
    FigureSpec(
        number="14",
        slug="small-groups-link-stress",
        title="Many small groups: link stress, one message to every group",
        **_LINKS,
    ),
)

#: The figures of the main experiment.
_MAIN = ("6", "7", "8", "9", "10")


def shown_figures(distributions: pd.DataFrame) -> list[FigureSpec]:
    """Return an experiment's figures: those with data, and the main ones that no other replaces."""
    there = set(distributions["figure"].astype(str)) if "figure" in distributions else set()
    replaced = {main for other, main in main_figures().items() if other in there}
    return [spec for spec in FIGURES if spec.number in there | (set(_MAIN) - replaced)]


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
