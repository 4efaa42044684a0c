"""matplotlib figures as ``<svg>`` elements.

Equal data give equal bytes: ids are salted with a constant and no date is written.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.figure import Figure

__all__ = ["new_figure", "svg_element"]

#: The words of a mark stay legible where a curve runs under them.
_HALO = 'g[id*="-mark-"] text { paint-order: stroke; stroke: #fff; stroke-width: 2px; }'


def new_figure(width: float, height: float) -> Figure:
    """An empty figure (sizes in inches) that is drawn as SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    return figure


def svg_element(figure: Figure, name: str, heading: str, words: str) -> str:
    """The figure as an ``<svg>`` element that can be a file or one of several in a page.

    Parameters
    ----------
    figure : Figure
    name : str
        Prefix of all ids, so that those of two figures never meet.
    heading, words : str
        Title and description: the text alternative.
    """
    file = io.StringIO()
    nothing = {key: None for key in ("Date", "Creator", "Format", "Type")}
    figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    title, described = f"{name}-title", f"{name}-words"
    head, body = text.split(">", 1)
    return (
        f'{head} role="img" aria-labelledby="{title} {described}">\n'
        f' <title id="{title}">{escape(heading)}</title>\n'
        f' <desc id="{described}">{escape(words)}</desc>\n <style>{_HALO}</style>{body}'
    )
