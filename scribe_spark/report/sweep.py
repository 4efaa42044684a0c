"""The page of a sweep: a small figure for each metric, and the same numbers as a table.

The x axis is the first setting with more than one value; each combination of values of the other
settings is a line.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from scribe_spark.report import page
from scribe_spark.report.charts import Axis, Panel, draw, line_words, rounds_panel
from scribe_spark.report.style import marked_style, measure_in_words, short_number, short_tick
from scribe_spark.report.svg import Line, PageFigure, exactly, new_figure, svg_element
from scribe_spark.report.text import as_duration, as_text, is_number

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
) -> page.Report:
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

    columns = [rows[name] for name in (*grid, "metric", "value")]
    found = {tuple(cells[:-1]): cells[-1] for cells in zip(*columns, strict=True)}
    value = {key: cell if is_number(cell) else None for key, cell in found.items()}
    there = [m for m in show if any(value.get((*at, m)) is not None for at in points.values())]
    axis = next((name for name, values in grid.items() if len(values) > 1), next(iter(grid)))
    drawn = {name: draw(_panel(name, value, grid, axis, show[name])) for name in there}
    varied = [name for name, values in grid.items() if len(values) > 1] or [axis]
    labels = {
        folder: _label(dict(zip(grid, at, strict=True)), varied) for folder, at in points.items()
    }
    cards, absent = _cards(value, show, there, points, labels), [m for m in show if m not in there]
    sections = ((page.section_of(metric), one) for metric, one in drawn.items())
    lines = [label for label in _lines(value, grid, axis, "") if label]
    typed = {part: _typed(manifest.get(part)) for part in ("config", "resolved")}
    return page.make_page(
        f"Sweep over {axis}",
        [
            f"Each point is a {noun}, and {_INTRO} {page.HOW_TO_READ}",
            page.Pairs(_facts(value, grid, points), "facts"),
            page.Text("Measures that differ most between the points" * bool(cards), tag="h2"),
            page.Cards(cards),
        ],
        [
            _legend("Lines", "line", [(label, _style(n)) for n, label in enumerate(lines)]),
            *page.measure_sections(sections, _MOST_OPEN, "small"),
            f"Without a value at any point: {', '.join(absent)}." * bool(absent),
            *_over_rounds(rounds or {}, labels, measures or {}),
            _table(value, points, labels, drawn, noun),
            page.provenance({**manifest, **typed}),
        ],
    )


_INTRO = "each figure shows one measure of all points."
_OWN_REPORTS = Markup(
    "Each point is a {noun} with a report of its own{rounds}. The table "
    '<a href="sweep">sweep</a> (Parquet) has every number of every point.'
)
_LINK = Markup('<a href="{folder}/report.html">{label}</a>')


def _table(
    value: Mapping[tuple[Any, ...], float | None],
    points: Mapping[str, tuple[Any, ...]],
    labels: Mapping[str, str],
    drawn: Mapping[str, PageFigure],
    noun: str,
) -> page.Section:
    """Return the section with every drawn measure of every point."""
    rounds = noun == "world" and len(points) > MOST_LINES
    words = _OWN_REPORTS.format(noun=noun, rounds=", which draws its rounds" * rounds)
    heads = [_LINK.format(folder=folder, label=label) for folder, label in labels.items()]
    rows = [
        (
            page.Cell(one.title, one.unit, metric),
            *(as_text(value.get((*at, metric))) for at in points.values()),
        )
        for metric, one in drawn.items()
    ]
    table, title = page.Table(("Measure", *heads), rows, look="points"), "Every point"
    return page.Section("points", title, [words, table])


def _legend(label: str, name: str, looks: Iterable[tuple[str, Mapping[str, Any]]]) -> page.Legend:
    """Return a legend of lines."""
    listed = enumerate(looks)
    return page.Legend(label, [(of, _sample(f"{name}-{n}", look, of)) for n, (of, look) in listed])


def _over_rounds(
    rounds: Mapping[str, pd.DataFrame], labels: Mapping[str, str], measures: Mapping[str, str]
) -> list[page.Section]:
    """Return the section of the measures that a round of any point has, if there are few points."""
    by_label = {labels[folder]: of for folder, of in rounds.items()}
    drawn: list[PageFigure] = []
    for measure, unit in measures.items() if 0 < len(rounds) <= MOST_LINES else ():
        # a point without the measure stays among the lines: so every point keeps its colour
        lines = {
            label: table[measure] if measure in table else pd.Series(float("nan"), table.index)
            for label, table in by_label.items()
        }
        if measure.startswith("link_stress."):  # only some rounds have it: lines join these
            lines = {label: line.dropna() for label, line in lines.items()}
        known = {label: line for label, line in lines.items() if line.notna().any()}
        if known:
            words = " ".join(line_words(label, line) for label, line in known.items())
            name, title = _name("rounds", measure), measure_in_words(measure)
            panel = rounds_panel(name, title, words, lines, axis=unit, unit=unit, labels="")
            drawn.append(draw(panel))
    looks = (
        (label, marked_style(number)) for number, label in enumerate(by_label if drawn else ())
    )
    parts = [_legend("Points", "point", looks), *page.unfolded(drawn, _MOST_OPEN)]
    return [page.Section("rounds", "Over the rounds", parts, count=len(drawn))] if drawn else []


def _name(begin: str, measure: str) -> str:
    """Return the name of a figure's files."""
    return re.sub(r"\W+|_", "-", f"{begin}.{measure}")


