"""The page of a sweep: a small figure for each metric, and the same numbers as a table.

The x axis is the first setting with more than one value; each combination of values of the other
settings is a line.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.report.axes import short_numbers
from scribe_spark.report.cards import Card
from scribe_spark.report.chart import chart
from scribe_spark.report.figure_sections import figure_sections, section_of
from scribe_spark.report.page import Report, make_page
from scribe_spark.report.provenance import settings
from scribe_spark.report.readouts import Line, exactly
from scribe_spark.report.series import measure_in_words
from scribe_spark.report.style import marked_style, short_number
from scribe_spark.report.svg import Drawn, PageFigure, new_figure, svg_element
from scribe_spark.report.text import as_duration, as_text, is_number
from scribe_spark.report.world import draw_rounds, line_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The greatest number of points with such panels; more lines cannot be distinguished.
MOST_LINES = 10

_MOST_CARDS, _MOST_OPEN = 6, 6
_COLOUR = "#0072b2"
_DECADES = 2  # an axis over at least this number of decades is logarithmic
_TICKS = 7  # up to this number of values, each has its tick


#: Label (empty for a single line) -> y for each x, of the points that differ in x only.
_Lines = Mapping[str, Sequence[float | None]]


def render_sweep(
    rows: pd.DataFrame,
    grid: Mapping[str, Sequence[Any]],
    show: Mapping[str, str],
    points: Mapping[str, tuple[Any, ...]],
    manifest: Mapping[str, Any],
    noun: str = "run",
    rounds: Mapping[str, pd.DataFrame] | None = None,
    measures: Mapping[str, str] | None = None,
) -> Report:
    """Draw the figures and write the page.

    Parameters
    ----------
    rows : DataFrame
        A column for each swept field, ``metric, value``.
    grid : mapping
        Field -> its values, in order.
    show : mapping
        Metric -> unit, in order; those that have no value at any point are only named.
    points : mapping
        A point's folder -> its values of the swept fields.
    manifest : mapping
        As :func:`scribe_spark.report.render`.
    noun : str
        What a point is.
    rounds : mapping of str to DataFrame, optional
        Of worlds: a point's folder -> a row for each round, a column for each measure.
    measures : mapping of str to str, optional
        Measures that are drawn over the rounds -> unit, in order.
    """
    from markupsafe import Markup

    columns = [rows[name] for name in (*grid, "metric", "value")]
    found = {tuple(cells[:-1]): cells[-1] for cells in zip(*columns, strict=True)}
    value = {key: cell if is_number(cell) else None for key, cell in found.items()}
    there = [m for m in show if any(value.get((*at, m)) is not None for at in points.values())]
    axis = next((name for name, values in grid.items() if len(values) > 1), next(iter(grid)))
    panels = {}
    for metric in there:
        lines, unit = _lines(value, grid, axis, metric), show[metric]
        what, words = measure_in_words(metric), _describe(lines, axis, grid[axis])
        name = "sweep-" + re.sub(r"\W+|_", "-", metric)
        drawn = _draw(name, what, words, lines, axis, grid[axis], unit)
        panels[metric] = PageFigure(name, what, drawn, words=words, unit=unit)
    legend = [
        (label, Markup(_sample(f"line-{number}", _style(number), label)))
        for number, label in enumerate(_lines(value, grid, axis, ""))
        if label
    ]
    varied = [name for name, values in grid.items() if len(values) > 1] or [axis]
    labels = {
        folder: _label(dict(zip(grid, at, strict=True)), varied) for folder, at in points.items()
    }
    drawn_rounds = rounds if rounds and len(rounds) <= MOST_LINES else {}
    by_round = {labels[folder]: table for folder, table in drawn_rounds.items()}
    over_rounds = _rounds_panels(by_round, measures or {})
    figures = [*panels.values(), *over_rounds]
    return make_page(
        "sweep.html",
        manifest,
        figures,
        facts=_facts(value, grid, points),
        axis=axis,
        noun=noun,
        cards=_cards(value, show, there, points, labels),
        figure_sections=figure_sections(
            ((section_of(metric), one) for metric, one in panels.items()), _MOST_OPEN
        ),
        legend=legend,
        absent=[metric for metric in show if metric not in there],
        heads=list(labels.items()),
        most_lines=MOST_LINES,
        rounds_figures=over_rounds[:_MOST_OPEN],
        more_rounds_figures=over_rounds[_MOST_OPEN:],
        rounds_legend=[
            (label, Markup(_sample(f"point-{number}", marked_style(number), label)))
            for number, label in enumerate(by_round)
        ],
        table=[
            (metric, one, [as_text(value.get((*at, metric))) for at in points.values()])
            for metric, one in panels.items()
        ],
        settings=settings({part: _typed(manifest.get(part)) for part in ("config", "resolved")}),
    )


def _rounds_panels(
    rounds: Mapping[str, pd.DataFrame], measures: Mapping[str, str]
) -> list[PageFigure]:
    """Return a figure for each measure that a round of any point has."""
    panels: list[PageFigure] = []
    for measure, unit in measures.items():
        # a point without the measure stays among the lines: so every point keeps its colour
        lines = {
            label: table[measure] if measure in table else pd.Series(float("nan"), table.index)
            for label, table in rounds.items()
        }
        if measure.startswith("link_stress."):  # only some rounds have it: lines join these
            lines = {label: line.dropna() for label, line in lines.items()}
        known = {label: line for label, line in lines.items() if line.notna().any()}
        if not known:
            continue
        what = measure_in_words(measure)
        words = " ".join(line_words(label, line) for label, line in known.items())
        name = "rounds-" + re.sub(r"\W+|_", "-", measure)
        drawn = draw_rounds(name, what, words, lines, legend=False, unit=unit)
        panels.append(PageFigure(name, what, drawn, words=words, unit=unit))
    return panels


def _cards(
    value: Mapping[tuple[Any, ...], float | None],
    show: Mapping[str, str],
    metrics: Sequence[str],
    points: Mapping[str, tuple[Any, ...]],
    labels: Mapping[str, str],
) -> list[Card]:
    """Return cards of the metrics that differ most between the points."""
    found: list[tuple[float, Card]] = []
    for metric in metrics:
        there = [
            (number, labels[folder])
            for folder, at in points.items()
            if (number := value.get((*at, metric))) is not None
        ]
        (least, at_least), (most, at_most) = _named(min(there), there), _named(max(there), there)
        unit = f" {show[metric]}" if show[metric] else ""
        if least == most:
            text, words = as_text(least), f"{unit.strip()} at every point".strip()
        else:
            text = f"{as_text(least)} to {as_text(most)}"
            words = f"{unit.strip()}; least at {at_least}, greatest at {at_most}".removeprefix("; ")
        apart = (most - least) / max(abs(most), abs(least), 1e-300)
        is_cost = metric.startswith("cost.")
        found.append((apart - 2 * is_cost, Card(measure_in_words(metric), text, words, _COLOUR)))
    found.sort(key=lambda one: -one[0])
    return [card for _, card in found[:_MOST_CARDS]]


def _named(end: tuple[float, str], there: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return the least or greatest value, and its point with the number of other such points."""
    value, label = end
    others = sum(one == value for one, _ in there) - 1
    return value, f"{label} and {others:,} more" if others else label


