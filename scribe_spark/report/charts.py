"""Figures of lines over one axis: a :class:`Panel` is data, and :func:`draw` draws every panel."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from scribe_spark.core.histogram import Histogram
from scribe_spark.report.style import as_text, log_axis, marked_style, short_tick
from scribe_spark.report.svg import (
    PageFigure,
    Spot,
    Words,
    coordinate,
    new_figure,
    svg_element,
)

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: An entry of a legend: a label, and the looks of the lines that it names.
Entry = tuple[str, Sequence[Mapping[str, Any]]]

_NO_POINTS = np.empty(0), np.empty(0)


@dataclass(frozen=True)
class Line:
    """A line of a drawing, and the values that are shown along it."""

    label: str  # empty for a single line
    look: Mapping[str, Any]  # its colour, and further options of the drawn line
    x: np.ndarray  # the positions at which values are shown, without NaN
    at: Callable[[np.ndarray], np.ndarray]  # the values there, NaN for none
    points: tuple[np.ndarray, np.ndarray] = _NO_POINTS  # as the line is drawn


@dataclass(frozen=True)
class Axis:
    """An axis of a panel; matplotlib chooses what is None."""

    title: str = ""
    low: float | None = None
    high: float | None = None
    scale: str = "linear"  # or ``log``, or ``decades``: ``log`` from 1, with ticks at 1, 10, ...
    ticks: int | None = None  # the greatest number of ticks
    steps: Sequence[float] | None = (1, 2, 2.5, 5, 10)  # distances of ticks, between 1 and 10
    is_whole: bool = False  # True for ticks at whole numbers only
    tick: Callable[[float], str] | None = None  # the text of a tick
    named: Mapping[float, str] | None = None  # ticks and their texts, in place of all others

    def set_on(self, axes: Axes, which: str) -> None:
        """Set the scale, the ends and the ticks of the ``x`` or ``y`` axis of a drawing."""
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

        axis = axes.xaxis if which == "x" else axes.yaxis
        if self.scale != "linear":
            axes.set(**{f"{which}scale": "log"})
            axis.set_major_locator(LogLocator(numticks=self.ticks or 20))
            axis.set_minor_locator(NullLocator())  # they would take most of a figure's time
        if self.scale == "decades":
            log_axis(axes, which)
        axes.set(**{f"{which}lim": (self.low, self.high)})
        if self.named is not None:
            # a dollar sign in a user's name begins no formula
            axis.set_ticks([*self.named], labels=[*self.named.values()], parse_math=False)
        elif self.ticks is not None and self.scale == "linear":
            whole = {"integer": self.is_whole, "min_n_ticks": 1}
            axis.set_major_locator(MaxNLocator(self.ticks, steps=self.steps, **whole))
        if (tick := self.tick) is not None:
            axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))


class PanelKind(NamedTuple):
    """A kind of panels: their size in inches, their axes, and the options of their lines."""

    size: tuple[float, float]
    box: tuple[float, float, float, float]  # of the axes: left, bottom, width, height
    options: Mapping[str, Any] = MappingProxyType({})


_LARGE = (4.5, 3.15), (0.165, 0.135, 0.815, 0.83)
_STEPS = {"drawstyle": "steps-post"}
_ABOVE_AXES = {"clip_on": False, "zorder": 3}
KINDS = {
    "large": PanelKind(*_LARGE),
    "large steps": PanelKind(*_LARGE, _STEPS),
    # in the axes of the figure around it
    "inset": PanelKind((4.5, 3.15), (0.42, 0.3, 0.57, 0.63), {"linewidth": 1.3}),
    "sizes": PanelKind(*_LARGE, {"zorder": 3}),
    "bytes": PanelKind((4.5, 3.15), (0.165, 0.135, 0.79, 0.83), _STEPS),
    "rounds": PanelKind((4.6, 2.7), (0.15, 0.17, 0.81, 0.78), _ABOVE_AXES),
    "hosts": PanelKind((4.6, 2.7), (0.13, 0.17, 0.83, 0.78), {"zorder": 3}),
    "points": PanelKind((3.1, 2.1), (0.18, 0.2, 0.78, 0.75), _ABOVE_AXES),
    "shares": PanelKind((4.6, 2.9), (0.17, 0.16, 0.8, 0.8), _STEPS),
    "tails": PanelKind((4.6, 2.9), (0.17, 0.16, 0.8, 0.8)),
    "part": PanelKind((2.25, 1.75), (0.26, 0.25, 0.69, 0.64)),
}
#: The number of charts side by side.
_ACROSS = 2


@dataclass(frozen=True)
class Panel:
    """The data of a figure of lines over one axis. Equal lines are striped in their colours."""

    name: str  # of its files
    title: str
    kind: str  # one of :data:`KINDS`
    lines: Sequence[Line]
    x: Axis
    y: Axis
    words: str = ""  # the values in sentences
    heading: Callable[[float], str] = as_text  # of an x: the first line under the pointer
    value: Callable[[float], str] = as_text  # a value in words
    at: Callable[[float], Any] = float  # x in the form of a table
    legend: Sequence[Entry] | None = None  # by default an entry for each group of equal lines
    marks: Callable[[Axes], object] | None = None  # draws further marks
    inset: Panel | None = None
    charts: Sequence[Panel] = ()  # drawn in rows, each with its title, in place of the lines
    table: Sequence[Line] | None = None  # the lines of the table, if it has others
    unit: str = ""  # behind the heading
    caption: str = ""
    tables: tuple[str, ...] = ()  # of the folder, with the values


def draw(panel: Panel) -> PageFigure:
    """Return the figure of a page that a panel describes."""
    (width, height), charts = KINDS[panel.kind].size, panel.charts or (panel,)
    across, down = _ACROSS if panel.charts else 1, -(-len(charts) // _ACROSS)
    with new_figure(width * across, height * down) as figure:
        drawn, found = [], list[Entry]()
        for number, one in enumerate(charts):
            row, column = divmod(number, _ACROSS)
            left, bottom, wide, high = KINDS[panel.kind].box
            place = (left + column) / across, (bottom + down - 1 - row) / down
            axes = figure.add_axes((*place, wide / across, high / down))
            if panel.charts:
                axes.set_title(one.title, y=1, fontsize=8, pad=3, loc="left")
            parts, found = draw_on(axes, one)
            drawn += parts
        if panel.inset is not None:
            named, more = {line.label for line in panel.lines}, panel.inset.lines
            found += [
                (f"{line.label} (inset only)", [line.look])
                for line in more
                if line.label not in named
            ]
        legend = panel.legend
        if legend is None:
            legend = found if len(panel.lines) > 1 or len(found) > 1 else []
        if legend:
            _legend_above(figure, legend)
        spots = itertools.chain.from_iterable(_spots(*one) for one in drawn)
        svg = svg_element(figure, panel.name, panel.title, panel.words, spots)
    rest = panel.caption, panel.words, panel.unit, panel.tables
    return PageFigure(panel.name, panel.title, svg, *rest, figure, panel_values(panel))


def draw_on(axes: Axes, panel: Panel) -> tuple[list[tuple[Axes, Panel]], list[Entry]]:
    """Draw a panel on axes; return it and its inset with their axes, and the legend's entries."""
    lines, groups = panel.lines, equal_curves([line.points for line in panel.lines])
    axes.set(xlabel=panel.x.title, ylabel=panel.y.title)
    looks = striped([line.look for line in lines], groups)
    for line, look in zip(lines, looks, strict=True):
        axes.plot(*line.points, **look, **KINDS[panel.kind].options)
    if panel.marks is not None:
        panel.marks(axes)
    panel.y.set_on(axes, "y")
    panel.x.set_on(axes, "x")
    drawn = [(axes, panel)]
    if panel.inset is not None:
        for line in lines:
            _keep_left(axes, *line.points)
        inner = axes.inset_axes(KINDS["inset"].box)
        inner.tick_params(labelsize=6.5, length=2, pad=1.5)
        inner.set_title(panel.inset.title, y=1, fontsize=7, pad=3, color="#222222")
        drawn += draw_on(inner, panel.inset)[0]
    named = (
        (" = ".join(lines[n].label for n in group), [looks[n] for n in group]) for group in groups
    )
    return drawn, list(named)


