"""Drawings as <svg> elements, PNG and tables, and their values under the pointer."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.report.style import RC, as_text, draw_minor_ticks

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

#: A line of words, or words and the colour of their subject.
Words = str | tuple[str, str]


@dataclass(frozen=True)
class Spot:
    """A part of a drawing that shows words under the pointer, in the drawing's own units."""

    area: str  # name and attributes of the element under the pointer: ``circle cx="3" ...``
    x: float  # the words are right of `x`, or left of it if there is no space
    y: float
    words: Sequence[Words]  # lines
    marks: str = ""  # elements that are shown with the words


def spot_svg(spot: Spot, width: float, height: float) -> str:
    """Return a spot, in a drawing of this width and height, as an SVG element.

    Examples
    --------
    >>> spot_svg(Spot('rect width="9" height="9"', 5, 5, [("<3>", "")]), 99, 99)[:55]
    '<g class="spot" tabindex="-1"><rect width="9" height="9'
    """
    told = [(words, "") if isinstance(words, str) else words for words in spot.words]
    lines = [(_cut(words), colour) for words, colour in told]
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


def shape(name: str, **attributes: Any) -> str:
    """Return an SVG element's name and attributes as text, without brackets.

    Lengths are rounded to a tenth of a unit.

    Examples
    --------
    >>> shape("circle", cx=2.04, r=".25", stroke_width=3)
    'circle cx="2" r=".25" stroke-width="3"'
    """
    texts = {
        key.replace("_", "-"): coordinate(value) if isinstance(value, float) else value
        for key, value in attributes.items()
    }
    return " ".join([name, *(f'{key}="{text}"' for key, text in texts.items())])


def element(name: str, **attributes: Any) -> str:
    """Return an SVG element as text; see :func:`shape` for the arguments."""
    return f"<{shape(name, **attributes)}/>\n"


def path(*points: tuple[float, float]) -> str:
    """Return lines through points, as the attribute ``d`` of a path."""
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)


