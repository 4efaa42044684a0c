"""Axes: logarithmic ones by decades, and axes of whole numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.report.style import RC, short_number
from scribe_spark.report.text import as_bytes

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def log_axis(axes: Axes, which: str) -> None:
    """Set decades from 1, labelled 1, 10, 100, 1k, ..., with margins around the data.

    The axis begins below 1 if a mean over topologies does.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.dataLim.intervalx if which == "x" else axes.dataLim.intervaly
    axis = axes.xaxis if which == "x" else axes.yaxis
    decades = max(1.0, math.log10(max(high, 1.0)))
    (axes.set_xlim if which == "x" else axes.set_ylim)(0.85 * min(low, 1), 10 ** (decades * 1.04))
    axis.set_major_locator(LogLocator(numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=20))
    axis.set_minor_formatter(NullFormatter())


def draw_minor_ticks(figure: Figure) -> None:
    """Draw the minor ticks of logarithmic axes, which have no labels, as one line of markers each.

    As ticks of matplotlib, which are three artists each, they would take most of a figure's time.
    """
    from matplotlib.lines import Line2D
    from matplotlib.markers import TICKDOWN, TICKLEFT
    from matplotlib.ticker import NullLocator

    look: dict[str, Any] = {"linestyle": "none", "color": RC["xtick.color"], "clip_on": False}
    look |= {"markersize": 2, "markeredgewidth": 0.6}  # as matplotlib's own
    for axes in (one for outer in figure.axes for one in (outer, *outer.child_axes)):
        for axis, marker, transform in (
            (axes.xaxis, TICKDOWN, axes.get_xaxis_transform()),
            (axes.yaxis, TICKLEFT, axes.get_yaxis_transform()),
        ):
            if axis.get_scale() != "log":
                continue
            at, (low, high) = axis.get_minorticklocs(), axis.get_view_interval()
            axis.set_minor_locator(NullLocator())
            at = at[(at >= low) & (at <= high)]
            edge = np.zeros(len(at))
            points = (at, edge) if axis is axes.xaxis else (edge, at)
            look |= {"marker": marker, "transform": transform, "zorder": axis.get_zorder()}
            axes.add_artist(Line2D(*points, **look))


def whole_numbers(axis: Axis) -> None:
    """Set a few ticks at whole numbers, with thousands separated."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value < 1e6 else short_number(value))
    )


def byte_numbers(axis: Axis) -> None:
    """Label ticks with bytes in units of 1,000: 0 B, 500 KB, 1 MB."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: as_bytes(round(value, 6))))


def short_numbers(axis: Axis) -> None:
    """Label ticks with few digits: 0, 2.5, 10k."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(round(value, 9))))
