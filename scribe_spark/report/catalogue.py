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

from typing import Any

import pandas as pd

from scribe_spark.measures.published import main_figures
from scribe_spark.report.figure_spec import FigureSpec, Mark

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
