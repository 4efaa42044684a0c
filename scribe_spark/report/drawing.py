"""The kinds of drawings for the paper's figures.

References
----------
JSAC 2002, Section IV, Figures 6-14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.measures.histogram import Histogram
from scribe_spark.report.catalogue import (
    ALL_SYSTEMS,
    FigureSpec,
    Mark,
    Series,
    label_of,
    measure_label,
    read_histogram,
    series_of,
)
from scribe_spark.report.charts import Entry, entries, equal_curves, legend_above, striped
from scribe_spark.report.style import DASHED, log_axis, spaced_markers, system_styles, whole_numbers
from scribe_spark.report.svg import Line, Readout, exactly, new_figure, svg_element
from scribe_spark.report.text import as_text

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes

_MARK_COLOUR = _MEASURE_COLOUR = "#555555"
#: The position of the inset in its axes: left, bottom, width, height.
_INSET = (0.42, 0.3, 0.57, 0.63)


@dataclass(frozen=True)
class Drawing:
    """A drawn figure: its SVG, and a description in words (its text alternative)."""

    spec: FigureSpec
    svg: str
    words: str
    equal: str = ""  # a sentence that names equal curves


@dataclass(frozen=True)
class Curve:
    """A series, its data, and its style."""

    series: Series
    data: Histogram
    look: Mapping[str, Any]


#: A mark's value on its axis, its words, its position, and its colour.
Quoted = Sequence[tuple[float, str, Mark, str]]


def draw(
    spec: FigureSpec, distributions: pd.DataFrame, published: Mapping[str, float] | None = None
) -> Drawing:
    """Draw one figure; without data, it says so."""

    series = series_of(spec, distributions)
    read = [
        read_histogram(distributions, spec.number, one.system, one.measure, positive=spec.log_x)
        for one in series
    ]
    styles = system_styles(page_systems(distributions))
    pairs = [(one, data) for one, data in zip(series, read, strict=True) if data]
    several = len({one.system for one, _ in pairs}) > 1
    curves = [Curve(one, data, _look(spec, one, styles, several)) for one, data in pairs]
    quoted = [
        (
            *(mark.value(published), mark.text(published), mark),
            styles[mark.system]["color"] if mark.coloured else _MARK_COLOUR,
        )
        for mark in spec.marks
        if published is not None and mark.is_published(published)
    ]
    words = _describe(spec, curves)
    with new_figure(4.5, 3.15) as figure:
        axes = figure.add_axes((0.165, 0.135, 0.815, 0.83))
        axes.set_xlabel(spec.x)
        axes.set_ylabel(spec.y)
        readouts: list[Readout] = []
        if curves:
            readouts = _KINDS[spec.kind](axes, spec, curves, quoted)
            if len(curves) > 1:
                legend_above(figure, _legend(spec, curves))
        else:
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color="#555555")
        heading = f"Figure {spec.number}: {spec.title}"
        values = None
        if spec.kind == "counts" and curves:  # the inset has further curves
            values = _readout(axes, spec, curves, "", Histogram.count_of).values()
        drawn = svg_element(figure, spec.name, heading, words, readouts, values)
        return Drawing(spec, drawn, words, _equal_in_words(curves))


# --- kinds of drawings


def _ranks(axes: Axes, spec: FigureSpec, curves: Sequence[Curve], quoted: Quoted) -> list[Readout]:
    axes.set(xscale="log", yscale="log")
    for curve in curves:
        _line(axes, curve, curve.data.values, curve.data.counts)
    _marks(axes, quoted)
    log_axis(axes, "x")
    log_axis(axes, "y")
    return [_readout(axes, spec, curves, "", lambda d, x: exactly(d.values, d.counts)(x))]


def _cumulative(
    axes: Axes, spec: FigureSpec, curves: Sequence[Curve], quoted: Quoted
) -> list[Readout]:
    ends = [value for value, *_ in quoted] + [curve.data.values[-1] for curve in curves]
    right = max(ends) * 1.05 or 1.0
    for curve in _in_stripes(curves):
        x = np.concatenate(([0.0], curve.data.values, [right]))
        y = np.concatenate(([0.0], curve.data.at_most, [curve.data.total]))
        _line(axes, curve, x, y, drawstyle="steps-post")
    _marks(axes, quoted)
    axes.set_xlim(0, right)
    axes.set_ylim(bottom=0)
    whole_numbers(axes.yaxis)
    return [_readout(axes, spec, curves, "at most ", Histogram.count_at_most)]


def _counts(axes: Axes, spec: FigureSpec, curves: Sequence[Curve], quoted: Quoted) -> list[Readout]:
    # 1. The main figure: the number of things with exactly x.
    main = _in_stripes([curve for curve in curves if not curve.series.inset_only])
    drawn = [(curve, *with_gaps(curve.data)) for curve in main]
    for curve, x, y in drawn:
        _line(axes, curve, x, y)
    if spec.log_x:
        axes.set_xscale("log")
        log_axis(axes, "x")
    else:
        axes.set_xlim(left=0)
        whole_numbers(axes.xaxis)
    axes.set_ylim(bottom=0)
    whole_numbers(axes.yaxis)
    for _, x, y in drawn:
        _keep_left(axes, x, y)

    # 2. The tail: the number of things with at least x.
    inset = axes.inset_axes(_INSET)
    inset.set(xscale="log", yscale="log")
    inset.tick_params(labelsize=6.5, length=2, pad=1.5)
    inset.set_title(f"{spec.y} with at least x", y=1, fontsize=7, pad=3, color="#222222")
    for curve in _in_stripes(curves):
        shown, data = curve.data.values > 0, curve.data
        _line(inset, curve, data.values[shown], data.at_least[shown], linewidth=1.3)
    _marks(inset, quoted, size=6.3)
    log_axis(inset, "x")
    log_axis(inset, "y")
    return [
        _readout(axes, spec, [curve for curve, _, _ in drawn], "", Histogram.count_of),
        _readout(inset, spec, curves, "at least ", Histogram.count_at_least),
    ]


_KINDS = {"ranks": _ranks, "cumulative": _cumulative, "counts": _counts}


# --- parts of a drawing


def _readout(
    axes: Axes,
    spec: FigureSpec,
    curves: Sequence[Curve],
    bound: str,
    at: Callable[[Histogram, np.ndarray], np.ndarray],
) -> Readout:
    """Return the read-out of curves: the number of things with x, or with x as a bound."""
    x, y = (title.partition(" (")[0] for title in (spec.x, spec.y))
    lines = [
        Line(
            curve.series.label if len(curves) > 1 else y,
            curve.look,
            curve.data.values,
            partial(at, curve.data),
        )
        for curve in curves
    ]
    return Readout(axes, lines, lambda value: f"{x}: {bound}{as_text(value)}")


def _line(axes: Axes, curve: Curve, x: np.ndarray, y: np.ndarray, **options: Any) -> None:
    look = dict(curve.look)
    if len(x) == 1:  # a line through one point is invisible
        look |= {"marker": look.get("marker") or "."}
    axes.plot(x, y, **look, **options)


def with_gaps(data: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Return values and counts with zeros on both sides of a gap between whole values."""
    values, top = data.values, data.values[-1]
    x = np.unique(np.concatenate((values, values[:-1] + 1, (values - 1)[1:])))
    y = np.zeros(len(x))
    y[index_sorted(x, values)] = data.counts
    return x[x <= top], y[x <= top]


