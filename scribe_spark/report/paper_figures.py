"""The figures of the paper: their axes, curves and quoted values, and how they are drawn.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.core.histogram import Histogram
from scribe_spark.measures.published import main_figures
from scribe_spark.report.charts import Axis, Line, Panel, draw, equal_curves
from scribe_spark.report.style import DASHED, as_text, label_of, short_tick, system_styles
from scribe_spark.report.svg import PageFigure
from scribe_spark.systems.registry import UNICAST, all_systems

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Mark:
    """A thin line in a figure, with words, at a number that the paper quotes."""

    #: For example ``max {scribe.rad.max}``: each metric in braces is replaced by its published
    #: value.  The line is at the first of them; without all values there is no mark.
    words: str
    coloured: bool = False  # True for the colour of the first metric's system, else grey
    axis: str = "x"  # ``x`` for a vertical line, ``y`` for a horizontal one
    side: str = "right"  # the words' side of a vertical line, their end of a horizontal one
    end: str = "bottom"  # the start of the words of a vertical line: ``top`` or ``bottom``

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics in the words of the mark."""
        return re.findall(r"\{(.*?)\}", self.words)

    def text(self, published: Mapping[str, float]) -> str:
        """Return the words of the mark with the published values."""
        return "paper: " + re.sub(r"\{(.*?)\}", lambda m: f"{published[m[1]]:,g}", self.words)


@dataclass(frozen=True)
class FigureSpec:
    """One figure of the paper: its axes, curves and quoted values."""

    number: str  # in the paper, and its key in the distributions
    slug: str  # the text for file names
    title: str
    #: ``ranks`` (size against rank), ``cumulative`` (things with at most x) or ``counts`` (things
    #: with exactly x; an inset has those with at least x, on log scales).
    kind: str
    x: str  # the titles of the axes
    y: str
    thing: str  # the counted things, in the plural
    measures: tuple[str, ...]  # of each system in the figure
    caption: str
    log_x: bool = False  # True for a logarithmic x axis, without things with the value 0
    unicast_in_inset: bool = False  # True if curves of unicast are too long for the main figure
    marks: tuple[Mark, ...] = ()

    @property
    def name(self) -> str:
        """The name of the figure's files, for example ``figure-07-delay-penalty``."""
        return f"figure-{int(self.number):02d}-{self.slug}"


_INSET = "The inset shows the number of {} with at least x, on logarithmic axes."

#: The common parts of figures of the same measure: kind, axes, things, measures, and caption.
Counted = tuple[str, str, str, str, tuple[str, ...], str]
_SIZES: Counted = (
    *("ranks", "group rank", "group size (members)", "groups", ("group_size",)),
    "The size of each group by its rank; both axes are logarithmic.",
)
_DELAYS: Counted = (
    *("cumulative", "delay penalty (delay / delay by IP multicast)"),
    *("groups with at most x (cumulative)", "groups", ("rad", "rmd")),
    "The number of groups whose RAD (ratio of mean delays) or RMD (ratio of maximum delays) is at "
    "most x. Most groups are small; the figure of RAD by group size shows the large ones.",
)
_TABLES: Counted = (
    *("counts", "children tables", "nodes", "nodes", ("children_tables",)),
    "The number of nodes with exactly x non-empty children tables; nodes without one have x = 0. "
    + _INSET.format("nodes"),
)
_ENTRIES: Counted = (
    *("counts", "children-table entries", "nodes", "nodes", ("children_entries",)),
    "The number of nodes with exactly x entries in all their children tables; nodes without "
    "entries have x = 0. " + _INSET.format("nodes"),
)
_LINKS: Counted = (
    *("counts", "link stress (packets)", "directed links", "links with traffic", ("link_stress",)),
    "The number of directed links that carry exactly x packets; links without packets are left "
    "out. " + _INSET.format("links"),
)

FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec("6", "group-size", "Group size against group rank", *_SIZES, log_x=True, marks=(
        Mark("largest {groups.size.max}", axis="y"),
        Mark("smallest {groups.size.min}", axis="y", side="left"))),
    FigureSpec("7", "delay-penalty", "Delay penalty relative to IP multicast", *_DELAYS, marks=(
        Mark("median RAD {scribe.rad.median}, RMD {scribe.rmd.median}"),
        Mark("max RAD {scribe.rad.max}", coloured=True),
        Mark("max RMD {scribe.rmd.max}", coloured=True, side="left"))),
    FigureSpec("8", "children-tables", "Children tables per node", *_TABLES, marks=(
        Mark("median {scribe.children_tables.median}"),
        Mark("max {scribe.children_tables.max}", side="left", end="top"))),
    FigureSpec("9", "children-entries", "Children-table entries per node", *_ENTRIES, marks=(
        Mark("median {scribe.children_entries.median}"),
        Mark("max {scribe.children_entries.max}", side="left", end="top"))),
    FigureSpec("10", "link-stress", "Link stress, one message to every group", *_LINKS,
               log_x=True, unicast_in_inset=True, marks=(
        Mark("max {scribe.link_stress.max}", coloured=True),
        Mark("max {ip_multicast.link_stress.max}", coloured=True, side="left", end="top"))),
    FigureSpec("11", "bottleneck-remover",
               "Children-table entries per node, with the bottleneck remover", *_ENTRIES, marks=(
        Mark("bound {scribe_bottleneck.children_entries.max}", side="left", end="top"),)),
    FigureSpec("12", "small-groups-children-tables",
               "Many small groups: children tables per node", *_TABLES),
    FigureSpec("13", "small-groups-children-entries",
               "Many small groups: children-table entries per node", *_ENTRIES, marks=(
        Mark("mean {scribe.children_entries.mean}", coloured=True),
        Mark("mean {scribe_collapse.children_entries.mean}", coloured=True, side="left",
             end="top"))),
    FigureSpec("14", "small-groups-link-stress",
               "Many small groups: link stress, one message to every group", *_LINKS, log_x=True),
)  # fmt: skip

#: The figures of the main experiment.
_MAIN = ("6", "7", "8", "9", "10")


def shown_figures(distributions: pd.DataFrame) -> list[FigureSpec]:
    """Return the figures of an experiment, given the rows of its table `distributions`.

    These are the figures with rows, and of the paper's main experiment also those without rows,
    unless a figure with rows replaces them.
    """
    there = set(distributions["figure"].astype(str)) if "figure" in distributions else set()
    replaced = {main for other, main in main_figures().items() if other in there}
    return [spec for spec in FIGURES if spec.number in there | (set(_MAIN) - replaced)]


# --- the curves of a figure: one for each of its systems and measures

#: Columns of the table `distributions`.
COLUMNS = ("figure", "system", "measure", "value", "count")

#: The `system` of rows that are the same for all systems.
ALL_SYSTEMS = "all"

#: The names of curves by measure, if a figure shows several measures of one system.
_MEASURE_LABELS = {"rad": "RAD", "rmd": "RMD"}


@dataclass(frozen=True)
class Series:
    """One curve of a figure of the paper: a measure of a system."""

    label: str
    system: str  # with `measure`, the key of its rows in the distributions
    measure: str
    inset_only: bool = False  # True if it would leave the axes of the main figure

    @property
    def deviation_name(self) -> str:
        """The name of the curve's average standard deviation over topologies, in the metrics."""
        return f"{self.system}.{self.measure}.average_std"


def series_of(spec: FigureSpec, distributions: pd.DataFrame) -> tuple[Series, ...]:
    """Return the curves of a figure: the paper's, then those of other systems.

    The paper's curves are included even without data.
    """
    if spec.measures == ("group_size",):
        return (Series("Group size", ALL_SYSTEMS, "group_size"),)
    paper = [s.name for s in all_systems() if s.figures is not None and spec.number in s.figures]
    systems = [*paper, *_other_systems(spec, distributions)]
    unicast = [system.name for system in all_systems() if system.family == UNICAST]
    return tuple(
        Series(
            label=_label(spec, system, measure, len(systems) > 1),
            system=system,
            measure=measure,
            inset_only=spec.unicast_in_inset and system in unicast,
        )
        for system in systems
        for measure in spec.measures
    )


def _label(spec: FigureSpec, system: str, measure: str, several: bool) -> str:
    if len(spec.measures) == 1:
        return label_of(system)
    return f"{label_of(system)}, " * several + _MEASURE_LABELS[measure]


def _other_systems(spec: FigureSpec, distributions: pd.DataFrame) -> list[str]:
    """Return the systems with data for a figure that no figure of the paper shows."""
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
    """Return the histogram of one curve of a figure; with `positive`, without values of 0."""
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


