"""The paper's figures as SVG: a table of what each one shows, and a few ways to draw.

A figure is a row of :data:`FIGURES`; a new one that is drawn in a known way is a new row.  Equal
data give equal bytes: ids are salted with a constant and no date is written.

References
----------
Castro, Druschel, Kermarrec, Rowstron, "Scribe: a large-scale and decentralized application-level
multicast infrastructure", JSAC 20(8), 2002, Section IV, Figures 6-14.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.measures.published import SMALL_GROUPS

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "FIGURES",
    "Drawing",
    "FigureSpec",
    "Histogram",
    "Mark",
    "Series",
    "draw",
    "histogram",
    "shown",
]


@dataclass(frozen=True)
class Series:
    """One curve: which rows of the distributions it shows, its name and its place in `STYLES`.

    `tail_only` curves, which would leave the axes of the figure proper, are drawn in the inset.
    `deviation` is the average standard deviation that the paper gives under the figure.
    """

    label: str
    system: str
    measure: str
    style: int = 0
    tail_only: bool = False
    deviation: float | None = None

    @property
    def deviation_name(self) -> str:
        """The average standard deviation in `metrics.json`."""
        return f"{self.system}.{self.measure}.average_std"


@dataclass(frozen=True)
class Mark:
    """A number the paper quotes, drawn as a thin line with a few words.

    Attributes
    ----------
    value : float
    text : str
    style : int or None
        The curve it belongs to, as a place in `STYLES`; None is grey.
    axis : str
        ``x`` for a vertical line at `value`, ``y`` for a horizontal one.
    side : str
        Where the words stand: ``left`` or ``right`` of a vertical line; at the ``left`` or
        ``right`` end of a horizontal one.
    end : str
        Where the words of a vertical line start: ``top`` or ``bottom``.
    """

    value: float
    text: str
    style: int | None = None
    axis: str = "x"
    side: str = "right"
    end: str = "bottom"


@dataclass(frozen=True)
class FigureSpec:
    """What one figure of the paper shows.

    Attributes
    ----------
    number : str
        The figure's number in the paper, and its key in the distributions.
    slug, title, caption : str
        For file names; over and under the figure.
    kind : str
        ``ranks`` (size against rank), ``cumulative`` (things with at most x) or ``counts`` (things
        with exactly x; an inset has those with at least x, on log scales).
    x, y : str
        Titles of the axes.
    thing : str
        What is counted, in the plural.
    series : tuple of Series
    marks : tuple of Mark
    log_x : bool
        The x axis is logarithmic, and what has a value of 0 is left out.
    """

    number: str
    slug: str
    title: str
    caption: str
    kind: str
    x: str
    y: str
    thing: str
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = False

    @property
    def name(self) -> str:
        """Such as ``figure-07-delay-penalty``."""
        return f"figure-{int(self.number):02d}-{self.slug}"


def _variants(measure: str) -> tuple[Series, ...]:
    """A curve for each way to build the trees of small groups."""
    return (
        Series("Scribe", "scribe", measure, 0),
        Series("Collapse", "scribe_collapse", measure, 1),
        Series("Lazy growth", "scribe_lazy", measure, 2),
    )


#: What figures of the same measure have in common.
_TABLES: dict[str, Any] = {
    "caption": "Nodes with exactly x non-empty children tables, nodes with none included; the "
    "inset shows the tail, as the nodes with at least x, on log scales.",
    "kind": "counts",
    "x": "children tables",
    "y": "nodes",
    "thing": "nodes",
}
_ENTRIES: dict[str, Any] = {
    "caption": "Nodes with exactly x entries in all their children tables, nodes with none "
    "included; the inset shows the tail, as the nodes with at least x, on log scales.",
    "kind": "counts",
    "x": "children-table entries",
    "y": "nodes",
    "thing": "nodes",
}
_LINKS: dict[str, Any] = {
    "caption": "Directed links that carry exactly x packets, links with none omitted; the inset "
    "shows the tail, as the links with at least x, on log scales.",
    "kind": "counts",
    "x": "link stress (packets)",
    "y": "directed links",
    "thing": "links with traffic",
}

FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec(
        number="6",
        slug="group-size",
        title="Group size against group rank",
        caption="Groups ranked by size; both axes logarithmic.",
        kind="ranks",
        x="group rank",
        y="group size (members)",
        thing="groups",
        series=(Series("Group size", "all", "group_size"),),
        log_x=True,
        marks=(
            Mark(100_000, "paper: largest 100,000", axis="y"),
            Mark(11, "paper: smallest 11", axis="y", side="left"),
        ),
    ),
    FigureSpec(
        number="7",
        slug="delay-penalty",
        title="Delay penalty relative to IP multicast",
        caption="Groups whose RAD (ratio of mean delays) or RMD (ratio of maximum delays) is at "
        "most x.",
        kind="cumulative",
        x="delay penalty (Scribe / IP multicast)",
        y="groups with at most x (cumulative)",
        thing="groups",
        series=(
            Series("RAD", "scribe", "rad", 0, deviation=62),
            Series("RMD", "scribe", "rmd", 1, deviation=21),
        ),
        marks=(
            Mark(1.68, "paper: median RAD 1.68, RMD 1.69"),
            Mark(2, "paper: max RAD 2", 0),
            Mark(4.26, "paper: max RMD 4.26", 1, side="left"),
        ),
    ),
    FigureSpec(
        number="8",
        slug="children-tables",
        title="Children tables per node",
        **_TABLES,
        series=(Series("Scribe", "scribe", "children_tables", deviation=58),),
        marks=(
            Mark(2, "paper: median 2"),
            Mark(40, "paper: max 40", side="left", end="top"),
        ),
    ),
    FigureSpec(
        number="9",
        slug="children-entries",
        title="Children-table entries per node",
        **_ENTRIES,
        series=(Series("Scribe", "scribe", "children_entries", deviation=3.2),),
        marks=(
            Mark(3, "paper: median 3"),
            Mark(1059, "paper: max 1,059", side="left", end="top"),
        ),
    ),
    FigureSpec(
        number="10",
        slug="link-stress",
        title="Link stress, one message to every group",
        **_LINKS,
        series=(
            Series("Scribe", "scribe", "link_stress", 0, deviation=1.4),
            Series("IP multicast", "ip_multicast", "link_stress", 1, deviation=1.9),
            Series("Naive unicast", "naive_unicast", "link_stress", 2, tail_only=True),
        ),
        marks=(
            Mark(4031, "paper: max 4,031", 0),
            Mark(950, "paper: max 950", 1, side="left", end="top"),
        ),
        log_x=True,
    ),
    FigureSpec(
        number="11",
        slug="bottleneck-remover",
        title="Children-table entries per node, with the bottleneck remover",
        **_ENTRIES,
        series=(
            Series(
                "Scribe, bottleneck remover", "scribe_bottleneck", "children_entries", deviation=57
            ),
        ),
        marks=(Mark(64, "paper: bound 64", side="left", end="top"),),
    ),
    FigureSpec(
        number="12",
        slug="small-groups-children-tables",
        title="Many small groups: children tables per node",
        **_TABLES,
        series=_variants("children_tables"),
    ),
    FigureSpec(
        number="13",
        slug="small-groups-children-entries",
        title="Many small groups: children-table entries per node",
        **_ENTRIES,
        series=_variants("children_entries"),
        marks=(
            Mark(21.2, "paper: mean 21.2", 0),
            Mark(8.5, "paper: mean 8.5", 1, side="left", end="top"),
        ),
    ),
    FigureSpec(
        number="14",
        slug="small-groups-link-stress",
        title="Many small groups: link stress, one message to every group",
        **_LINKS,
        series=(
            *_variants("link_stress"),
            Series("IP multicast", "ip_multicast", "link_stress", 3),
            Series("Naive unicast", "naive_unicast", "link_stress", 4),
        ),
        log_x=True,
    ),
)

#: The figures of the main experiment.
_MAIN = ("6", "7", "8", "9", "10")

#: Colour (Okabe-Ito, safe for the colour-blind) and dashes of each style.
STYLES: tuple[tuple[str, Any], ...] = (
    ("#0072B2", "-"),
    ("#D55E00", (0, (5, 1.6))),
    ("#009E73", (0, (1.2, 1.4))),
    ("#CC79A7", (0, (6, 1.5, 1.2, 1.5))),
    ("#000000", (0, (3, 1.2, 1, 1.2, 1, 1.2))),
)
_MARK_COLOUR = "#555555"
_LEGEND_COLUMNS = 3
#: Where the inset stands in its axes: left, bottom, width, height.
_INSET = (0.42, 0.3, 0.57, 0.63)
#: Words of a mark stay legible where a curve runs under them.
_HALO = 'g[id*="-mark-"] text { paint-order: stroke; stroke: #fff; stroke-width: 2px; }'

_RC = {
    "svg.hashsalt": "scribe_spark",  # ids are equal in every run
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first comes with matplotlib
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#333333",
    "axes.labelcolor": "#222222",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "path.simplify": True,
}


@dataclass(frozen=True)
class Histogram:
    """How many things have each value.

    Attributes
    ----------
    values : ndarray of float, ascending, distinct
    counts : ndarray of float, one for each value
    """

    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __bool__(self) -> bool:
        return len(self.values) > 0

    @property
    def at_most(self) -> np.ndarray:
        """Things with at most each value."""
        return np.cumsum(self.counts)

    @property
    def at_least(self) -> np.ndarray:
        """Things with at least each value."""
        return np.cumsum(self.counts[::-1])[::-1]

    @property
    def total(self) -> float:
        """All things."""
        return float(self.counts.sum())

    @property
    def median(self) -> float:
        """The least value that at least half of the things do not exceed."""
        half = int(np.searchsorted(self.at_most, self.total / 2))
        return float(self.values[min(half, len(self.values) - 1)])


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn: its SVG, and in words what it shows (its text alternative)."""

    spec: FigureSpec
    svg: str
    words: str


