"""Drawings as <svg> elements, PNG and tables; values under the pointer; nodes and edges."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from scribe_spark.report.style import RC, cut

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    import pandas as pd
    from matplotlib.figure import Figure

#: The style sheet of every drawing; sizes are in its own units. A white outline keeps words legible
#: over a curve.
STYLE = (
    'g[id*="-mark-"] text { paint-order: stroke; stroke: #fff; stroke-width: 2px; }'
    " .spot .told { visibility: hidden; pointer-events: none; }"
    " .spot:hover .told, .spot:focus .told { visibility: visible; }"
    " .spot { outline: none; }"
    " .spot .area { fill: #000; fill-opacity: 0; stroke: none; }"
    " .told rect { fill: #fff; fill-opacity: .94; stroke: #59636e; stroke-width: .5; }"
    " .told path { fill: none; stroke: #333; stroke-width: .6; }"
    " .told circle { stroke: #fff; stroke-width: .8; }"
    ' .told text { font: 6.5px "DejaVu Sans", Verdana, Arial, sans-serif; fill: #1c2024; }'
)

_SIZE, _LEADING, _PADDING, _SWATCH = 6.5, 8.4, 3.0, 8.0
#: The assumed width of a character, in font sizes; a box may be too wide.
_WIDE = 0.59
#: The greatest number of characters of a line; longer ones are cut.
_MOST_CHARACTERS = 52

#: Dots per inch of a PNG: a drawing is 900 dots wide.
_DOTS = 200

#: A line of words, or words and the colour of their subject.
Words = str | tuple[str, str]


@dataclass(frozen=True)
class Spot:
    """A rectangle of a drawing that shows words under the pointer; lengths are in points."""

    area: tuple[float, float, float, float]  # left, top, width, height
    x: float  # the words are right of `x`, or left of it if there is no space
    y: float
    words: Sequence[Words]  # lines
    marks: str = ""  # elements that are shown with the words

    def svg(self, width: float, height: float) -> str:
        """Return the spot, in a drawing of this width and height, as an SVG element."""
        told = [(words, "") if isinstance(words, str) else words for words in self.words]
        lines = [(cut(words, _MOST_CHARACTERS), colour) for words, colour in told]
        margin = _SWATCH if any(colour for _, colour in lines) else 0.0
        wide = max(len(words) for words, _ in lines) * _SIZE * _WIDE + margin + 2 * _PADDING
        high = len(lines) * _LEADING + 2 * _PADDING - (_LEADING - _SIZE)
        x = self.x + 4 if self.x + 4 + wide <= width else max(0.0, self.x - 4 - wide)
        y = min(max(self.y, 0.5), max(0.5, height - high - 0.5))
        text, swatches = "", ""
        for number, (words, colour) in enumerate(lines):
            base = y + _PADDING + number * _LEADING + _SIZE * 0.82
            at = coordinate(x + _PADDING + margin)
            text += f'<tspan x="{at}" y="{coordinate(base)}">{escape(words)}</tspan>'
            if colour:
                start = f"M{coordinate(x + _PADDING)} {coordinate(base - _SIZE * 0.3)}h5.5"
                swatches += f'<path d="{start}" style="stroke:{escape(colour)};stroke-width:2"/>'
        return (
            f'<g class="spot" tabindex="-1"><rect {_box(*self.area)} class="area"/>'
            f'<g class="told" visibility="hidden">{self.marks}'
            f'<rect {_box(x, y, wide, high)} rx="1.5"/>{swatches}<text>{text}</text></g></g>\n'
        )


def coordinate(value: float) -> str:
    """Return a coordinate rounded to a tenth of a point, as text."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _box(*sides: float) -> str:
    return 'x="{}" y="{}" width="{}" height="{}"'.format(*map(coordinate, sides))


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page, with its title, caption and words."""

    name: str  # of its files
    title: str
    drawing: str  # an ``<svg>`` element
    caption: str = ""
    words: str = ""  # the values in sentences
    unit: str = ""  # behind the heading; empty if the axes name it
    tables: tuple[str, ...] = ()  # of the folder, with the values
    figure: Figure | None = field(default=None, compare=False, repr=False)  # for a PNG
    values: pd.DataFrame | None = field(default=None, compare=False, repr=False)  # for a CSV

    @property
    def svg(self) -> Markup:
        """The drawing as markup, which the template does not escape."""
        return Markup(self.drawing)

    @property
    def files(self) -> dict[str, Callable[[], bytes]]:
        """The figure's files: name -> a function that returns the content."""
        files: dict[str, Callable[[], bytes]] = {"svg": self.drawing.encode}
        files |= {"png": self.as_png} if self.figure is not None else {}
        files |= {"csv": self.as_csv} if self.values is not None else {}
        return {f"{self.name}.{kind}": make for kind, make in files.items()}

    def as_png(self) -> bytes:
        """Return the figure as PNG."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        assert self.figure is not None
        file = io.BytesIO()
        with _drawing_style():
            self.figure.set_dpi(_DOTS)
            canvas = FigureCanvasAgg(self.figure)
            canvas.draw()
            # without the alpha channel, a quickly packed image is as short as a well packed one
            image = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3])
            image.save(file, "PNG", compress_level=1, dpi=(_DOTS, _DOTS))
        return file.getvalue()

    def as_csv(self) -> bytes:
        """Return the values as CSV, to six digits."""
        assert self.values is not None
        return self.values.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()


@contextmanager
def _drawing_style() -> Iterator[None]:
    """Return a context manager in which the style of all pages replaces the user's matplotlibrc."""
    from matplotlib import style

    with style.context(["default", RC]):
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Return a context manager with an empty figure for SVG in the pages' style, in inches."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with _drawing_style():
        figure = Figure(figsize=(width, height), dpi=72)  # as of SVG
        FigureCanvasSVG(figure)
        yield figure


