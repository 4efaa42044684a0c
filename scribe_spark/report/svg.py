"""matplotlib figures as ``<svg>`` elements.

Equal data give equal bytes: ids are salted with a constant and no date is written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from scribe_spark.report.readouts import STYLE, Readout, spots_of

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.figure import Figure

#: The words of a mark stay legible where a curve runs under them.
_HALO = 'g[id*="-mark-"] text { paint-order: stroke; stroke: #fff; stroke-width: 2px; }'


@dataclass(frozen=True)
class OwnFigure:
    """A drawing that is no figure of the paper: its SVG, and its content in words."""

    name: str
    title: str
    caption: str
    svg: str
    words: str


def new_figure(width: float, height: float) -> Figure:
    """An empty figure (sizes in inches) that is drawn as SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    return figure


def svg_element(
    figure: Figure, name: str, heading: str, words: str, readouts: Sequence[Readout] = ()
) -> str:
    """The figure as an ``<svg>`` element that can be a file or one of several in a page.

    Parameters
    ----------
    figure : Figure
    name : str
        Prefix of all ids, so that those of two figures never meet.
    heading, words : str
        Title and description: the text alternative.
    readouts : sequence of Readout
        Values that are told under the pointer; of two over one another the last is seen.
    """
    file = io.StringIO()
    nothing = {key: None for key in ("Date", "Creator", "Format", "Type")}
    figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    spots = "".join(spot for one in readouts for spot in spots_of(one, figure))
    head, body = text.removesuffix("</svg>\n").split(">", 1)
    return f"{head} {_alternative(name, heading, words)}{body}{spots}</svg>\n"


def plain_svg(
    name: str, heading: str, words: str, size: tuple[float, float], body: Iterable[str]
) -> str:
    """Elements that are there already as an ``<svg>`` element, as :func:`svg_element`.

    Parameters
    ----------
    size : (float, float)
        Width and height in points.
    """
    width, height = (f"{length:g}" for length in size)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
        f'viewBox="0 0 {width} {height}"'
    )
    return f"{head} {_alternative(name, heading, words)}\n{''.join(body)}</svg>\n"


def _alternative(name: str, heading: str, words: str) -> str:
    """The end of the first tag, the text alternative, and the style sheet."""
    title, described = f"{name}-title", f"{name}-words"
    return (
        f'role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n <style>{_HALO} {STYLE}</style>'
    )