Curves = Sequence[tuple[Series, Histogram]]


def histogram(distributions: pd.DataFrame, spec: FigureSpec, series: Series) -> Histogram:
    """The rows of one curve; empty where there are none.

    Parameters
    ----------
    distributions : DataFrame
        ``figure, system, measure, value, count``.
    spec : FigureSpec
    series : Series
    """
    if not {"figure", "system", "measure", "value", "count"} <= set(distributions.columns):
        return Histogram()
    rows = distributions[
        (distributions["figure"].astype(str) == spec.number)
        & (distributions["system"] == series.system)
        & (distributions["measure"] == series.measure)
    ]
    values = rows["value"].to_numpy(dtype=float, na_value=np.nan)
    counts = rows["count"].to_numpy(dtype=float, na_value=np.nan)
    kept = np.isfinite(values) & (counts > 0)
    if spec.log_x:
        kept &= values > 0
    distinct, which = np.unique(values[kept], return_inverse=True)
    return Histogram(distinct, np.bincount(which, counts[kept], minlength=len(distinct)))


def shown(distributions: pd.DataFrame) -> list[FigureSpec]:
    """The figures of an experiment: those with data, and the main ones that none replaces."""
    there = set(distributions["figure"].astype(str)) if "figure" in distributions else set()
    bare = {number for number in _MAIN if SMALL_GROUPS.get(number) not in there}
    return [spec for spec in FIGURES if spec.number in there | bare]