def _keep_left(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Lengthen the x axis until all parts as high as the inset are left of it."""
    high = np.flatnonzero(y > 0.7 * _INSET[1] * axes.get_ylim()[1])
    if len(high) == 0:
        return
    transform = axes.transScale.transform
    last = x[min(high[-1] + 1, len(x) - 1)]
    (left, _), (edge, _) = transform([(axes.get_xlim()[0], 1.0), (last, 1.0)])
    needed = left + (edge - left) / (_INSET[0] - 0.07)  # its tick labels need room too
    (right, _) = axes.transScale.inverted().transform((needed, 1.0))
    axes.set_xlim(right=max(right, axes.get_xlim()[1]))


def _marks(axes: Axes, quoted: Quoted, size: float = 7) -> None:
    for number, (value, text, mark, colour) in enumerate(quoted):
        line: dict[str, Any] = {"color": colour, "linewidth": 0.7, "linestyle": (0, (2, 1.5))}
        left = mark.side == "left"
        if mark.axis == "y":
            axes.axhline(value, **line)
            place: dict[str, Any] = {
                "xy": (0.02 if left else 0.98, value),
                "xycoords": axes.get_yaxis_transform(),
                "xytext": (0, 2.5),
                "ha": "left" if left else "right",
            }
        else:
            axes.axvline(value, **line)
            place = {
                "xy": (value, 0.97 if mark.end == "top" else 0.04),
                "xycoords": axes.get_xaxis_transform(),
                "xytext": (-2 if left else 2, 0),
                "ha": "right" if left else "left",
                "va": mark.end,
                "rotation": 90,
            }
        words: dict[str, Any] = {"color": colour, "fontsize": size, "textcoords": "offset points"}
        axes.annotate(text, gid=f"mark-{number}", **place, **words)


def _equal(curves: Sequence[Curve]) -> list[list[int]]:
    """Return the indices of curves in groups of equal data."""
    return equal_curves([(curve.data.values, curve.data.counts) for curve in curves])


def _in_stripes(curves: Sequence[Curve]) -> list[Curve]:
    """Return curves of the same axes, equal ones in stripes."""
    looks = striped([curve.look for curve in curves], _equal(curves))
    return [replace(curve, look=look) for curve, look in zip(curves, looks, strict=True)]


def _equal_in_words(curves: Sequence[Curve]) -> str:
    """Return a sentence that names equal curves; empty if all differ."""
    groups = [[curves[number].series.label for number in group] for group in _equal(curves)]
    names = "; ".join(" = ".join(group) for group in groups if len(group) > 1)
    return f"Equal curves: {names}." if names else ""


def _legend(spec: FigureSpec, curves: Sequence[Curve]) -> list[Entry]:
    """Return the entries of the legend: systems, then the dashes of their measures.

    Equal curves of the main figure share an entry.
    """
    if len({curve.series.system for curve in curves}) == 1 or len(spec.measures) == 1:
        inset = [curve for curve in curves if curve.series.inset_only]
        main = _in_stripes([curve for curve in curves if not curve.series.inset_only])
        found = entries([c.series.label for c in main], [c.look for c in main], _equal(main))
        return [*found, *((f"{c.series.label} (inset only)", [c.look]) for c in inset)]
    of_systems = {
        label_of(curve.series.system): [{**curve.look, "linestyle": "-"}] for curve in curves
    }
    of_measures = {
        measure_label(measure): [{"linestyle": dashes, "color": _MEASURE_COLOUR}]
        for measure, dashes in _dashes(spec).items()
    }
    return [*of_systems.items(), *of_measures.items()]


def _dashes(spec: FigureSpec) -> dict[str, Any]:
    """Return the dashes of each measure of a figure."""
    return dict(zip(spec.measures, ("-", DASHED), strict=False))


def _look(
    spec: FigureSpec, series: Series, styles: Mapping[str, dict[str, Any]], several: bool
) -> dict[str, Any]:
    """Return the style of a curve; markers distinguish systems if there are several."""
    look = {"linestyle": _dashes(spec)[series.measure]}
    if series.system == ALL_SYSTEMS:
        return {**look, "color": _MEASURE_COLOUR}
    look |= styles[series.system]
    number = list(styles).index(series.system)
    return look | ({"markevery": spaced_markers(number)} if several else {"marker": None})


def page_systems(distributions: pd.DataFrame) -> set[str]:
    """Return the systems of a page, which have one style in all of its figures."""
    return {*distributions.get("system", [])} - {ALL_SYSTEMS}


def _describe(spec: FigureSpec, curves: Sequence[Curve]) -> str:
    """Describe the curves in one sentence each."""
    if not curves:
        return "No data."
    if spec.kind == "ranks":
        sentences = [
            f"{len(data.values):,} {spec.thing}, from {data.counts.max():,.0f} members down to "
            f"{data.counts.min():,.0f}, {data.total:,.0f} in all."
            for data in (curve.data for curve in curves)
        ]
    else:
        sentences = [
            f"{curve.series.label}: {curve.data.total:,.0f} {spec.thing}, "
            f"median {_number(curve.data.median() or 0)}, maximum {_number(curve.data.max or 0)}."
            for curve in curves
        ]
    return " ".join(sentences)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
