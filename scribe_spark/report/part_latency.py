"""Latency by class or region of nodes: a small chart for each system, a curve for each part."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.report.axes import short_numbers
from scribe_spark.report.legends import legend_above
from scribe_spark.report.readouts import Line, Readout
from scribe_spark.report.series import label_of
from scribe_spark.report.stripes import equal_curves, striped
from scribe_spark.report.style import curve_style, in_order
from scribe_spark.report.svg import PageFigure, new_figure, svg_element
from scribe_spark.report.text import PERCENT, as_percent, as_text

#: The columns of `schemas.PART_LATENCIES`.
COLUMNS = ("by", "part", "system", "value", "count")

_PERCENTILES = (50, 90, 99)
_ACROSS = 2
_WIDTH, _CHART = 4.5, 1.55  # inches


def draw_part_latencies(counts: pd.DataFrame) -> Iterator[PageFigure]:
    """Yield a figure for classes and one for regions, if a run has them."""
    for by, rows in counts.groupby("by", sort=True):
        yield _figure(str(by), rows)


def _figure(by: str, rows: pd.DataFrame) -> PageFigure:

    found = {
        (str(system), str(part)): histogram_of_rows(of)
        for (system, part), of in rows.groupby(["system", "part"], sort=False)
    }
    systems, parts = in_order({system for system, _ in found}), sorted({part for _, part in found})
    looks = {part: curve_style(number) for number, part in enumerate(parts)}
    name, title = f"figure-latency-by-{by}", f"Latency by {by} of nodes"
    words = " ".join(_words(system, part, of) for (system, part), of in sorted(found.items()))
    down = -(-len(systems) // _ACROSS)
    right = 1.02 * max(of.values[-1] for of in found.values())
    height = _CHART * down + 0.3
    with new_figure(_WIDTH, height) as figure:
        readouts = []
        for number, system in enumerate(systems):
            row, column = divmod(number, _ACROSS)
            low = height - _CHART * (row + 1) + 0.08
            place = (0.56 + column * 2.05) / _WIDTH, low / height, 1.78 / _WIDTH, 1.2 / height
            axes = figure.add_axes(place)
            axes.set_title(label_of(system), y=1, fontsize=8, pad=3, loc="left")
            told = []
            for part in parts:
                if of := found.get((system, part)):
                    points = np.r_[0.0, of.values], np.r_[0.0, 100 * of.at_most / of.total]
                    told.append(Line(part, looks[part], of.values, of.share_at_most, points))
            groups = equal_curves([line.points for line in told])
            for line, look in zip(told, striped([line.look for line in told], groups), strict=True):
                axes.plot(*line.points, **look)
            axes.set_xlim(0, right)
            axes.set_ylim(0, 101)
            axes.set_yticks([0, 50, 90, 100])
            axes.locator_params(axis="x", nbins=4)
            short_numbers(axes.xaxis)
            is_last = number + _ACROSS >= len(systems)
            axes.set_xlabel("latency (ms)" if is_last else "", labelpad=1)
            axes.set_ylabel("deliveries (%)" if column == 0 else "")
            axes.tick_params(labelbottom=is_last, labelleft=column == 0)
            readouts.append(Readout(axes, told, lambda ms: f"within {as_text(ms)} ms", as_percent))
        legend_above(figure, [(part, [looks[part]]) for part in parts])
        values = _values(found, systems, parts)
        svg = svg_element(figure, name, title, words, readouts, values)
    caption = (
        f"The share of the deliveries to the nodes of each {by} that arrive within x ms, for each "
        "system. All charts have the same axes."
    )
    return PageFigure(name, title, svg, caption, words, tables=("part_latencies", "by_part"))


def _words(system: str, part: str, of: Histogram) -> str:
    shares = ", ".join(
        f"{percent}{PERCENT} within {as_text(of.nearest_rank(percent))} ms"
        for percent in _PERCENTILES
    )
    return f"{label_of(system)}, {part}: {shares}."


def _values(
    found: dict[tuple[str, str], Histogram], systems: list[str], parts: list[str]
) -> pd.DataFrame:
    """Return a row for each per cent, a column for each system and part."""
    percent = np.arange(1, 101)
    columns = {
        f"{label_of(system)}, {part} (ms)": [of.nearest_rank(int(p)) for p in percent]
        for system in systems
        for part in parts
        if (of := found.get((system, part))) is not None
    }
    return pd.DataFrame({"deliveries (%)": percent} | columns)