def draw(spec: FigureSpec, distributions: pd.DataFrame) -> Drawing:
    """Draw one figure; without data it says so."""
    from matplotlib import style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    curves = [(series, histogram(distributions, spec, series)) for series in spec.series]
    curves = [(series, data) for series, data in curves if data]
    words = _describe(spec, curves)
    with style.context(["default", _RC]):  # whatever the user's matplotlibrc says
        figure = Figure(figsize=(4.5, 3.15))
        FigureCanvasSVG(figure)
        several = len(spec.series) > 1  # a legend stands above the axes
        rows = -(-len(spec.series) // _LEGEND_COLUMNS) if several else 0
        axes = figure.add_axes((0.165, 0.135, 0.815, 0.83 - 0.055 * rows))
        axes.set_xlabel(spec.x)
        axes.set_ylabel(spec.y)
        if curves:
            _KINDS[spec.kind](axes, spec, curves)
            if several:
                _legend(axes, curves)
        else:
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="#555555")
        return Drawing(spec, _svg(figure, spec.name, _heading(spec), words), words)


# Ways to draw -------------------------------------------------------------------------------------


def _ranks(axes: Axes, spec: FigureSpec, curves: Curves) -> None:
    axes.set(xscale="log", yscale="log")
    for series, data in curves:
        _line(axes, series, data.values, data.counts)
    _marks(axes, spec.marks)
    _log_axis(axes, "x")
    _log_axis(axes, "y")


