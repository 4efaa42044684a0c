"""Values under the pointer, a finger or the keys: parts of a drawing with descriptions.

A spot is a group with an invisible area and hidden words.  A rule of the style sheet shows the
words while the pointer is over the area, and after a touch, which gives the spot the focus.  So it
works in the page and in a single SVG file, and does not change a print.  A script of the page
(``template.html``) moves the focus from spot to spot by the arrow keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.report.text import as_text

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The style sheet of every drawing; sizes are in its own units.
STYLE = (
    ".spot .told { visibility: hidden; pointer-events: none; }"
    " .spot:hover .told, .spot:focus .told { visibility: visible; }"
    " .spot { outline: none; }"
    " .spot .area { fill: #000; fill-opacity: 0; stroke: none; }"
    " .told rect { fill: #fff; fill-opacity: .94; stroke: #59636e; stroke-width: .5; }"
    " .told path { fill: none; stroke: #333; stroke-width: .6; }"
    " .told circle { stroke: #fff; stroke-width: .8; }"
    ' .told text { font: 6.5px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1c2024; }'
)

_SIZE, _LEADING, _PADDING = 6.5, 8.4, 3.0
#: The assumed width of a character, in font sizes; a box may be too wide.
_CHARACTER = 0.59
_SWATCH = 8.0
#: The greatest number of characters of a line; longer ones are cut.
_MOST_CHARACTERS = 52
#: The least width of an area at which a user can point.
_NARROWEST = 2.4

#: The greatest number of rows of a figure's table; of more, rows at even distances are kept.
MOST_ROWS = 1_000

#: A line of words, and the colour of its subject (empty: none).
Words = tuple[str, str]


@dataclass(frozen=True)
class Spot:
    """A part of a drawing with a description, in the drawing's own units."""

    area: str  # name and attributes of the element under the pointer: ``circle cx="3" ...``
    x: float  # the words are right of `x`, or left of it if there is no space
    y: float
    words: Sequence[Words]  # lines
    marks: str = ""  # elements that are shown with the words


def spot_svg(spot: Spot, width: float, height: float) -> str:
    """Return a spot of a drawing of this size as an element.

    Examples
    --------
    >>> spot_svg(Spot('rect width="9" height="9"', 5, 5, [("<3>", "")]), 99, 99)[:55]
    '<g class="spot" tabindex="-1"><rect width="9" height="9'
    """
    lines = [(_cut(words), colour) for words, colour in spot.words]
    margin = _SWATCH if any(colour for _, colour in lines) else 0.0
    wide = max(len(words) for words, _ in lines) * _SIZE * _CHARACTER + margin + 2 * _PADDING
    high = len(lines) * _LEADING + 2 * _PADDING - (_LEADING - _SIZE)
    x = spot.x + 4 if spot.x + 4 + wide <= width else max(0.0, spot.x - 4 - wide)
    y = min(max(spot.y, 0.5), max(0.5, height - high - 0.5))
    text, swatches = "", ""
    for number, (words, colour) in enumerate(lines):
        base = y + _PADDING + number * _LEADING + _SIZE * 0.82
        at = coordinate(x + _PADDING + margin)
        text += f'<tspan x="{at}" y="{coordinate(base)}">{escape(words)}</tspan>'
        if colour:
            start = f"M{coordinate(x + _PADDING)} {coordinate(base - _SIZE * 0.3)}h5.5"
            swatches += f'<path d="{start}" style="stroke:{escape(colour)};stroke-width:2"/>'
    place = f'x="{coordinate(x)}" y="{coordinate(y)}"'
    box = f'<rect {place} width="{coordinate(wide)}" height="{coordinate(high)}" rx="1.5"/>'
    return (
        f'<g class="spot" tabindex="-1"><{spot.area} class="area"/>'
        '<g class="told" visibility="hidden">'
        f"{spot.marks}{box}{swatches}<text>{text}</text></g></g>\n"
    )