def svg_element(
    figure: Figure, name: str, heading: str, words: str, spots: Iterable[Spot] = ()
) -> str:
    """Return the figure as an ``<svg>`` element, for a file or for a page with several.

    All ids begin with `name`; `heading` and `words` are the text alternative. `spots` may be a
    generator, which runs after matplotlib has placed everything.
    """
    file = io.StringIO()
    nothing = {key: None for key in ("Date", "Creator", "Format", "Type")}
    figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    size = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    every = "".join(spot.svg(*size) for spot in spots)
    head, body = text.removesuffix("</svg>\n").split(">", 1)
    title, described = f"{name}-title", f"{name}-words"
    return (
        f'{head} role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n'
        f" <style>{STYLE}</style>{body}{every}</svg>\n"
    )


# --- marks, lines and words at places in points

INK, GREY = "#1c2024", "#9aa4ad"
ROOT, LAND, TRANSIT, LINK = "#f0c808", "#edf1f4", "#bcd3ea", "#d0d8df"
ORPHAN, NEW = "#d55e00", "#0072b2"

#: Width of a legend, and the assumed width of a character of words.
LEGEND, CHARACTER = 108.0, 4.4

#: The marks: of matplotlib, their width in points, and their look.
_DOT: dict[str, Any] = {"facecolor": INK, "linewidth": 0}
_HOLLOW: dict[str, Any] = {"facecolor": "#fff", "edgecolor": INK, "linewidth": 0.7}
MARKS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "root": ("*", 8.6, {**_HOLLOW, "facecolor": ROOT}),
    "member": ("o", 3.8, _DOT),
    "forwarder": ("o", 3.2, _HOLLOW),
    "member cut off": ("o", 3.8, {**_DOT, "facecolor": GREY}),
    "forwarder cut off": ("o", 3.2, {**_HOLLOW, "edgecolor": GREY}),
    "dead": ("x", 6.4, {"color": "#c1272d", "linewidth": 1.8}),
    "orphan": ("o", 8.8, {**_HOLLOW, "edgecolor": ORPHAN, "linewidth": 1.5}),
    "new": ("o", 8.8, {**_HOLLOW, "edgecolor": NEW, "linewidth": 1.5}),
    "place": ("o", 5.0, {"facecolor": "#4a545e", "edgecolor": "#fff", "linewidth": 0.3}),
    "stub domain": ("o", 6.4, {"facecolor": LAND, "edgecolor": LINK, "linewidth": 0.4}),
    "transit router": ("o", 9.0, {"facecolor": TRANSIT, "linewidth": 0}),
    "bar of the root": ("s", 7.0, {"facecolor": ROOT, "linewidth": 0}),
    "pale bar": ("s", 7.0, {**_DOT, "alpha": 0.3}),
    "node": ("o", 2.8, {**_DOT, "facecolor": GREY}),
    "key": ("o", 9.2, {"facecolor": "none", "edgecolor": ORPHAN, "linewidth": 1.2}),
}

#: An entry of a legend: a name in :data:`MARKS`, a colour of dots, the look of a line, or
#: ``number``; and words.
Key = tuple[str | Mapping[str, Any], str]