def _cut(words: str) -> str:
    if len(words) <= _MOST_CHARACTERS:
        return words
    return words[: _MOST_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"


# --- lines over an axis


_NO_POINTS = np.empty(0), np.empty(0)


@dataclass(frozen=True)
class Line:
    """A line of a drawing, and the values that are shown along it."""

    label: str  # empty for a single line
    look: Mapping[str, Any]  # its colour, and further options of the drawn line
    x: np.ndarray  # the positions at which values are shown, without NaN
    at: Callable[[np.ndarray], np.ndarray]  # the values there, NaN for none
    points: tuple[np.ndarray, np.ndarray] = _NO_POINTS  # as the line is drawn

    @property
    def colour(self) -> str:
        return self.look["color"]


def exactly(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of an array: the line's y at points `x`, and NaN elsewhere.

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
    """The values of all lines, shown for the x under the pointer."""

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
            words: list[Words] = [self.heading(float(x[number]))]
            for line, values, heights in told:
                value, y = values[number], heights[number]
                if not math.isfinite(value):
                    continue
                if math.isfinite(y) and top - 1 <= y <= bottom + 1:
                    look = {"r": 2.2, "fill": escape(line.colour)}
                    marks += element("circle", cx=place, cy=y, **look).strip()
                begin = f"{line.label}: " if line.label else ""
                words.append((begin + self.value(value), line.colour if len(told) > 1 else ""))
            first, last = edges[number], edges[number + 1]
            area = shape("rect", x=first, y=top, width=last - first, height=bottom - top)
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
    """Return some of the values `x` and of their places `at`, at least a least distance apart.

    Of the places in each stretch of that width, counted from `left`, the one nearest to the middle
    stays.
    """
    stretch = np.floor((at - left) / _NARROWEST)
    apart = np.abs(at - left - (stretch + 0.5) * _NARROWEST)
    order = np.lexsort((apart, stretch))
    kept = np.sort(order[np.unique(stretch[order], return_index=True)[1]])
    return x[kept], at[kept]


#: An outline that keeps the words of a mark legible over a curve.
_HALO = 'g[id*="-mark-"] text { paint-order: stroke; stroke: #fff; stroke-width: 2px; }'

#: Dots per inch of a PNG: a drawing is 900 dots wide.
_DOTS = 200


class Drawn(str):
    """An ``<svg>`` element of a matplotlib figure, which can also be saved in other formats."""

    figure: Figure
    values: pd.DataFrame  # in the figure

    @classmethod
    def of(cls, svg: str, figure: Figure, values: pd.DataFrame) -> Drawn:
        """Return the text `svg` as an element that keeps its figure and the figure's values."""
        drawn = cls(svg)
        drawn.figure, drawn.values = figure, values
        return drawn

    def as_png(self) -> bytes:
        """Return the figure as PNG."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        file = io.BytesIO()
        with drawing_style():
            self.figure.set_dpi(_DOTS)
            canvas = FigureCanvasAgg(self.figure)
            canvas.draw()
            # without the alpha channel, a quickly packed image is as short as a well packed one
            image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
            image.save(file, "PNG", compress_level=1, dpi=(_DOTS, _DOTS))
        return file.getvalue()

    def as_csv(self) -> bytes:
        """Return the values as CSV, to six digits."""
        return self.values.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page, with its title, caption and words."""

    name: str  # of its files
    title: str
    drawing: str  # an ``<svg>`` element; a `Drawn` for a matplotlib figure
    caption: str = ""
    words: str = ""  # the values in sentences
    unit: str = ""  # behind the heading; empty if the axes name it
    tables: tuple[str, ...] = ()  # of the folder, with the values

    def with_tables(self, tables: Collection[str]) -> PageFigure:
        """Return the figure with links to the given tables only."""
        return replace(self, tables=tuple(name for name in self.tables if name in tables))

    @property
    def svg(self) -> Any:
        """The drawing as markup, which the template does not escape."""
        from markupsafe import Markup

        return Markup(str(self.drawing))

    @property
    def formats(self) -> tuple[str, ...]:
        """The endings of the figure's files: ``svg``; from matplotlib also ``png`` and ``csv``."""
        return ("svg", "png", "csv") if isinstance(self.drawing, Drawn) else ("svg",)


def figure_files(figures: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every file of figures: SVG and, if they exist, PNG and CSV.

    Parameters
    ----------
    figures : mapping of str to str
        Name -> drawing.
    """
    for name, drawing in figures.items():
        yield f"{name}.svg", drawing.encode()
        if isinstance(drawing, Drawn):
            yield f"{name}.png", drawing.as_png()
            yield f"{name}.csv", drawing.as_csv()


@contextmanager
def drawing_style() -> Iterator[None]:
    """Return a context manager in which the style of all pages replaces the user's matplotlibrc."""
    from matplotlib import style

    with style.context(["default", RC]):
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Return a context manager with an empty figure (sizes in inches) in the style of all pages.

    It is drawn as SVG.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with drawing_style():
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        yield figure


def svg_element(
    figure: Figure,
    name: str,
    heading: str,
    words: str,
    readouts: Sequence[Readout] = (),
    values: pd.DataFrame | None = None,
    spots: Callable[[], Iterable[Spot]] = tuple,
) -> Drawn:
    """Return the figure as an ``<svg>`` element, for a file or for a page with several.

    All ids begin with `name`; `heading` and `words` are the text alternative.
    """
    draw_minor_ticks(figure)
    file = io.StringIO()
    nothing = {key: None for key in ("Date", "Creator", "Format", "Type")}
    figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    size = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    every = "".join(spot for one in readouts for spot in one.spots(figure))
    every += "".join(spot_svg(spot, *size) for spot in spots())
    head, body = text.removesuffix("</svg>\n").split(">", 1)
    svg = f"{head} {_alternative(name, heading, words)}{body}{every}</svg>\n"
    if values is None:
        values = readouts[0].values() if readouts else pd.DataFrame()
    return Drawn.of(svg, figure, values)


def plain_svg(
    name: str, heading: str, words: str, size: tuple[float, float], body: Iterable[str]
) -> str:
    """Return existing elements as an ``<svg>`` element, as :func:`svg_element` does.

    `body` has the elements, `size` is the width and the height in points.
    """
    width, height = (f"{length:g}" for length in size)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}"'
    )
    return f"{head} {_alternative(name, heading, words)}\n{''.join(body)}</svg>\n"


def _alternative(name: str, heading: str, words: str) -> str:
    """Return the end of the first tag, the text alternative, and the style sheet of a drawing.

    The alternative is the title `heading` and the description `words`; their ids begin with `name`.
    """
    title, described = f"{name}-title", f"{name}-words"
    return (
        f'role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n <style>{_HALO} {STYLE}</style>'
    )