def _keep_left(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Lengthen the x axis until a line, where it is as high as the inset, is left of the inset."""
    inset = KINDS["inset"].box
    high = np.flatnonzero(y > 0.7 * inset[1] * axes.get_ylim()[1])
    if not len(high):
        return
    transform = axes.transScale.transform
    last = x[min(high[-1] + 1, len(x) - 1)]
    (left, _), (edge, _) = transform([(axes.get_xlim()[0], 1.0), (last, 1.0)])
    needed = left + (edge - left) / (inset[0] - 0.07)  # its tick labels need room too
    (right, _) = axes.transScale.inverted().transform((needed, 1.0))
    axes.set_xlim(right=max(right, axes.get_xlim()[1]))


# --- equal curves


def equal_curves(points: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[list[int]]:
    """Return the indices of curves in groups of equal points; a curve without points is alone."""
    groups: dict[Any, list[int]] = {}
    for number, (x, y) in enumerate(points):
        is_known = np.isfinite(y).any()
        key = (np.asarray(x, float).tobytes(), np.asarray(y, float).tobytes(), len(x))
        groups.setdefault(key if is_known else number, []).append(number)
    return list(groups.values())


def striped(
    looks: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """Return the looks of curves; equal curves get dashes that leave space for each other's."""
    found, length = [dict(look) for look in looks], 4  # in widths of the line
    for group in groups:
        for place, number in enumerate(group if len(group) > 1 else ()):
            # a positive offset begins within the pattern
            offset = length * (-place % len(group))
            found[number]["linestyle"] = offset, (length, length * (len(group) - 1))
    return found


# --- the legend

_MOST_COLUMNS = 4
#: The margin of the legend, as a share of the width of the figure; the size of a label.
_MARGIN, _LABEL = 0.01, 7.5
#: The assumed width of a character in font sizes, and that of a line in a legend in characters.
_CHARACTER, _HANDLE = 0.55, 6


def _legend_above(figure: Figure, entries: Sequence[Entry]) -> None:
    """Put a legend above all axes, in as many columns as fit into the width of the figure."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    # a handle with several lines has all of them at one place: stripes
    lines = [tuple(Line2D([], [], **look) for look in looks) for _, looks in entries]
    characters = int(72 * figure.get_figwidth() / (_LABEL * _CHARACTER))
    fit = characters // (max(len(label) for label, _ in entries) + _HANDLE)
    for columns in range(max(1, min(len(entries), _MOST_COLUMNS, fit)), 0, -1):
        legend = figure.legend(
            handles=[of[0] if len(of) == 1 else of for of in lines],
            labels=[textwrap.fill(label, characters - _HANDLE) for label, _ in entries],
            handler_map={tuple: HandlerTuple(ndivide=1, pad=0)},
            loc="upper left",
            bbox_to_anchor=(_MARGIN, 1),
            borderaxespad=0,
            ncols=columns,
            frameon=False,
            fontsize=_LABEL,
            handlelength=2.6,
            columnspacing=1.1,
        )
        room, box = figure.bbox.width * (1 - _MARGIN), legend.get_window_extent()
        if columns == 1 or box.width <= room:
            break
        legend.remove()
    for text in legend.get_texts() if box.width > room else ():  # a label of wide characters
        text.set_fontsize(_LABEL * (room - 5 * _LABEL) / (box.width - 4 * _LABEL))
    # the figure grows at the top
    width, height = figure.get_size_inches()
    taller = height + legend.get_window_extent().height / 72
    figure.set_size_inches(width, taller)
    for axes in figure.axes:
        left, bottom, wide, high = axes.get_position().bounds
        axes.set_position((left, bottom * height / taller, wide, high * height / taller))


# --- the values of a panel: under the pointer, and as a table

#: The least width of an area at which a user can point, in points.
_NARROWEST = 2.4
#: The greatest number of rows of a figure's table; of more, rows at even distances are kept.
MOST_ROWS = 1_000


def _spots(axes: Axes, panel: Panel) -> Iterator[Spot]:
    """Yield bands over the axes, one for each x, with all values there; close ones are thinned."""
    high, box = axes.figure.bbox.height, axes.get_window_extent()  # in points: 72 dots per inch
    left, right, top, bottom = box.x0, box.x1, high - box.y1, high - box.y0
    x = _positions(panel.lines)
    x = x[np.isfinite(axes.transScale.transform(np.c_[x, np.ones(len(x))])[:, 0])]
    if not len(x):
        return
    at = axes.transData.transform(np.c_[x, np.ones(len(x))])[:, 0]
    inside = (at >= left - 0.5) & (at <= right + 0.5)
    x, at = _thinned(x[inside], at[inside], left)
    edges = np.r_[left, (at[1:] + at[:-1]) / 2, right]
    values = np.array([line.at(x) for line in panel.lines])
    heights = [high - axes.transData.transform(np.c_[x, of])[:, 1] for of in values]
    for number, place in enumerate(at.tolist()):
        marks = f'<path d="M{coordinate(place)} {coordinate(top)}V{coordinate(bottom)}"/>'
        words: list[Words] = [panel.heading(float(x[number]))]
        for line, of, y in zip(panel.lines, values[:, number], heights, strict=True):
            if not math.isfinite(of):
                continue
            colour = line.look["color"]
            if math.isfinite(y[number]) and top - 1 <= y[number] <= bottom + 1:
                centre = f'cx="{coordinate(place)}" cy="{coordinate(y[number])}"'
                marks += f'<circle {centre} r="2.2" fill="{escape(colour)}"/>'
            begin = f"{line.label}: " if line.label else ""
            words.append((begin + panel.value(float(of)), colour if len(values) > 1 else ""))
        first, last = edges[number : number + 2]
        yield Spot((first, top, last - first, bottom - top), place, top + 2, words, marks)


def panel_values(panel: Panel) -> pd.DataFrame:
    """Return the values of all lines as a table, with at most :data:`MOST_ROWS` rows."""
    lines = panel.lines if panel.table is None else panel.table
    x = _positions(lines)
    if len(x) > MOST_ROWS:
        x = x[np.linspace(0, len(x) - 1, MOST_ROWS).round().astype(int)]
    columns = {line.label or panel.y.title or "value": line.at(x) for line in lines}
    return pd.DataFrame({panel.x.title or "x": [panel.at(at) for at in x.tolist()], **columns})


def _positions(lines: Sequence[Line]) -> np.ndarray:
    told = [np.asarray(line.x, dtype=float) for line in lines]
    return np.unique(np.concatenate([np.empty(0), *told]))


def _thinned(x: np.ndarray, at: np.ndarray, left: float) -> tuple[np.ndarray, np.ndarray]:
    """Return some of the values `x` and of their places `at`, at least a least distance apart."""
    stretch = np.floor((at - left) / _NARROWEST)
    apart = np.abs(at - left - (stretch + 0.5) * _NARROWEST)
    order = np.lexsort((apart, stretch))
    kept = np.sort(order[np.unique(stretch[order], return_index=True)[1]])
    return x[kept], at[kept]


# --- lines, and the panels of several pages

#: Up to this number of rounds, each has a marker.
_MOST_MARKERS = 30


def exactly(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of an array: the line's y at points `x`, and NaN elsewhere."""
    known = pd.Series(np.asarray(y, dtype=float), np.asarray(x, dtype=float))
    return lambda wanted: known.reindex(np.asarray(wanted, dtype=float)).to_numpy()


def line_of(label: str, look: Mapping[str, Any], x: Any, y: Any) -> Line:
    """Return a line through points; it has values at the points only, and gaps where y is NaN."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    return Line(label, look, x[~np.isnan(y)], exactly(x, y), (x, y))


def share_line(
    label: str, look: Mapping[str, Any], of: Histogram, total: float = 0, tail: bool = False
) -> Line:
    """Return a line of shares in per cent: of things with at most x or, for a `tail`, at least x.

    `of` has the things by value. The shares are those of `total`, by default of all things; a tail
    leaves out the value 0.
    """
    shown = of.values > 0 if tail else slice(None)
    x, counts = of.values[shown], (of.at_least if tail else of.at_most)[shown]
    count, total = of.count_at_least if tail else of.count_at_most, total or of.total
    return Line(label, look, x, lambda at: 100 * count(at) / total, (x, 100 * counts / total))


def lines_panel(
    kind: str,
    name: str,
    title: str,
    lines: Mapping[str, pd.Series],
    x: Axis,
    y: Axis,
    heading: Callable[[float], str],
    before: str = "at",
    looks: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> Panel:
    """Return a panel of lines (label -> values by x), with the ends of each line in words.

    `before` stands before ``heading(x)`` in a sentence, `looks` has the looks of some lines, and
    `more` are further fields of the panel.
    """
    by_label = {label: marked_style(n) for n, label in enumerate(lines)} | dict(looks or {})
    drawn = [line_of(label, by_label[label], of.index, of) for label, of in lines.items()]
    words = (_words(label, line.dropna(), heading, before) for label, line in lines.items())
    told = " ".join(filter(None, words))
    return Panel(name, title, kind, drawn, x, y, told, heading, **more)


def _words(label: str, line: pd.Series, heading: Callable[[float], str], before: str) -> str:
    """Return a sentence with the first and the last value of a line, and its extremes."""
    values = [as_text(float(value)) for value in line]
    if not values:
        return ""
    begin, end = (heading(float(line.index[at])) for at in (0, -1))
    told = f"{values[0]} {before} {begin}"
    if len({*values}) > 1:
        least, most = (as_text(float(value)) for value in (line.min(), line.max()))
        told += f", {values[-1]} {before} {end}, between {least} and {most}"
    elif len(values) > 1:
        told = f"{values[0]} from {begin} to {end}"
    return f"{label}: {told}.".removeprefix(": ")


def from_zero(title: str, lines: Mapping[str, pd.Series], **more: Any) -> Axis:
    """Return a vertical axis from 0 to above the greatest value of lines."""
    high = max(line.max() for line in lines.values() if line.notna().any())
    return Axis(title, 0, high * 1.08 or 1, tick=short_tick, **{"ticks": 5} | more)


def rounds_panel(
    name: str,
    title: str,
    lines: Mapping[str, pd.Series],
    axis: str = "",
    across: str = "round",
    hollow: Mapping[str, Collection[int]] | None = None,
    **more: Any,
) -> Panel:
    """Return the panel of lines (label -> values by round) over the rounds.

    `hollow` has the rounds of each line that have a hollow marker; `axis` and `across` are the
    titles of the axes, and `more` are further arguments of :func:`lines_panel`.
    """
    whole = all((line.dropna() == line.dropna().round()).all() for line in lines.values())

    def marks(axes: Axes) -> None:
        look = {"facecolors": "white", "linewidths": 0.9, "zorder": 4, "clip_on": False}
        for line, of in zip(axes.lines, panel.lines, strict=True):
            count = len(of.points[0])
            line.set_markevery(-(-count // 10) if count > _MOST_MARKERS else 1)
            some = np.isin(of.points[0], [*(hollow or {}).get(of.label, ())])
            mark = {"edgecolors": of.look["color"], "marker": of.look.get("marker", "o")}
            x, y = (points[some] for points in of.points)
            axes.scatter(x, y, 20, **look | mark)  # type: ignore[arg-type]

    steps = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    panel = lines_panel(
        *("rounds", name, title, lines),
        Axis(across, ticks=8, steps=None, is_whole=True),
        from_zero(axis, lines, steps=steps, is_whole=whole),
        lambda x: f"{across} {as_text(x)}",
        before="in",
        marks=marks,
        **more,
    )
    return panel