def _cumulative(axes: Axes, spec: FigureSpec, curves: Curves) -> None:
    right = max([m.value for m in spec.marks] + [data.values[-1] for _, data in curves]) * 1.05
    for series, data in curves:
        x = np.concatenate(([0.0], data.values, [right]))
        y = np.concatenate(([0.0], data.at_most, [data.total]))
        _line(axes, series, x, y, drawstyle="steps-post")
    _marks(axes, spec.marks)
    axes.set_xlim(0, right)
    axes.set_ylim(bottom=0)
    _whole_numbers(axes.yaxis)


def _counts(axes: Axes, spec: FigureSpec, curves: Curves) -> None:
    # 1. The figure proper: how many have exactly x.
    drawn = [(series, *_with_gaps(data)) for series, data in curves if not series.tail_only]
    for series, x, y in drawn:
        _line(axes, series, x, y)
    if spec.log_x:
        axes.set_xscale("log")
        _log_axis(axes, "x")
    else:
        axes.set_xlim(left=0)
        _whole_numbers(axes.xaxis)
    axes.set_ylim(bottom=0)
    _whole_numbers(axes.yaxis)
    for _, x, y in drawn:
        _keep_left(axes, x, y)

    # 2. The tail: how many have at least x.
    inset = axes.inset_axes(_INSET)
    inset.set(xscale="log", yscale="log")
    inset.tick_params(labelsize=6.5, length=2, pad=1.5)
    inset.set_title(f"{spec.y} with at least x", fontsize=7, pad=3, color="#222222")
    for series, data in curves:
        shown = data.values > 0
        _line(inset, series, data.values[shown], data.at_least[shown], linewidth=1.3)
    _marks(inset, spec.marks, size=6.3)
    _log_axis(inset, "x")
    _log_axis(inset, "y")


_KINDS = {"ranks": _ranks, "cumulative": _cumulative, "counts": _counts}


# Parts of a drawing -------------------------------------------------------------------------------


def _line(axes: Axes, series: Series, x: np.ndarray, y: np.ndarray, **options: Any) -> None:
    colour, dashes = STYLES[series.style]
    marker = "." if len(x) == 1 else None  # a line through one point is invisible
    axes.plot(x, y, color=colour, linestyle=dashes, marker=marker, **options)