# --- drawing

_MARK_COLOUR = _MEASURE_COLOUR = "#555555"
#: The lines of the measures of a system.
_DASHES = ("-", DASHED)


@dataclass(frozen=True)
class Curve:
    """A curve of a figure as it is drawn: its series, its data, and its style."""

    series: Series
    data: Histogram
    look: Mapping[str, Any]


#: A mark's value on its axis, its words, its position, and its colour.
Quoted = Sequence[tuple[float, str, Mark, str]]


def draw_figure(
    spec: FigureSpec,
    distributions: pd.DataFrame,
    published: Mapping[str, float] | None = None,
    note: str = "",
) -> PageFigure:
    """Draw a figure of the paper; without data, the figure says so.

    `published` has the values that the paper quotes by metric, `note` a sentence for the caption.
    """
    read = [
        (one, read_histogram(distributions, spec.number, one.system, one.measure, spec.log_x))
        for one in series_of(spec, distributions)
    ]
    styles = system_styles(page_systems(distributions))
    several = len({one.system for one, data in read if data}) > 1
    curves = [Curve(one, data, _look(spec, one, styles, several)) for one, data in read if data]
    known = published or {}
    quoted = [
        (
            *(float(known[mark.metrics[0]]), mark.text(known), mark),
            styles[mark.metrics[0].partition(".")[0]]["color"] if mark.coloured else _MARK_COLOUR,
        )
        for mark in spec.marks
        if known.keys() >= {*mark.metrics}
    ]
    groups = equal_curves([(curve.data.values, curve.data.counts) for curve in curves])
    labels = ([curves[number].series.label for number in group] for group in groups)
    equal = "; ".join(" = ".join(group) for group in labels if len(group) > 1)
    told = spec.caption, note, f"Equal curves: {equal}." if equal else ""
    title = f"Figure {spec.number}. {spec.title}"
    panel = Panel(
        *(spec.name, title, "large", (), Axis(spec.x), Axis(spec.y), _describe(spec, curves)),
        marks=None if curves else _no_data,
        caption=" ".join(filter(None, told)),
        tables=("distributions",),
    )
    return draw(_of_kind(panel, spec, curves, quoted) if curves else panel)


def _no_data(axes: Axes) -> None:
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="#555555")


def _of_kind(panel: Panel, spec: FigureSpec, curves: Sequence[Curve], quoted: Quoted) -> Panel:
    """Return the panel with the lines, the axes and the marks of its kind of figures."""
    panel = replace(panel, heading=_heading(spec), marks=partial(_marks, quoted))
    if spec.kind == "cumulative":
        ends = [value for value, *_ in quoted] + [curve.data.values[-1] for curve in curves]
        right = max(ends) * 1.05 or 1.0

        def points(data: Histogram) -> tuple[np.ndarray, np.ndarray]:
            return np.r_[0.0, data.values, right], np.r_[0.0, data.at_most, data.total]

        lines = _lines(spec, curves, Histogram.count_at_most, points)
        x, y = replace(panel.x, low=0, high=right), _from_zero(panel.y)
        heading = _heading(spec, "at most ")
        return replace(panel, kind="large steps", lines=lines, x=x, y=y, heading=heading)
    every = _lines(spec, curves, Histogram.count_of, zeros_in_gaps)
    x, y = (replace(axis, scale="decades") for axis in (panel.x, panel.y))
    if spec.kind == "ranks":
        return replace(panel, lines=every, x=x, y=y)

    def tail(data: Histogram) -> tuple[np.ndarray, np.ndarray]:
        return data.values[data.values > 0], data.at_least[data.values > 0]

    inset = Panel(
        *(spec.name, f"{spec.y} with at least x", "inset"),
        _lines(spec, curves, Histogram.count_at_least, tail),
        *(Axis(scale="decades"), Axis(scale="decades")),
        heading=_heading(spec, "at least "),
        marks=partial(_marks, quoted, size=6.3),
    )
    shown = (line for line, curve in zip(every, curves, strict=True) if not curve.series.inset_only)
    x, y = x if spec.log_x else _from_zero(panel.x), _from_zero(panel.y)
    return replace(panel, lines=[*shown], x=x, y=y, marks=None, inset=inset, table=every)


