"""The figures of the paper.

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

import pandas as pd

from scribe_spark.measures.published import main_figures


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
