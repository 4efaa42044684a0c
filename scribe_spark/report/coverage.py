"""Coverage over time: the share of the members that have the message, with marked percentiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from scribe_spark.measures.histogram import Histogram, histogram_of_rows
from scribe_spark.report.axes import short_numbers
from scribe_spark.report.legends import label_ends, legend_above
from scribe_spark.report.readouts import Line, Readout
from scribe_spark.report.series import label_of
from scribe_spark.report.style import in_order, system_styles
from scribe_spark.report.svg import PageFigure, new_figure, svg_element
from scribe_spark.report.text import ABSENT, PERCENT, as_percent, as_text

_NAME, _TITLE = "figure-coverage", "Coverage over time"
_CAPTION = (
    "The share of the expected members that have the message after x ms, over all groups: the "
    "cumulative distribution of latency. Dots mark 50, 90, 95 and 99 %."
)

#: The marked percentiles.
_MARKED = (50, 90, 95, 99)


def draw_coverage(
    counts: pd.DataFrame, expected: Mapping[str, float], systems: set[str]
) -> PageFigure | None:
    """Draw a line for each system; return None if no latency in ms was counted."""
    from matplotlib.ticker import PercentFormatter

    of_time = counts[counts["unit"] == "ms"]
    found = {str(name): histogram_of_rows(rows) for name, rows in of_time.groupby("system")}
    order = in_order(found)
    if not order:
        return None
    looks = system_styles({*systems, *order})
    shares = {name: 100 * found[name].at_most / _all(found, expected, name) for name in order}
    words = " ".join(
        f"{label_of(name)}: "
        + ", ".join(
            f"{percent}{PERCENT} {_when(found[name], shares[name], percent)}" for percent in _MARKED
        )
        + "."
        for name in order
    )
    with new_figure(4.5, 3.15) as figure:
        axes = figure.add_axes((0.165, 0.135, 0.815, 0.83))
        axes.set(xlabel="time since the message was sent (ms)", ylabel="members that have it (%)")
        told, ends = [], {}
        for name in order:
            x, y, colour = found[name].values, shares[name], looks[name]["color"]
            axes.plot(np.r_[0.0, x], np.r_[0.0, y], color=colour)
            at = [np.searchsorted(y, percent) for percent in _MARKED if y[-1] >= percent]
            axes.plot(x[at], y[at], color=colour, linestyle="", marker="o", markersize=3.5)
            told.append(Line(label_of(name), colour, x, _at_most(found[name], x, y)))
            ends[label_of(name)] = (float(y[-1]), colour)
        for percent in _MARKED:
            axes.axhline(percent, color="#888888", linewidth=0.5, linestyle=(0, (2, 2)), zorder=0)
        axes.set_xlim(0, 1.02 * max(of.values[-1] for of in found.values()))
        axes.set_ylim(0, 101)
        short_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        if len(order) > 1 and not label_ends(axes, ends):
            legend_above(
                figure, [(label_of(name), {"color": looks[name]["color"]}) for name in order]
            )
        readout = Readout(axes, told, lambda ms: f"within {as_text(ms)} ms", as_percent)
        svg = svg_element(figure, _NAME, _TITLE, words, [readout])
        return PageFigure(_NAME, _TITLE, svg, _CAPTION, words, tables=("latency_counts", "latency"))


def _all(found: Mapping[str, Histogram], expected: Mapping[str, float], name: str) -> float:
    return expected.get(name) or found[name].total


def _when(of: Histogram, shares: np.ndarray, percent: float) -> str:
    """Return the time at which a share of the members has the message; a dash for never."""
    if shares[-1] < percent:
        return ABSENT
    return f"within {as_text(of.values[np.searchsorted(shares, percent)])} ms"


def _at_most(of: Histogram, x: np.ndarray, shares: np.ndarray):
    total = of.total / shares[-1] if shares[-1] else 1.0
    return lambda wanted: of.count_at_most(wanted) / total
