"""Delay by the size of groups: a figure that the paper does not have.

A median over the groups mainly shows small groups, as most groups are small.  The source of a small
group of a mesh sends to all members itself; only large groups show the costs of the mesh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scribe_spark.measures.measure import forwards
from scribe_spark.report.axes import log_axis, short_numbers
from scribe_spark.report.chart import chart, line_of
from scribe_spark.report.series import label_of
from scribe_spark.report.style import in_order, system_styles
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.text import as_text
from scribe_spark.systems import baseline, find_system

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME, _TITLE = "figure-rad-by-group-size", "RAD by group size"
_CAPTION = (
    "Each point is the median RAD of groups of similar size, drawn at their median size; sizes "
    "within a point differ by a factor of up to two. The last point of a line is the largest group "
    "alone. RAD is the mean delay divided by that of IP multicast."
)


def draw_by_size(delays: pd.DataFrame, systems: set[str]) -> PageFigure | None:
    """Draw a line for each system whose nodes forward copies; return None without such systems."""
    from matplotlib.ticker import MaxNLocator

    lines = {}
    for name, of in delays.groupby("system"):
        system = find_system(str(name))
        if system is None or forwards(system):
            lines[str(name)] = by_size(of)
    order = in_order(lines)
    if not order:
        return None
    styles = system_styles({*systems, *order})
    words = " ".join(_words(name, lines[name]) for name in order)
    drawn = [
        line_of(label_of(name) if len(order) > 1 else "", styles[name], line.index, line)
        for name, line in ((name, lines[name]) for name in order)
    ]

    def prepare(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.axhline(1, color=styles[baseline().name]["color"], linewidth=0.7)
        log_axis(axes, "x")
        axes.set_xlim(left=0.8 * min(line.index[0] for line in lines.values()))
        axes.set_ylim(0, max(line.max() for line in lines.values()) * 1.08)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        short_numbers(axes.yaxis)

    svg = chart(
        *(_NAME, _TITLE, words, drawn),
        lambda size: f"about {as_text(size)} members",
        prepare,
        labels=("group size (members)", f"RAD (mean delay / by {baseline().label})"),
        ends=True,
        zorder=3,
    )
    return PageFigure(_NAME, _TITLE, svg, _CAPTION, words, tables=("group_delay",))


def by_size(delays: pd.DataFrame) -> pd.Series:
    """Return the median RAD by the median size of each class of groups; the largest group is a
    class.
    """
    size = delays["size"].to_numpy()
    classes = np.floor(np.log2(size)).astype(int)
    classes[size == size.max()] = classes.max() + 1
    medians = delays[["size", "rad"]].groupby(classes).median()
    return pd.Series(medians["rad"].to_numpy(), medians["size"].to_numpy(dtype=float))


def _words(name: str, line: pd.Series) -> str:
    size, value = line.index[-1], line.iloc[-1]
    first = f"{as_text(line.iloc[0])} in groups of about {as_text(line.index[0])} members, "
    largest = f"{as_text(value)} in the largest of {as_text(size)}."
    return f"{label_of(name)}: {first if len(line) > 1 else ''}{largest}"
