"""Coverage over time: the share of the members that have the message, with marked percentiles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.core.histogram import Histogram, histogram_of_rows
from scribe_spark.report.axes import short_numbers
from scribe_spark.report.chart import chart
from scribe_spark.report.readouts import Line
from scribe_spark.report.series import label_of
from scribe_spark.report.stripes import equal_curves
from scribe_spark.report.style import in_order, system_styles
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.text import ABSENT, PERCENT, as_percent, as_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    styles = system_styles({*systems, *order})
    lines, sentences = [], []
    for name in order:
        of, look = found[name], {"color": styles[name]["color"]}
        all_ = expected.get(name) or of.total
        x, y = of.values, 100 * of.at_most / all_
        points = np.r_[0.0, x], np.r_[0.0, y]
        lines.append(Line(label_of(name), look, x, partial(_share_at_most, of, all_), points))
        times = ", ".join(f"{percent}{PERCENT} {_when(x, y, percent)}" for percent in _MARKED)
        sentences.append(f"{label_of(name)}: {times}.")
    words = " ".join(sentences)

    def prepare(axes: Axes) -> None:
        for group in equal_curves([line.points for line in lines]):
            for below, line in enumerate(lines[number] for number in reversed(group)):
                x, y = line.points
                at = [np.searchsorted(y, percent) for percent in _MARKED if y[-1] >= percent]
                dot: dict[str, Any] = {
                    "marker": "o",
                    "markersize": 3.5 + 2 * below,
                    "zorder": 3 - 0.1 * below,
                }
                axes.plot(x[at], y[at], color=line.colour, linestyle="", **dot)
        for percent in _MARKED:
            axes.axhline(percent, color="#888888", linewidth=0.5, linestyle=(0, (2, 2)), zorder=0)
        axes.set_xlim(0, 1.02 * max(of.values[-1] for of in found.values()))
        axes.set_ylim(0, 101)
        short_numbers(axes.xaxis)
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))

    svg = chart(
        *(_NAME, _TITLE, words, lines),
        lambda ms: f"within {as_text(ms)} ms",
        prepare,
        labels=("time since the message was sent (ms)", "members that have it (%)"),
        value=as_percent,
        ends=True,
    )
    return PageFigure(_NAME, _TITLE, svg, _CAPTION, words, tables=("latency_counts", "latency"))


def _share_at_most(of: Histogram, all_: float, ms: np.ndarray) -> np.ndarray:
    return 100 * of.count_at_most(ms) / all_


def _when(ms: np.ndarray, shares: np.ndarray, percent: float) -> str:
    """Return the time at which a share of the members has the message; a dash for never."""
    if shares[-1] < percent:
        return ABSENT
    return f"within {as_text(ms[np.searchsorted(shares, percent)])} ms"