def coordinate(value: float) -> str:
    """Return a coordinate rounded to a tenth of a unit, as text.

    Examples
    --------
    >>> coordinate(3.0), coordinate(-0.04), coordinate(2.26)
    ('3', '0', '2.3')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _cut(words: str) -> str:
    if len(words) <= _MOST_CHARACTERS:
        return words
    return words[: _MOST_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"


# --- lines over an axis


_NO_POINTS = np.empty(0), np.empty(0)


@dataclass(frozen=True)
class Line:
    """A line of a drawing."""

    label: str  # empty for a single line
    look: Mapping[str, Any]  # its colour, and further options of the drawn line
    x: np.ndarray  # the positions at which values are shown, without NaN
    at: Callable[[np.ndarray], np.ndarray]  # the values there, NaN for none
    points: tuple[np.ndarray, np.ndarray] = _NO_POINTS  # as the line is drawn

    @property
    def colour(self) -> str:
        return self.look["color"]


def exactly(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function with a line's values at points, and NaN elsewhere.

    Examples
    --------
    >>> exactly(np.array([3, 1]), np.array([30.0, 10.0]))(np.array([1, 2, 3])).tolist()
    [10.0, nan, 30.0]
    """
    order = np.argsort(x, kind="stable")
    points, values = np.asarray(x, dtype=float)[order], np.asarray(y, dtype=float)[order]

    def at(wanted: np.ndarray) -> np.ndarray:
        place = np.minimum(np.searchsorted(points, wanted), len(points) - 1)
        return np.where(points[place] == wanted, values[place], np.nan)

    return at


@dataclass(frozen=True)
class Readout:
    """The values of all lines at one x, shown along an axis."""

    axes: Axes
    lines: Sequence[Line]
    heading: Callable[[float], str]  # of an x: the first line of words
    value: Callable[[float], str] = field(default=as_text)  # a value in words
    at: Callable[[float], Any] = float  # x in the form of a table

    def spots(self, figure: Figure) -> Iterator[str]:
        """Yield vertical bands over the axes of a drawn figure, one for each x.

        If values are too close to each other to point at, a band has the one nearest to its middle.
        """
        axes, scale = self.axes, 72 / figure.dpi
        width, height = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
        box = axes.get_window_extent()
        left, right = box.x0 * scale, box.x1 * scale
        top, bottom = height - box.y1 * scale, height - box.y0 * scale
        x = self._x()
        ones = np.ones(len(x))
        x = x[np.isfinite(axes.transScale.transform(np.column_stack([x, ones]))[:, 0])]
        if not len(x):
            return
        at = axes.transData.transform(np.column_stack([x, ones[: len(x)]]))[:, 0] * scale
        inside = (at >= left - 0.5) & (at <= right + 0.5)
        x, at = _thinned(x[inside], at[inside], left)
        edges = np.r_[left, (at[1:] + at[:-1]) / 2, right].tolist()
        told = []  # of each line: its values, and their heights
        for line in self.lines:
            values = line.at(x)
            y = height - axes.transData.transform(np.column_stack([x, values]))[:, 1] * scale
            told.append((line, values.tolist(), y.tolist()))
        for number, place in enumerate(at.tolist()):
            marks = f'<path d="M{coordinate(place)} {coordinate(top)}V{coordinate(bottom)}"/>'
            words: list[Words] = [(self.heading(float(x[number])), "")]
            for line, values, heights in told:
                value, y = values[number], heights[number]
                if not math.isfinite(value):
                    continue
                if math.isfinite(y) and top - 1 <= y <= bottom + 1:
                    dot = f'cx="{coordinate(place)}" cy="{coordinate(y)}"'
                    marks += f'<circle {dot} r="2.2" fill="{escape(line.colour)}"/>'
                begin = f"{line.label}: " if line.label else ""
                words.append((begin + self.value(value), line.colour if len(told) > 1 else ""))
            first, last = edges[number], edges[number + 1]
            area = (
                f'rect x="{coordinate(first)}" y="{coordinate(top)}" '
                f'width="{coordinate(last - first)}" height="{coordinate(bottom - top)}"'
            )
            yield spot_svg(Spot(area, place, top + 2, words, marks), width, height)

    def values(self) -> pd.DataFrame:
        """Return the values of all lines as a table, with at most :data:`MOST_ROWS` rows."""
        x = self._x()
        if len(x) > MOST_ROWS:
            x = x[np.linspace(0, len(x) - 1, MOST_ROWS).round().astype(int)]
        named: list[Any] = [self.at(value) for value in x.tolist()]
        columns: dict[str, Any] = {self.axes.get_xlabel() or "x": named}
        for line in self.lines:
            columns[line.label or self.axes.get_ylabel() or "value"] = line.at(x)
        return pd.DataFrame(columns)

    def _x(self) -> np.ndarray:
        told = [np.asarray(line.x, dtype=float) for line in self.lines]
        return np.unique(np.concatenate([np.empty(0), *told]))


def _thinned(x: np.ndarray, at: np.ndarray, left: float) -> tuple[np.ndarray, np.ndarray]:
    """Return, of the values in each stretch of the least width, the one nearest to its middle."""
    stretch = np.floor((at - left) / _NARROWEST)
    apart = np.abs(at - left - (stretch + 0.5) * _NARROWEST)
    order = np.lexsort((apart, stretch))
    kept = np.sort(order[np.unique(stretch[order], return_index=True)[1]])
    return x[kept], at[kept]
