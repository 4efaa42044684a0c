"""Figures of matplotlib as <svg> elements, PNG and tables, with values under the pointer."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.report.style import RC, cut, draw_minor_ticks

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

_SIZE, _LEADING, _PADDING = 6.5, 8.4, 3.0
#: The assumed width of a character, in font sizes; a box may be too wide.
_CHARACTER = 0.59
_SWATCH = 8.0
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


def spot_svg(spot: Spot, width: float, height: float) -> str:
    """Return a spot, in a drawing of this width and height, as an SVG element."""
    told = [(words, "") if isinstance(words, str) else words for words in spot.words]
    lines = [(cut(words, _MOST_CHARACTERS), colour) for words, colour in told]
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
    return (
        f'<g class="spot" tabindex="-1"><rect {_box(*spot.area)} class="area"/>'
        f'<g class="told" visibility="hidden">{spot.marks}<rect {_box(x, y, wide, high)} rx="1.5"/>'
        f"{swatches}<text>{text}</text></g></g>\n"
    )


def coordinate(value: float) -> str:
    """Return a coordinate rounded to a tenth of a point, as text."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _box(x: float, y: float, width: float, height: float) -> str:
    x, y, width, height = map(coordinate, (x, y, width, height))  # type: ignore[assignment]
    return f'x="{x}" y="{y}" width="{width}" height="{height}"'


class Drawn(str):
    """An ``<svg>`` element of a matplotlib figure, which can also be saved in other formats."""

    figure: Figure
    values: pd.DataFrame | None  # in the figure

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
        assert self.values is not None
        return self.values.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page, with its title, caption and words."""

    name: str  # of its files
    title: str
    drawing: str  # a `Drawn`
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
        """The endings of the figure's files."""
        return tuple(name.rpartition(".")[2] for name in _files(self.name, self.drawing))


def figure_files(figures: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the content of every file of figures (name -> drawing): SVG, PNG, CSV."""
    for name, drawing in figures.items():
        yield from ((file, make()) for file, make in _files(name, drawing).items())


def _files(name: str, drawing: str) -> dict[str, Callable[[], bytes]]:
    files: dict[str, Callable[[], bytes]] = {f"{name}.svg": drawing.encode}
    if isinstance(drawing, Drawn):
        files[f"{name}.png"] = drawing.as_png
        if drawing.values is not None:
            files[f"{name}.csv"] = drawing.as_csv
    return files


@contextmanager
def drawing_style() -> Iterator[None]:
    """Return a context manager in which the style of all pages replaces the user's matplotlibrc."""
    from matplotlib import style

    with style.context(["default", RC]):
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Return a context manager with an empty figure for SVG in the pages' style, in inches."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with drawing_style():
        figure = Figure(figsize=(width, height), dpi=72)  # as of SVG
        FigureCanvasSVG(figure)
        yield figure


def svg_element(
    figure: Figure,
    name: str,
    heading: str,
    words: str,
    spots: Iterable[Spot] = (),
    values: pd.DataFrame | None = None,
) -> Drawn:
    """Return the figure as an ``<svg>`` element, for a file or for a page with several.

    All ids begin with `name`; `heading` and `words` are the text alternative. `spots` may be a
    generator, which runs after matplotlib has placed everything.
    """
    draw_minor_ticks(figure)
    file = io.StringIO()
    nothing = {key: None for key in ("Date", "Creator", "Format", "Type")}
    figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    size = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    every = "".join(spot_svg(spot, *size) for spot in spots)
    head, body = text.removesuffix("</svg>\n").split(">", 1)
    title, described = f"{name}-title", f"{name}-words"
    drawn = Drawn(
        f'{head} role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n'
        f" <style>{STYLE}</style>{body}{every}</svg>\n"
    )
    drawn.figure, drawn.values = figure, values
    return drawn
