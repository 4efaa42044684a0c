"""The page of a sweep: a small figure for each metric, and the same numbers as a table.

The x axis is the first setting with more than one value; each combination of values of the other
settings is a line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
from markupsafe import Markup

from scribe_spark.report import page
from scribe_spark.report.charts import Axis, Panel, draw, from_zero, lines_panel, rounds_panel
from scribe_spark.report.style import (
    as_duration,
    as_text,
    cut,
    is_number,
    marked_style,
    measure_in_words,
    short_number,
    short_tick,
)
from scribe_spark.report.svg import PageFigure, new_figure, svg_element

#: The greatest number of points with such panels; more lines cannot be distinguished.
MOST_LINES = 10

_MOST_CARDS = 6
_COLOUR = "#0072b2"
_DECADES = 2  # an axis over at least this number of decades is logarithmic
_TICKS = 7  # up to this number of values, each has its tick


@dataclass(frozen=True)
class _SweptPoints:
    """The metrics of a sweep, by points."""

    rows: pd.DataFrame
    grid: Mapping[str, Sequence[Any]]
    points: Mapping[str, tuple[Any, ...]]

    @cached_property
    def _numbers(self) -> dict[tuple[Any, ...], float | None]:
        """The metrics at the points: (values of the swept fields, metric) -> number."""
        columns = [self.rows[name] for name in (*self.grid, "metric", "value")]
        cells = zip(*columns, strict=True)
        return {tuple(key): cell if is_number(cell) else None for *key, cell in cells}

    def of(self, metric: str) -> list[float | None]:
        """Return the number of a metric at each point, None for a missing one."""
        return [self._numbers.get((*at, metric)) for at in self.points.values()]

    @property
    def varied(self) -> list[str]:
        """The swept fields with more than one value; the first one is the horizontal axis."""
        return [name for name, of in self.grid.items() if len(of) > 1] or [next(iter(self.grid))]

    @property
    def labels(self) -> dict[str, str]:
        """The name of each point, by folder."""
        return {
            folder: _label(dict(zip(self.grid, at, strict=True)), self.varied)
            for folder, at in self.points.items()
        }

    def lines(self, metric: str) -> dict[str, list[float | None]]:
        """Return the lines of a metric: label -> y for each x of the horizontal axis.

        The points of a line differ in x only; the label of a single line is empty.
        """
        axis, *varied = self.varied
        others = {name: values for name, values in self.grid.items() if name != axis}
        lines = {}
        for row in itertools.product(*others.values()):
            at = dict(zip(others, row, strict=True))
            keys = [tuple({**at, axis: x}[name] for name in self.grid) for x in self.grid[axis]]
            lines[_label(at, varied)] = [self._numbers.get((*key, metric)) for key in keys]
        return lines


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

    `rows`, `grid` and `points` are those of :class:`_SweptPoints`. `show` has the unit of each
    metric; one without a value at any point is only named. `noun` is what a point is: ``run`` or
    ``world``. Worlds also have `rounds`, a point's folder -> a row for each round and a column for
    each measure, and `measures`, the units of those that are drawn over the rounds.
    """
    swept = _SweptPoints(rows, grid, points)
    axis, there = swept.varied[0], [m for m in show if any(v is not None for v in swept.of(m))]
    drawn = {metric: draw(_panel(metric, swept, show[metric])) for metric in there}
    cards, absent = _cards(swept, show, there), [m for m in show if m not in there]
    sections = ((page.section_of(metric), one) for metric, one in drawn.items())
    looks = {label: _style(number) for number, label in enumerate(swept.lines("")) if label}
    facts = [(name, ", ".join(map(_word, values))) for name, values in grid.items()]
    facts.append(("Points", f"{len(points):,}"))
    costs = [cost for cost in swept.of("cost.seconds") if cost is not None]
    facts += [("Computed in", as_duration(sum(costs)))] if costs else []
    typed = {part: _typed(manifest.get(part, {})) for part in ("config", "resolved")}
    return page.make_page(
        f"Sweep over {axis}",
        [
            f"Each point is a {noun}, and {_INTRO} {page.HOW_TO_READ}",
            page.NamedValues(facts, "facts"),
            page.Text("Measures that differ most between the points" * bool(cards), tag="h2"),
            page.Cards(cards),
        ],
        [
            _legend("Lines", "line", looks),
            *page.measure_sections(sections, page.MOST_OPEN, "small"),
            f"Without a value at any point: {', '.join(absent)}." * bool(absent),
            *_over_rounds(rounds or {}, swept.labels, measures or {}),
            _table(swept, drawn, noun),
            page.provenance({**manifest, **typed}),
        ],
    )


_INTRO = "each figure shows one measure of all points."
_OWN_REPORTS = Markup(
    "Each point is a {noun} with a report of its own{rounds}. The table "
    '<a href="sweep">sweep</a> (Parquet) has every number of every point.'
)
_LINK = Markup('<a href="{folder}/report.html">{label}</a>')


def _table(swept: _SweptPoints, drawn: Mapping[str, PageFigure], noun: str) -> page.PageSection:
    """Return the section with every drawn measure of every point."""
    rounds = noun == "world" and len(swept.points) > MOST_LINES
    words = _OWN_REPORTS.format(noun=noun, rounds=", which draws its rounds" * rounds)
    heads = [_LINK.format(folder=folder, label=label) for folder, label in swept.labels.items()]
    rows = [
        (page.Cell(one.title, one.unit, metric), *map(as_text, swept.of(metric)))
        for metric, one in drawn.items()
    ]
    table = page.PageTable(("Measure", *heads), rows, look="points")
    return page.PageSection("points", "Every point", [words, table])