def _cards(
    value: Mapping[tuple[Any, ...], float | None],
    show: Mapping[str, str],
    metrics: Sequence[str],
    points: Mapping[str, tuple[Any, ...]],
    labels: Mapping[str, str],
) -> list[page.Card]:
    """Return cards of the metrics that differ most between the points."""
    found: list[tuple[float, page.Card]] = []
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
        found.append(
            (apart - 2 * is_cost, page.Card(measure_in_words(metric), text, words, _COLOUR))
        )
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


def _panel(
    metric: str,
    value: Mapping[tuple[Any, ...], float | None],
    grid: Mapping[str, Sequence[Any]],
    axis: str,
    unit: str,
) -> Panel:
    """Return the panel of a metric over the values of a setting."""
    values, lines = grid[axis], _lines(value, grid, axis, metric)
    numeric = all(is_number(x) for x in values)
    order = sorted(range(len(values)), key=values.__getitem__) if numeric else range(len(values))
    x = [float(values[i]) if numeric else float(i) for i in order]
    shown = dict(zip(x, (values[i] for i in order), strict=True))
    drawn = []
    for number, (label, ys) in enumerate(lines.items()):
        y = np.array([math.nan if (at := ys[i]) is None else at for i in order])
        drawn.append(
            Line(label, _style(number), np.array(x), exactly(np.array(x), y), (np.array(x), y))
        )
    every = -(-len(x) // _TICKS)
    across = Axis(axis, named={at: _tick(shown[at]) for at in x[::every]})
    if numeric and _spans_decades(x):
        across = replace(across, scale="log")
    elif not numeric:
        across = replace(across, low=-0.3, high=len(x) - 0.7)
    return Panel(
        *(_name("sweep", metric), measure_in_words(metric), "points", drawn, across),
        _vertical(unit, [y for ys in lines.values() for y in ys if y is not None]),
        _describe(lines, axis, values),
        lambda at: f"{axis} {_word(shown[at])}",
        at=lambda at: shown[at],
        labels="",
        unit=unit,
    )


def _vertical(unit: str, y: Sequence[float]) -> Axis:
    """Return the vertical axis of values."""
    if _spans_decades(y):
        return Axis(unit, scale="log", ticks=6, tick=short_tick)
    if min(y) < 0:
        return Axis(unit, ticks=5, tick=short_tick)
    return Axis(unit, 0, max(y) * 1.08 or 1, ticks=5, tick=short_tick)


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