def _typed(settings: Any) -> dict[str, Any]:
    """Return settings in which swept ones have all their values, as a user would write them."""
    given = settings if isinstance(settings, Mapping) else {}
    return {
        name: ", ".join(map(_word, value)) if isinstance(value, list) else value
        for name, value in given.items()
        if name != "sweep"
    }


def _facts(
    value: Mapping[tuple[Any, ...], float | None],
    grid: Mapping[str, Sequence[Any]],
    points: Mapping[str, tuple[Any, ...]],
) -> list[tuple[str, str]]:
    swept = [(name, ", ".join(map(_word, values))) for name, values in grid.items()]
    took = [value.get((*at, "cost.seconds")) for at in points.values()]
    costs = [cost for cost in took if cost is not None]
    time = [("Computed in", as_duration(sum(costs)))] if costs else []
    return [*swept, ("Points", f"{len(points):,}"), *time]


def _lines(
    value: Mapping[tuple[Any, ...], float | None],
    grid: Mapping[str, Sequence[Any]],
    axis: str,
    metric: str,
) -> _Lines:
    others = {name: values for name, values in grid.items() if name != axis}
    varied = [name for name, values in others.items() if len(values) > 1]
    lines = {}
    for row in itertools.product(*others.values()):
        at = dict(zip(others, row, strict=True))
        keys = [tuple({**at, axis: x}[name] for name in grid) for x in grid[axis]]
        lines[_label(at, varied)] = [value.get((*key, metric)) for key in keys]
    return lines


