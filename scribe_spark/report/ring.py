"""A picture of the ring of keys: its nodes, the route of a message, and links between nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import cycle, pairwise

import numpy as np
import pandas as pd

from scribe_spark.report.style import depth_style
from scribe_spark.report.svg import coordinate, element, path, plain_svg
from scribe_spark.report.trees import INK, LEGEND, TEXT, star

#: The side of the drawing without its legend, and the radius of the ring.
_SIDE, _RADIUS = 212.0, 90.0
_GREY, _PALE, _LINE = "#9aa4ad", "#c9d0d6", "#4a545e"
#: The colours of marked nodes.
_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
#: The number of hexadecimal digits of a nodeId that a picture shows.
_DIGITS = 4

#: A point of the drawing.
Point = tuple[float, float]
#: The elements of a part of the drawing, and its entries in the legend: mark and words.
Part = tuple[list[str], list[tuple[str, str]]]
#: The points of marks in the legend.
_HERE: Point = (0.0, 0.0)
_SHORT: tuple[Point, Point] = ((-5.0, 0.0), (5.0, 0.0))


def ring_picture(
    name: str,
    heading: str,
    nodes: pd.DataFrame,
    marked: Mapping[str, Iterable[int]] | None = None,
    *,
    links: pd.DataFrame | None = None,
    route: Sequence[int] = (),
    key: int | None = None,
    source: int | None = None,
) -> str:
    """Draw nodes on the ring of keys; key 0 is at the top, and keys grow clockwise.

    Parameters
    ----------
    name : str
        A name for the ids in the drawing.
    heading : str
        The title.
    nodes : pandas.DataFrame
        ``node, id_hi``: the nodes, and the first halves of their nodeIds.
    marked : mapping of str to iterable of int, optional
        Words of the legend -> nodes that have a colour.
    links : pandas.DataFrame, optional
        ``sender, receiver, first``: straight lines between nodes; those with ``first`` False are
        thin.
    route : sequence of int, optional
        Nodes that arrows connect, in order; the legend has the first digits of their nodeIds.
    key : int, optional
        The first half of a key, which is marked on the ring.
    source : int, optional
        The node with a star.

    Returns
    -------
    str
        The drawing as an ``<svg>`` element.
    """
    halves = dict(zip(nodes["node"].tolist(), nodes["id_hi"].tolist(), strict=True))
    at = {node: _point(_turn(half)) for node, half in halves.items()}
    parts: list[Part] = [([*_ring()], [])]
    if links is not None:
        parts.append(_links(links, at))
    dots = [_dot(point, _GREY, 1.4) for point in at.values()]
    parts.append((dots, [(_dot(_HERE, _GREY, 1.4), "node")]))
    for (words, some), colour in zip((marked or {}).items(), cycle(_COLOURS), strict=False):
        parts.append(([_dot(at[node], colour) for node in some], [(_dot(_HERE, colour), words)]))
    if key is not None:
        parts.append(([_ring_mark(_point(_turn(key)))], [(_ring_mark(_HERE), _hex("key", key))]))
    if route:
        parts.append(_route([at[node] for node in route], [halves[node] for node in route]))
    if source is not None:
        parts.append(([star(*at[source])], [(star(0, 0, 3.2), "source")]))
    keys = [one for _, some in parts for one in some]
    words = f"{len(nodes):,} nodes on the ring of keys; {', '.join(words for _, words in keys)}."
    body = [*(mark for drawn, _ in parts for mark in drawn), *_legend(keys)]
    return plain_svg(name, heading, words, (_SIDE + LEGEND, _SIDE), body)


def _turn(half: int) -> float:
    """Return the angle of a key on the ring in turns, [0, 1), from its upper half."""
    return half % 2**64 / 2.0**64


def _hex(words: str, half: int) -> str:
    """Return `words` and the first digits of the key with the upper half `half`."""
    return f"{words} {half % 2**64:016x}"[: len(words) + 1 + _DIGITS] + "..."


def _point(turn: float, radius: float = _RADIUS) -> Point:
    """Return the point on a circle at an angle in turns, clockwise from the top."""
    angle = 2 * np.pi * turn
    return _SIDE / 2 + radius * float(np.sin(angle)), _SIDE / 2 - radius * float(np.cos(angle))


def _ring() -> Iterator[str]:
    """Yield the circle, and the first digit of the keys in each sixteenth, as elements."""
    middle, look = _SIDE / 2, {"fill": "none", "stroke": _PALE, "stroke_width": ".6"}
    yield element("circle", cx=middle, cy=middle, r=_RADIUS, **look)
    yield f'<g {TEXT} text-anchor="middle">\n'
    for digit in range(16):
        ends = (_point(digit / 16, _RADIUS + far) for far in (3.5, 8.0))
        yield element("path", d=path(*ends), stroke=_PALE, stroke_width=".6")
        x, y = _point((digit + 0.5) / 16, _RADIUS + 7)
        place = f'x="{coordinate(x)}" y="{coordinate(y + 2.5)}" fill="{_GREY}"'
        yield f"<text {place}>{digit:x}</text>\n"
    yield "</g>\n"


def _dot(at: Point, colour: str, radius: float = 2.6) -> str:
    return element("circle", cx=float(at[0]), cy=float(at[1]), r=radius, fill=colour)


def _ring_mark(at: Point) -> str:
    """Return the mark of a key on the ring, as an element."""
    look = {"fill": "none", "stroke": _COLOURS[0], "stroke_width": "1.2"}
    return element("circle", cx=float(at[0]), cy=float(at[1]), r=4.6, **look)


def _line(here: Point, there: Point, colour: str, width: str) -> str:
    return element("path", d=path(here, there), stroke=colour, stroke_width=width)


def _links(links: pd.DataFrame, at: Mapping[int, Point]) -> Part:
    """Return the elements that draw links, the thin ones first."""
    looks = {False: (_PALE, ".5"), True: (_LINE, "1.2")}
    rows = links.sort_values(["first", "sender", "receiver"])[["sender", "receiver", "first"]]
    drawn = [_line(at[a], at[b], *looks[bool(first)]) for a, b, first in rows.to_numpy().tolist()]
    words = {True: "first copy of a node", False: "duplicate"}
    return drawn, [(_line(*_SHORT, *looks[first]), words[first]) for first in words]


def _route(points: Sequence[Point], halves: Sequence[int]) -> Part:
    """Return the elements that draw the hops of a message.

    `points` are the places of the nodes on its route, `halves` the first halves of their nodeIds.
    """
    drawn = [_dot(point, INK) for point in points]
    keys = [(_dot(_HERE, INK), _hex("start", halves[0]))]
    for hop, (here, there) in enumerate(pairwise(points)):
        colour, _ = depth_style(hop + 1)
        drawn += _arrow(here, there, colour)
        words = _hex(f"hop {hop + 1}, to", halves[hop + 1])
        keys.append((_line(*_SHORT, colour, "1.6"), words))
    return drawn, keys


def _arrow(here: Point, there: Point, colour: str) -> Iterator[str]:
    """Yield the elements of an arrow that ends before the mark of a node."""
    along = np.subtract(there, here)
    along = along / max(float(np.hypot(*along)), 1e-9)
    tip = np.subtract(there, 3.2 * along)
    foot, side = tip - 6 * along, 2.4 * np.array([-along[1], along[0]])
    yield _line(here, (float(foot[0]), float(foot[1])), colour, "1.6")
    corners = " ".join(
        f"{coordinate(x)},{coordinate(y)}" for x, y in (tip, foot + side, foot - side)
    )
    yield element("polygon", points=corners, fill=colour)


def _legend(keys: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"<g {TEXT}>\n"
    for number, (mark, words) in enumerate(keys):
        y = 20.0 + 12 * number
        yield f'<g transform="translate({_SIDE + 6:g} {y:g})">{mark.strip()}</g>'
        yield f'<text x="{_SIDE + 15:g}" y="{y + 2.5:g}">{escape(words)}</text>\n'
    yield "</g>\n"
