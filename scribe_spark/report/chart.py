"""A drawing of lines over one axis, with a legend, values under the pointer, and a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.report.legends import label_ends, legend_above
from scribe_spark.report.readouts import Line, Readout, exactly
from scribe_spark.report.stripes import entries, equal_curves, striped
from scribe_spark.report.svg import Drawn, new_figure, svg_element
from scribe_spark.report.text import as_text

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes

#: The size of a figure of the paper in inches, and its axes: left, bottom, width, height.
SIZE, BOX = (4.5, 3.15), (0.165, 0.135, 0.815, 0.83)


def line_of(label: str, look: Mapping[str, Any], x: Any, y: Any) -> Line:
    """Return a line through points; it has values at its points only, and gaps where y is NaN."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    return Line(label, look, x[~np.isnan(y)], exactly(x, y), (x, y))


def chart(
    name: str,
    title: str,
    words: str,
    lines: Sequence[Line],
    heading: Callable[[float], str],
    prepare: Callable[[Axes], object],
    *,
    labels: tuple[str, str],
    size: tuple[float, float] = SIZE,
    box: tuple[float, float, float, float] = BOX,
    value: Callable[[float], str] = as_text,
    at: Callable[[float], Any] = float,
    ends: bool = False,
    legend: bool = True,
    **options: Any,
) -> Drawn:
    """Draw lines, then prepare the axes, then put labels at the ends of the lines or in a legend.

    Equal lines are striped in their colours, and share an entry of the legend.

    Parameters
    ----------
    heading, value, at : callable
        As of :class:`~.readouts.Readout`.
    prepare : callable
        ``prepare(axes)`` sets scales and limits.
    labels : (str, str)
        The titles of the axes.
    ends : bool
        True for labels at the right ends of the lines, if there is space.
    legend : bool
        False for a drawing without labels.
    **options
        Options of the plotted lines.
    """
    with new_figure(*size) as figure:
        axes = figure.add_axes(box)
        axes.set(xlabel=labels[0], ylabel=labels[1])
        groups = equal_curves([line.points for line in lines])
        looks = striped([line.look for line in lines], groups)
        for line, look in zip(lines, looks, strict=True):
            axes.plot(*line.points, **look, **options)
        prepare(axes)
        all_differ = len(groups) == len(lines)
        if legend and len(lines) > 1 and not (ends and all_differ and label_ends(axes, lines)):
            legend_above(figure, entries([line.label for line in lines], looks, groups))
        return svg_element(figure, name, title, words, [Readout(axes, lines, heading, value, at)])