def _label(at: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {_word(at[name])}" for name in names)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def _describe(lines: _Lines, axis: str, values: Sequence[Any]) -> str:
    """Return the first and the last value of each line in sentences."""
    sentences = []
    for label, ys in lines.items():
        known = [(x, y) for x, y in zip(values, ys, strict=True) if y is not None]
        if not known:
            continue
        (first, low), (last, high) = known[0], known[-1]
        text = f"{as_text(low)} at {axis} {_word(first)}"
        if len(known) > 1:
            text += f", {as_text(high)} at {_word(last)}"
        sentences.append(f"{label}: {text}." if label else f"{text}.")
    return " ".join(sentences)


# --- drawing


def _style(number: int) -> dict[str, Any]:
    size = max(3.0, 5.5 - number)  # all of several lines over each other stay visible
    return {**marked_style(number), "markersize": size}


def _draw(
    name: str,
    what: str,
    words: str,
    lines: _Lines,
    axis: str,
    values: Sequence[Any],
    unit: str,
) -> Drawn:

    numeric = all(is_number(x) for x in values)
    order = sorted(range(len(values)), key=values.__getitem__) if numeric else range(len(values))
    x = [float(values[i]) if numeric else float(i) for i in order]
    shown = dict(zip(x, (values[i] for i in order), strict=True))
    drawn = []
    for number, (label, ys) in enumerate(lines.items()):
        y = np.array([math.nan if (at := ys[i]) is None else at for i in order])
        points = np.array(x), y
        drawn.append(Line(label, _style(number), points[0], exactly(*points), points))

    def prepare(axes: Axes) -> None:
        _scale_y(axes, [y for ys in lines.values() for y in ys if y is not None])
        _scale_x(axes, x, [_tick(values[i]) for i in order], numeric)

    return chart(
        *(name, what, words, drawn),
        lambda at: f"{axis} {_word(shown[at])}",
        prepare,
        labels=(axis, unit),
        size=(3.1, 2.1),
        box=(0.18, 0.2, 0.78, 0.75),
        at=lambda at: shown[at],
        legend=False,
        clip_on=False,
        zorder=3,
    )


def _sample(name: str, look: Mapping[str, Any], label: str) -> str:
    """Return a line in its style for the legend."""
    from matplotlib.lines import Line2D

    with new_figure(0.42, 0.16) as figure:
        line = Line2D([0.02, 0.5, 0.98], [0.5, 0.5, 0.5], markevery=[1], **look)
        figure.add_artist(line)
        return svg_element(figure, name, label, "The line of this label.")


def _tick(value: Any) -> str:
    if is_number(value):
        return short_number(value)
    text = _word(value)
    return text if len(text) <= 12 else "\N{HORIZONTAL ELLIPSIS}" + text[-11:]


def _spans_decades(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) >= 10**_DECADES * min(values)


def _scale_x(axes: Axes, x: Sequence[float], labels: Sequence[str], numeric: bool) -> None:
    if numeric and _spans_decades(x):
        axes.set_xscale("log")
    elif not numeric:
        axes.set_xlim(-0.3, len(x) - 0.7)
    axes.minorticks_off()
    every = -(-len(x) // _TICKS)
    # a dollar sign in a path begins no formula
    axes.set_xticks(x[::every], labels[::every], parse_math=False)


def _scale_y(axes: Axes, y: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    if _spans_decades(y):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        if min(y) >= 0:
            axes.set_ylim(0, max(y) * 1.08 or 1)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    short_numbers(axes.yaxis)
