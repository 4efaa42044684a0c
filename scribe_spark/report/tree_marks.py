"""The common part of drawings of trees: marks of nodes, and the legend with edges by depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape

import numpy as np

from scribe_spark.report.group_tree import GroupTree
from scribe_spark.report.readouts import Spot, Words, coordinate, spot_svg
from scribe_spark.report.style import DEPTHS, depth_style

INK = "#1c2024"

#: Width of the legend.
LEGEND = 108.0

#: The style of words in a drawing.
TEXT = f'font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="7" fill="{INK}"'


def dot(x: float, y: float, member: bool) -> str:
    """Return the mark of a member, or of a forwarder."""
    at = f'cx="{coordinate(x)}" cy="{coordinate(y)}"'
    look = f'fill="{INK}"' if member else f'fill="#fff" stroke="{INK}" stroke-width=".7"'
    return f'<circle {at} r="{1.9 if member else 1.6}" {look}/>\n'


def star(x: float, y: float, radius: float = 4.2) -> str:
    """Return the mark of the root."""
    angle = np.pi * np.arange(10) / 5
    reach = np.where(np.arange(10) % 2, 0.45, 1.0) * radius
    points = " ".join(
        f"{coordinate(a)},{coordinate(b)}"
        for a, b in zip(x + reach * np.sin(angle), y - reach * np.cos(angle), strict=True)
    )
    return f'<polygon points="{points}" fill="#f0c808" stroke="{INK}" stroke-width=".7"/>\n'


def edge(x: tuple[float, float], y: tuple[float, float], depth: int) -> str:
    """Return the edge from a parent to a node of a depth."""
    colour, width = depth_style(depth)
    path = f"M{coordinate(x[0])} {coordinate(y[0])}L{coordinate(x[1])} {coordinate(y[1])}"
    return f'<path d="{path}" stroke="{colour}" stroke-width="{width:g}"/>\n'


def node_words(tree: GroupTree, index: int, children: int) -> list[Words]:
    """Describe a node."""
    node, is_root = tree.node[index], tree.parent[index] < 0
    return [
        (f"node {node}, the root" if is_root else f"node {node}", ""),
        (f"{'member' if tree.member[index] else 'forwarder'}, depth {tree.depth[index]}", ""),
        (f"{children:,} {'child' if children == 1 else 'children'}", ""),
    ]


#: The marks of a drawing, the spots over all of them, and the entries of the legend.
Marks = tuple[list[str], list[str], list[tuple[str, str]]]


def node_by_node(
    tree: GroupTree,
    x: np.ndarray,
    y: np.ndarray,
    where: Callable[[int], str],
    size: tuple[float, float],
) -> Marks:
    """Draw every node and every edge of a tree; ``where(index)`` describes a node's position.

    While the pointer is at a node, the node's path to the root is visible.
    """
    drawn, spots, children = [], [], tree.children
    for index in sorted(tree.below.tolist(), key=lambda i: -tree.depth[i]):
        up = tree.parent[index]
        drawn.append(edge((x[up], x[index]), (y[up], y[index]), int(tree.depth[index])))
    for index in np.argsort(tree.depth == 0, kind="stable").tolist():
        is_root, path = tree.parent[index] < 0, tree.path(index)
        here = float(x[index]), float(y[index])
        drawn.append(star(*here) if is_root else dot(*here, bool(tree.member[index])))
        way = "L".join(f"{coordinate(x[i])} {coordinate(y[i])}" for i in path)
        marks = "" if is_root else f'<path d="M{way}" style="stroke-width:1.6"/>'
        words = [*node_words(tree, index, int(children[index])), (where(index), "")]
        area = f'circle cx="{coordinate(here[0])}" cy="{coordinate(here[1])}" r="4.5"'
        spots.append(spot_svg(Spot(area, here[0] + 4, here[1] + 6, words, marks), *size))
    keys = [(star(0, 0, 3.2), "root"), (dot(0, 0, True), "member")]
    if not tree.member.all():
        keys.append((dot(0, 0, False), "forwarder"))
    return drawn, spots, keys


def legend(tree: GroupTree, left: float, keys: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return the legend: the edges by depth as bars, and the meaning of the marks."""
    x, y = left + 8, 16.0
    yield f'<g {TEXT}>\n<text x="{coordinate(x)}" y="{y:g}">edges by depth</text>\n'
    counts = np.bincount(np.minimum(tree.depth[tree.below], len(DEPTHS)), minlength=1)
    most = max(int(counts.max()), 1)
    for depth in range(1, len(counts)):
        y += 11
        colour, _ = depth_style(depth)
        length = max(34.0 * counts[depth] / most, 1.2)
        yield (
            f'<text x="{coordinate(x)}" y="{y:g}">{depth_name(tree, depth)}</text>'
            f'<rect x="{coordinate(x + 20)}" y="{y - 5.5:g}" width="{coordinate(length)}" '
            f'height="6" fill="{colour}"/><text x="{coordinate(x + 24 + length)}" y="{y:g}">'
            f"{counts[depth]:,}</text>\n"
        )
    y += 8
    for mark, words in keys:
        y += 11
        yield (
            f'<g transform="translate({coordinate(x + 5)} {y - 2.5:g})">{mark.strip()}</g>'
            f'<text x="{coordinate(x + 14)}" y="{y:g}">{escape(words)}</text>\n'
        )
    yield "</g>\n"


def depth_name(tree: GroupTree, depth: int) -> str:
    """Return the name of a depth, such as ``3``, or ``5-7`` for the last one with deeper nodes."""
    deepest = int(tree.depth.max())
    return f"{depth}\N{EN DASH}{deepest}" if depth == len(DEPTHS) < deepest else str(depth)
