"""Drawings of nodes and edges: marks, lines and words at places in points, with a legend."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from scribe_spark.report.svg import (
    PageFigure,
    Spot,
    Words,
    coordinate,
    new_figure,
    svg_element,
)

if TYPE_CHECKING:  # matplotlib is slow to import: only drawing needs it
    from matplotlib.figure import Figure

INK, GREY = "#1c2024", "#9aa4ad"
ROOT, LAND, TRANSIT, LINK = "#f0c808", "#edf1f4", "#bcd3ea", "#d0d8df"
ORPHAN, NEW = "#d55e00", "#0072b2"

#: Width of a legend, and the size of words.
LEGEND, _SIZE = 108.0, 7.0
#: The assumed width of a character of words.
CHARACTER = 4.4

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
        self.width, self.height = (72 * float(inches) for inches in figure.get_size_inches())
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, self.width), ylim=(self.height, 0))
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
        defaults: dict[str, Any] = {"fontsize": _SIZE, "color": INK}
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
            elif isinstance(mark, str):
                known = mark in MARKS
                look = {} if known else {"facecolor": mark, "width": 5.2}
                self.marks(mark if known else "member", x, y - 2.5, **look)
                if mark in ("orphan", "new"):  # around the mark of the node
                    self.marks("forwarder", x, y - 2.5)
            else:
                self.lines([[(x - 5, y - 2.5), (x + 5, y - 2.5)]], **mark)
            self.text(x + 9, y, words)
            x, y = (x + wide, y) if right else (x, y + 12)


@contextmanager
def canvas(width: float, height: float) -> Iterator[Canvas]:
    """Return a context manager with an empty drawing of a size in points."""
    with new_figure(width / 72, height / 72) as figure:
        yield Canvas(figure)


def finished(
    drawing: Canvas,
    name: str,
    title: str,
    words: str,
    caption: str = "",
    tables: tuple[str, ...] = (),
    heading: str = "",
) -> PageFigure:
    """Return a drawing as the figure of a page; its text alternative is `heading` or `title`."""
    svg = svg_element(drawing.figure, name, heading or title, words, drawing.spots)
    return PageFigure(name, title, svg, caption, words, tables=tables)
