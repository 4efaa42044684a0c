"""matplotlib figures as ``<svg>`` elements, as PNG and as tables.

Equal data give equal bytes: ids are salted with a constant and no date is written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.report.axes import draw_minor_ticks
from scribe_spark.report.readouts import STYLE, Readout, Spot, spot_svg
from scribe_spark.report.style import RC

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.figure import Figure

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
        """Return the element of a figure."""
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
    """A figure of a page."""

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
        """The drawing as markup."""
        from markupsafe import Markup

        return Markup(str(self.drawing))

    @property
    def formats(self) -> tuple[str, ...]:
        """The endings of its files."""
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
    """Replace the user's matplotlibrc by the style of all pages."""
    from matplotlib import style

    with style.context(["default", RC]):
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure (sizes in inches) in the style of all pages, drawn as SVG."""
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
    """Return the figure as an ``<svg>`` element, for a file or for a page with several."""
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
    """Return existing elements as an ``<svg>`` element, as :func:`svg_element` does."""
    width, height = (f"{length:g}" for length in size)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}"'
    )
    return f"{head} {_alternative(name, heading, words)}\n{''.join(body)}</svg>\n"


def _alternative(name: str, heading: str, words: str) -> str:
    """Return the end of the first tag, the text alternative, and the style sheet."""
    title, described = f"{name}-title", f"{name}-words"
    return (
        f'role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n <style>{_HALO} {STYLE}</style>'
    )