def _legend(label: str, name: str, looks: Mapping[str, Mapping[str, Any]]) -> page.Legend:
    """Return a legend with a sample of each line; `name` begins the ids of the samples."""
    samples = [
        (words, _sample(f"{name}-{number}", look, words))
        for number, (words, look) in enumerate(looks.items())
    ]
    return page.Legend(label, samples)


def _sample(name: str, look: Mapping[str, Any], label: str) -> str:
    """Return a short line in the style `look`, for the legend, as an SVG element."""
    from matplotlib.lines import Line2D

    with new_figure(0.42, 0.16) as figure:
        line = Line2D([0.02, 0.5, 0.98], [0.5, 0.5, 0.5], markevery=[1], **look)
        figure.add_artist(line)
        return svg_element(figure, name, label, "The line of this label.")


def _over_rounds(
    rounds: Mapping[str, pd.DataFrame], labels: Mapping[str, str], measures: Mapping[str, str]
) -> list[page.PageSection]:
    """Return the section with a figure for each measure by rounds, a line for each point."""
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
        if any(line.notna().any() for line in lines.values()):
            name, title = _name("rounds", measure), measure_in_words(measure)
            drawn.append(draw(rounds_panel(name, title, lines, axis=unit, unit=unit, legend=())))
    if not drawn:
        return []
    looks = {label: marked_style(number) for number, label in enumerate(by_label)}
    parts = [_legend("Points", "point", looks), *page.unfolded(drawn, page.MOST_OPEN)]
    return [page.PageSection("rounds", "Over the rounds", parts, count=len(drawn))]


def _name(begin: str, measure: str) -> str:
    """Return the name of the files of a measure's figure: ``rounds-scribe-rad-median``."""
    return re.sub(r"\W+|_", "-", f"{begin}.{measure}")


def _cards(swept: _SweptPoints, show: Mapping[str, str], metrics: Sequence[str]) -> list[page.Card]:
    """Return cards of the metrics that differ most between the points, costs last."""
    found: list[tuple[float, page.Card]] = []
    for metric in metrics:
        of = zip(swept.of(metric), swept.labels.values(), strict=True)
        there = [(number, label) for number, label in of if number is not None]
        (least, at_least), (most, at_most) = (_named(end(there), there) for end in (min, max))
        text, words = f"{as_text(least)} to {as_text(most)}", show[metric]
        if least == most:
            text, words = as_text(least), f"{words} at every point".strip()
        else:
            where = f"least at {at_least}, greatest at {at_most}"
            words = f"{words}; {where}" if words else where
        apart = (most - least) / max(abs(most), abs(least), 1e-300)
        is_cost = metric.startswith("cost.")
        card = page.Card(measure_in_words(metric), text, words, _COLOUR)
        found.append((apart - 2 * is_cost, card))
    found.sort(key=lambda one: -one[0])
    return [card for _, card in found[:_MOST_CARDS]]


def _named(end: tuple[float, str], there: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Return an extreme value with its point, and how many other points of `there` have it."""
    value, label = end
    others = sum(one == value for one, _ in there) - 1
    return value, f"{label} and {others:,} more" if others else label


def _typed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as a user would write them; a swept one has all its values."""
    return {
        name: ", ".join(map(_word, value)) if isinstance(value, list) else value
        for name, value in settings.items()
        if name != "sweep"
    }


def _label(at: Mapping[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {_word(at[name])}" for name in names)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


# --- drawing


def _style(number: int) -> dict[str, Any]:
    size = max(3.0, 5.5 - number)  # all of several lines over each other stay visible
    return {**marked_style(number), "markersize": size}


def _panel(metric: str, swept: _SweptPoints, unit: str) -> Panel:
    """Return the panel of a metric over the values of the first swept field that varies."""
    axis, lines = swept.varied[0], swept.lines(metric)
    values = swept.grid[axis]
    numeric = all(is_number(x) for x in values)
    order = sorted(range(len(values)), key=values.__getitem__) if numeric else range(len(values))
    x = [float(values[i]) if numeric else float(i) for i in order]
    shown = dict(zip(x, (values[i] for i in order), strict=True))
    by_x = {label: pd.Series([ys[i] for i in order], x, dtype=float) for label, ys in lines.items()}
    across = Axis(axis, named={at: _tick(shown[at]) for at in x[:: -(-len(x) // _TICKS)]})
    if numeric and _spans_decades(x):
        across = replace(across, scale="log")
    elif not numeric:
        across = replace(across, low=-0.3, high=len(x) - 0.7)
    return lines_panel(
        *("points", _name("sweep", metric), measure_in_words(metric), by_x, across),
        _vertical(unit, by_x),
        lambda at: f"{axis} {_word(shown[at])}",
        looks={label: _style(number) for number, label in enumerate(lines)},
        at=lambda at: shown[at],
        legend=(),
        unit=unit,
    )


def _vertical(unit: str, lines: Mapping[str, pd.Series]) -> Axis:
    """Return a vertical axis with room for lines, logarithmic over decades."""
    y = pd.concat([*lines.values()]).dropna()
    if _spans_decades(y):
        return Axis(unit, scale="log", ticks=6, tick=short_tick)
    return Axis(unit, ticks=5, tick=short_tick) if y.min() < 0 else from_zero(unit, lines)


def _tick(value: Any) -> str:
    # paths differ at their ends
    return short_number(value) if is_number(value) else cut(_word(value)[::-1], 12)[::-1]


def _spans_decades(values: Sequence[float] | pd.Series) -> bool:
    return min(values) > 0 and max(values) >= 10**_DECADES * min(values)