def _with_gaps(data: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Values and counts with the zeros on either side of a gap between whole values."""
    values, top = data.values, data.values[-1]
    x = np.unique(np.concatenate((values, values[:-1] + 1, (values - 1)[1:])))
    y = np.zeros(len(x))
    y[np.searchsorted(x, values)] = data.counts
    return x[x <= top], y[x <= top]


def _keep_left(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Lengthen the x axis until what is as high as the inset is left of it."""
    high = np.flatnonzero(y > 0.7 * _INSET[1] * axes.get_ylim()[1])
    if len(high) == 0:
        return
    transform = axes.transScale.transform
    last = x[min(high[-1] + 1, len(x) - 1)]
    (left, _), (edge, _) = transform([(axes.get_xlim()[0], 1.0), (last, 1.0)])
    needed = left + (edge - left) / (_INSET[0] - 0.07)  # its tick labels need room too
    (right, _) = axes.transScale.inverted().transform((needed, 1.0))
    axes.set_xlim(right=max(right, axes.get_xlim()[1]))


def _marks(axes: Axes, marks: Sequence[Mark], size: float = 7) -> None:
    for number, mark in enumerate(marks):
        colour = _MARK_COLOUR if mark.style is None else STYLES[mark.style][0]
        line: dict[str, Any] = {"color": colour, "linewidth": 0.7, "linestyle": (0, (2, 1.5))}
        left = mark.side == "left"
        if mark.axis == "y":
            axes.axhline(mark.value, **line)
            place: dict[str, Any] = {
                "xy": (0.02 if left else 0.98, mark.value),
                "xycoords": axes.get_yaxis_transform(),
                "xytext": (0, 2.5),
                "ha": "left" if left else "right",
            }
        else:
            axes.axvline(mark.value, **line)
            place = {
                "xy": (mark.value, 0.97 if mark.end == "top" else 0.04),
                "xycoords": axes.get_xaxis_transform(),
                "xytext": (-2 if left else 2, 0),
                "ha": "right" if left else "left",
                "va": mark.end,
                "rotation": 90,
            }
        words: dict[str, Any] = {"color": colour, "fontsize": size, "textcoords": "offset points"}
        axes.annotate(mark.text, gid=f"mark-{number}", **place, **words)


def _legend(axes: Axes, curves: Curves) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=STYLES[series.style][0],
            linestyle=STYLES[series.style][1],
            label=series.label + (" (inset only)" if series.tail_only else ""),
        )
        for series, _ in curves
    ]
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.01, 0.99),
        ncols=min(len(handles), _LEGEND_COLUMNS),
        frameon=False,
        handlelength=2.1,
        columnspacing=1.1,
    )


def _log_axis(axes: Axes, which: str) -> None:
    """Decades from 1, labelled 1, 10, 100, 1k, ..., the data well inside.

    From below 1 where a mean over topologies is.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.dataLim.intervalx if which == "x" else axes.dataLim.intervaly
    axis = axes.xaxis if which == "x" else axes.yaxis
    decades = max(1.0, math.log10(max(high, 1.0)))
    (axes.set_xlim if which == "x" else axes.set_ylim)(0.85 * min(low, 1), 10 ** (decades * 1.04))
    axis.set_major_locator(LogLocator(numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=20))
    axis.set_minor_formatter(NullFormatter())


def _whole_numbers(axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value < 1e6 else _short(value))
    )


def _short(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


# SVG ----------------------------------------------------------------------------------------------


def _svg(figure: Figure, name: str, heading: str, words: str) -> str:
    """The figure as an ``<svg>`` element that can stand alone or beside others in one page.

    Ids carry the figure's `name`, so those of two figures never meet; a title and a description are
    its text alternative.
    """
    file = io.StringIO()
    nothing = {key: None for key in ("Date", "Creator", "Format", "Type")}
    figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    title, described = f"{name}-title", f"{name}-words"
    head, body = text.split(">", 1)
    return (
        f'{head} role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n <style>{_HALO}</style>{body}'
    )


def _heading(spec: FigureSpec) -> str:
    return f"Figure {spec.number}: {spec.title}"


def _describe(spec: FigureSpec, curves: Curves) -> str:
    """What the curves show, in a sentence each."""
    if not curves:
        return "No data."
    if spec.kind == "ranks":
        sentences = [
            f"{len(data.values):,} {spec.thing}, from {data.counts.max():,.0f} members down to "
            f"{data.counts.min():,.0f}, {data.total:,.0f} in all."
            for _, data in curves
        ]
    else:
        sentences = [
            f"{series.label}: {data.total:,.0f} {spec.thing}, median {_number(data.median)}, "
            f"maximum {_number(data.values[-1])}."
            for series, data in curves
        ]
    return " ".join(sentences)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