class Canvas:
    """A drawing; y grows downwards, and what is drawn later covers what is there."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        width, height = 72 * figure.get_size_inches()
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()
        self.spots: list[Spot] = []
        self._layers = itertools.count(1)

    def lines(self, ends: Any, colour: Any, width: Any, dashes: Any = "-", **look: Any) -> None:
        """Draw lines through points, an array of shape (lines, points, 2).

        Lines of one look become one element; `colour` and `width` may also have one for each line.
        """
        from matplotlib.collections import LineCollection

        ends = np.asarray(ends, dtype=float)
        look |= {"zorder": next(self._layers), "clip_on": False}
        if np.ndim(colour) or np.ndim(width):
            look |= {"colors": colour, "linewidths": width, "linestyles": dashes}
            self.axes.add_collection(LineCollection(ends, **look), autolim=False)
        elif len(ends):
            gaps = np.full((len(ends), 1, 2), np.nan)
            x, y = np.concatenate([ends, gaps], axis=1).reshape(-1, 2).T
            self.axes.plot(x, y, color=colour, linewidth=width, linestyle=dashes, **look)

    def marks(self, kind: str, x: Any, y: Any, **other: Any) -> None:
        """Draw a mark of :data:`MARKS` at each point; `other` may have widths and colours."""
        marker, width, look = MARKS[kind]
        look = look | other | {"marker": marker, "zorder": next(self._layers), "clip_on": False}
        x, y, widths = np.broadcast_arrays(x, y, np.round(look.pop("width", width), 1))
        for one in np.unique(widths):  # marks of one width share the definition of their shape
            self.axes.scatter(x[widths == one], y[widths == one], one**2, **look)

    def text(self, x: float, y: float, words: str, **look: Any) -> None:
        """Write words from `x` on, over the line `y`."""
        defaults: dict[str, Any] = {"fontsize": 7.0, "color": INK}
        self.axes.text(x, y, words, zorder=next(self._layers), **defaults | look)

    def numbers(self, places: Iterable[tuple[float, float, str]], **look: Any) -> None:
        """Write numbers that stay legible over edges: x, y and the number."""
        for number, (x, y, words) in enumerate(places):
            self.text(x, y, words, gid=f"mark-{number}", **look)

    def arrow(self, here: tuple[float, float], there: tuple[float, float], colour: str) -> None:
        """Draw an arrow that ends before the mark of a node."""
        look = {"arrowstyle": "-|>,head_length=3,head_width=1.2", "shrinkA": 0, "shrinkB": 3.2}
        look |= {"color": colour, "linewidth": 1.6, "mutation_scale": 2}
        self.axes.annotate("", there, here, arrowprops=look, zorder=next(self._layers))

    def spot(
        self, x: float, y: float, words: Sequence[Words], way: Iterable[Sequence[float]] = ()
    ) -> None:
        """Show words while the pointer is at a node, and a line through points."""
        points = "L".join(f"{coordinate(a)} {coordinate(b)}" for a, b in way)
        marks = f'<path d="M{points}" style="stroke-width:1.6"/>' if points else ""
        self.spots.append(Spot((x - 4.5, y - 4.5, 9, 9), x + 4, y + 6, words, marks))

    def legend(self, keys: Iterable[Key], x: float, y: float, right: float = 0) -> None:
        """Explain marks and lines, one below the other or, up to `right`, side by side."""
        left = x
        for mark, words in keys:
            wide = 15 + len(words) * CHARACTER + 10
            if right and x + wide > right:
                x, y = left, y + 13
            if mark == "number":
                self.text(x - 4, y, "12")
            elif not isinstance(mark, str):
                self.lines([[(x - 5, y - 2.5), (x + 5, y - 2.5)]], **mark)
            elif mark in MARKS:
                self.marks(mark, x, y - 2.5)
                if mark in ("orphan", "new"):  # around the mark of the node
                    self.marks("forwarder", x, y - 2.5)
            else:
                self.marks("member", x, y - 2.5, facecolor=mark, width=5.2)
            self.text(x + 9, y, words)
            x, y = (x + wide, y) if right else (x, y + 12)

    def finished(
        self, name: str, title: str, words: str, heading: str = "", **more: Any
    ) -> PageFigure:
        """Return the drawing as a figure with `more` fields; its text alternative is `heading`."""
        svg = svg_element(self.figure, name, heading or title, words, self.spots)
        return PageFigure(name, title, svg, words=words, figure=self.figure, **more)


@contextmanager
def canvas(width: float, height: float) -> Iterator[Canvas]:
    """Return a context manager with an empty drawing of a size in points."""
    with new_figure(width / 72, height / 72) as figure:
        yield Canvas(figure)
