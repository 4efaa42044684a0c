"""Legends above the axes of a drawing, which grows by their height."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark.report.readouts import Line
from scribe_spark.report.stripes import Entry

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_MOST_COLUMNS = 4
#: The margin of the legend, as a share of the width of the figure.
_MARGIN = 0.01
#: The size of a label at the end of a line, and its greatest number of characters.
_LABEL, _LONGEST_LABEL = 7.5, 24
#: The assumed width of a character in font sizes, and that of a line in a legend in characters.
_CHARACTER, _HANDLE = 0.59, 6


def legend_above(figure: Figure, entries: Sequence[Entry]) -> None:
    """Put a legend above all axes, in as many columns as fit into the width of the figure.

    The axes keep their size.  A label that is too long for a line continues in the next line, and a
    word that is too long is cut.
    """
    for columns in range(min(len(entries), _MOST_COLUMNS), 0, -1):
        legend = _legend(figure, entries, columns)
        if legend.get_window_extent().width <= figure.bbox.width * (1 - _MARGIN):
            break
        if columns > 1:
            legend.remove()
        else:
            _cut(legend, figure.bbox.width * (1 - _MARGIN))
    _grow(figure, legend.get_window_extent().height / figure.dpi)


def label_ends(axes: Axes, lines: Sequence[Line]) -> bool:
    """Put the label of each line at its right end, if there is space for all of them.

    The axes become narrower by the width of the longest label.
    """
    figure, labels = axes.figure, [line.label for line in lines]
    known = [line.points[1][~np.isnan(line.points[1])] for line in lines]
    if not all(map(len, known)) or max(map(len, labels)) > _LONGEST_LABEL:
        return False
    ends = [float(values[-1]) for values in known]
    heights = sorted(axes.transData.transform((0, y))[1] for y in ends)
    lowest = _LABEL * 1.15 * figure.dpi / 72
    if any(above - below < lowest for below, above in itertools.pairwise(heights)):
        return False
    texts = [
        axes.annotate(
            line.label,
            xy=(1, y),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            color=line.colour,
            fontsize=_LABEL,
            va="center",
            annotation_clip=False,
        )
        for line, y in zip(lines, ends, strict=True)
    ]
    wide = max(text.get_window_extent().width for text in texts) / figure.bbox.width
    left, bottom, _, high = axes.get_position().bounds
    axes.set_position((left, bottom, 0.97 - left - wide, high))
    return True


def _legend(figure: Figure, entries: Sequence[Entry], columns: int) -> Legend:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    # a handle with several lines has all of them at one place: stripes
    lines = [tuple(Line2D([], [], **look) for look in looks) for _, looks in entries]
    characters = int(72 * figure.get_figwidth() / (_LABEL * _CHARACTER)) - _HANDLE
    return figure.legend(
        handles=[of[0] if len(of) == 1 else of for of in lines],
        labels=[textwrap.fill(label, characters, break_long_words=False) for label, _ in entries],
        handler_map={tuple: HandlerTuple(ndivide=1, pad=0)},
        loc="upper left",
        bbox_to_anchor=(_MARGIN, 1),
        borderaxespad=0,
        ncols=columns,
        frameon=False,
        fontsize=_LABEL,
        handlelength=2.6,
        columnspacing=1.1,
    )


def _cut(legend: Legend, width: float) -> None:
    """Cut the labels that make a legend of one column wider than a width in pixels."""
    texts = legend.get_texts()
    beside = legend.get_window_extent().width - max(t.get_window_extent().width for t in texts)
    for text in texts:
        words = text.get_text()
        while words and text.get_window_extent().width > width - beside:
            words = words[:-1].rstrip()
            text.set_text(words + "\N{HORIZONTAL ELLIPSIS}")


def _grow(figure: Figure, inches: float) -> None:
    """Enlarge the figure at the top; the axes keep their size and their distance from
    the bottom.
    """
    width, height = figure.get_size_inches()
    scale = height / (height + inches)
    figure.set_size_inches(width, height + inches)
    for axes in figure.axes:
        left, bottom, wide, high = axes.get_position().bounds
        axes.set_position((left, bottom * scale, wide, high * scale))