def _heading(spec: FigureSpec, bound: str = "") -> Callable[[float], str]:
    x = spec.x.partition(" (")[0]
    return lambda value: f"{x}: {bound}{as_text(value)}"


def _from_zero(axis: Axis) -> Axis:
    """Return the axis from 0 on, with ticks at whole numbers, for numbers of things."""
    return replace(axis, low=0, ticks=6, steps=(1, 2, 5, 10), is_whole=True, tick=short_tick)


def _lines(
    spec: FigureSpec,
    curves: Sequence[Curve],
    at: Callable[[Histogram, np.ndarray], np.ndarray],
    points: Callable[[Histogram], tuple[np.ndarray, np.ndarray]],
) -> list[Line]:
    """Return the lines of curves: through ``points(data)``, with the values ``at(data, x)``."""
    lines = []
    for curve in curves:
        label = curve.series.label if len(curves) > 1 else spec.y.partition(" (")[0]
        x, y = points(curve.data)
        look = dict(curve.look)
        if len(x) == 1:  # a line through one point is invisible
            look |= {"marker": look.get("marker") or "."}
        lines.append(Line(label, look, curve.data.values, partial(at, curve.data), (x, y)))
    return lines


def zeros_in_gaps(data: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Return the values and counts of a histogram, with zeros at the ends of gaps.

    A gap is where whole values are missing.
    """
    values = data.values
    x = np.unique(np.concatenate((values, values[:-1] + 1, values[1:] - 1)))
    x = x[x <= values[-1]]
    y = np.zeros(len(x))
    y[index_sorted(x, values)] = data.counts
    return x, y


def _marks(quoted: Quoted, axes: Axes, size: float = 7) -> None:
    """Draw the values that the paper quotes: thin lines with words of this font size."""
    for number, (value, text, mark, colour) in enumerate(quoted):
        look: dict[str, Any] = {"color": colour, "linewidth": 0.7, "linestyle": (0, (2, 1.5))}
        left, place = mark.side == "left", dict[str, Any]()
        if mark.axis == "y":
            axes.axhline(value, **look)
            place |= {"xy": (0.02 if left else 0.98, value), "xytext": (0, 2.5)}
            place |= {"xycoords": axes.get_yaxis_transform(), "ha": "left" if left else "right"}
        else:
            axes.axvline(value, **look)
            place |= {"xy": (value, 0.97 if mark.end == "top" else 0.04), "va": mark.end}
            place |= {"xycoords": axes.get_xaxis_transform(), "ha": "right" if left else "left"}
            place |= {"xytext": (-2 if left else 2, 0), "rotation": 90}
        words: dict[str, Any] = {"color": colour, "fontsize": size, "textcoords": "offset points"}
        axes.annotate(text, gid=f"mark-{number}", **place, **words)


def _look(
    spec: FigureSpec, series: Series, styles: Mapping[str, dict[str, Any]], several: bool
) -> dict[str, Any]:
    """Return the style of a curve; markers distinguish systems if there are several."""
    look: dict[str, Any] = {"linestyle": _DASHES[spec.measures.index(series.measure)]}
    if series.system == ALL_SYSTEMS:
        return {**look, "color": _MEASURE_COLOUR}
    # the first marker and the distance of markers, in diagonals of the axes
    spaced = 0.02 + 0.03 * (list(styles).index(series.system) % 5), 0.17
    return look | styles[series.system] | ({"markevery": spaced} if several else {"marker": None})


def page_systems(distributions: pd.DataFrame) -> set[str]:
    """Return the systems in a page's distributions, which have one style in all figures."""
    return {*distributions.get("system", [])} - {ALL_SYSTEMS}


def _describe(spec: FigureSpec, curves: Sequence[Curve]) -> str:
    """Return a sentence for each curve of a figure."""
    sentences = [
        f"{curve.series.label}: {data.total:,.0f} {spec.thing}, "
        f"median {_number(data.median())}, maximum {_number(data.max)}."
        if spec.kind != "ranks"
        else f"{len(data.values):,} {spec.thing}, from {data.counts.max():,.0f} members down to "
        f"{data.counts.min():,.0f}, {data.total:,.0f} in all."
        for curve in curves
        for data in (curve.data,)
    ]
    return " ".join(sentences) or "No data."


def _number(value: float | None) -> str:
    value = value or 0.0
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
