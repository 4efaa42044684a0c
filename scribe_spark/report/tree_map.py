"""A group's tree over the map of the network.

A small tree is drawn node by node at the nodes' routers.  In a large one, all edges of one depth
between the same two places (domains, or routers if there are none) are one line, and the dot of a
place shows the number of edges inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.report.group_tree import GroupTree
from scribe_spark.report.readouts import Spot, Words, coordinate, spot_svg
from scribe_spark.report.style import DEPTHS, depth_style
from scribe_spark.report.text import as_text
from scribe_spark.report.tree_marks import (
    LEGEND,
    Marks,
    depth_name,
    legend,
    node_by_node,
    star,
)

#: The greatest tree that is drawn node by node; larger ones are drawn by places.
MOST_NODES = 150
#: The greatest number of lines between places at one depth.
MOST_LINES = 400

_MARGIN = 12.0
_LAND, _TRANSIT, _LINK = "#edf1f4", "#bcd3ea", "#d0d8df"


def has_map(routers: pd.DataFrame) -> bool:
    """Return True if all routers of a topology have coordinates."""
    return len(routers) > 0 and bool(routers[["x", "y"]].notna().all(axis=None))


@dataclass(frozen=True)
class TreeDrawing:
    """A drawn tree."""

    size: tuple[float, float]
    body: list[str]  # its elements
    words: str  # a description
    note: str  # the parts that the drawing leaves out


class _Map:
    """The map: coordinates by router and domain, in the units of the drawing."""

    def __init__(self, routers: pd.DataFrame, side: float) -> None:
        self.routers = routers.set_index("router").sort_index()
        x, y = (self.routers[name].to_numpy(dtype=float) for name in ("x", "y"))
        span = max(np.ptp(x), np.ptp(y)) or 1.0
        scale = (side - 2 * _MARGIN) / span
        self.height = np.ptp(y) * scale + 2 * _MARGIN
        self.x = _MARGIN + (x - x.min()) * scale
        self.y = self.height - _MARGIN - (y - y.min()) * scale
        domain = self.routers["domain"].to_numpy(dtype=float, na_value=np.nan)
        self.has_domains = bool(np.isfinite(domain).all())
        number = domain.astype(np.int64) if self.has_domains else self.routers.index.to_numpy()
        self.place_numbers, self.place = np.unique(number, return_inverse=True)
        counts = np.bincount(self.place)
        self.place_x = np.bincount(self.place, self.x) / counts
        self.place_y = np.bincount(self.place, self.y) / counts
        apart = np.hypot(self.x - self.place_x[self.place], self.y - self.place_y[self.place])
        self.place_r = np.bincount(self.place, apart) / counts
        self.is_transit = np.zeros(len(counts), dtype=bool)
        self.is_transit[self.place[(self.routers["kind"] == "transit").to_numpy()]] = True

    def index(self, router: np.ndarray) -> np.ndarray:
        """The rows of routers."""
        return index_sorted(self.routers.index.to_numpy(), router)

    def place_name(self, place: int) -> str:
        """Return a name such as ``stub domain 12`` or ``router 7``."""
        number = as_text(int(self.place_numbers[place]))
        if not self.has_domains:
            return f"router {number}"
        return f"{'transit' if self.is_transit[place] else 'stub'} domain {number}"

    def background(self, links: pd.DataFrame) -> Iterator[str]:
        """Draw the domains, and the links between transit routers (all links if there are none)."""
        if self.has_domains:
            for place in np.flatnonzero(~self.is_transit).tolist():
                at = (
                    f'cx="{coordinate(self.place_x[place])}" cy="{coordinate(self.place_y[place])}"'
                )
                radius = coordinate(self.place_r[place] * 1.25 + 2)
                yield f'<circle {at} r="{radius}" fill="{_LAND}"/>\n'
            for router in np.flatnonzero(self.is_transit[self.place]).tolist():
                at = f'cx="{coordinate(self.x[router])}" cy="{coordinate(self.y[router])}"'
                yield f'<circle {at} r="4.5" fill="{_TRANSIT}"/>\n'
        ends = [self.index(links[name].to_numpy()) for name in ("src", "dst")]
        core = self.is_transit[self.place[ends[0]]] & self.is_transit[self.place[ends[1]]]
        kept = (core if self.is_transit.any() else ~core) & (ends[0] < ends[1])
        path = "".join(
            f"M{coordinate(self.x[a])} {coordinate(self.y[a])}"
            f"L{coordinate(self.x[b])} {coordinate(self.y[b])}"
            for a, b in zip(ends[0][kept].tolist(), ends[1][kept].tolist(), strict=True)
        )
        if path:
            width = 0.35 if self.has_domains else 0.7
            yield f'<path d="{path}" fill="none" stroke="{_LINK}" stroke-width="{width}"/>\n'


def map_of(tree: GroupTree, routers: pd.DataFrame, links: pd.DataFrame, side: float) -> TreeDrawing:
    """Draw a tree over the map."""
    chart = _Map(routers, side)
    draw = _nodes if len(tree) <= MOST_NODES else _places
    width, height = side + LEGEND, max(chart.height, 150.0)
    (drawn, spots, keys), note = draw(tree, chart, (width, height))
    keys += _ground(chart)
    body = [*chart.background(links), *drawn, *legend(tree, side, keys), *spots]
    return TreeDrawing((width, height), body, _lengths(tree, chart), note)


def _nodes(tree: GroupTree, chart: _Map, size: tuple[float, float]) -> tuple[Marks, str]:
    """Draw a small tree node by node."""
    at_router = chart.index(tree.router)

    def where(index: int) -> str:
        router = f"router {tree.router[index]}"
        place = chart.place_name(int(chart.place[at_router[index]]))
        return f"{router}, {place}" if chart.has_domains else router

    marks = node_by_node(tree, *_scattered(tree, chart), where, size)
    return marks, "Nodes of the same router stand around the place of the router."


def _places(tree: GroupTree, chart: _Map, size: tuple[float, float]) -> tuple[Marks, str]:
    """Draw a large tree by places."""
    # 1. A line for all edges of one depth between two places
    below, drawn = tree.below, list[str]()
    at = chart.place[chart.index(tree.router)]
    level = np.minimum(tree.depth[below], len(DEPTHS))
    up, down = at[tree.parent[below]], at[below]
    leaves = up != down
    places = len(chart.place_numbers)
    pairs = ((level * places + up) * places + down)[leaves]
    lines, count = np.unique(pairs, return_counts=True)
    of_level, cut = lines // places**2, []
    for depth in range(len(DEPTHS), 0, -1):
        mine = np.flatnonzero(of_level == depth)
        shown, (colour, width) = mine, depth_style(depth)
        if len(mine) > MOST_LINES:
            shown = mine[np.linspace(0, len(mine) - 1, MOST_LINES).round().astype(int)]
            cut.append(f"{len(shown):,} of {len(mine):,} at depth {depth_name(tree, depth)}")
        for key, edges in zip(lines[shown].tolist(), count[shown].tolist(), strict=True):
            a, b = divmod(key % places**2, places)
            thick = width * (0.45 + 0.25 * min(np.log2(edges), 6))
            drawn.append(
                f'<path d="M{coordinate(chart.place_x[a])} {coordinate(chart.place_y[a])}'
                f'L{coordinate(chart.place_x[b])} {coordinate(chart.place_y[b])}" '
                f'stroke="{colour}" stroke-width="{thick:.2g}" stroke-opacity=".75"/>\n'
            )
    # 2. A dot for each place, by its nodes
    nodes = np.bincount(at, minlength=places)
    inside = np.bincount(down[~leaves], minlength=places)
    forwarding = np.bincount(at[tree.children > 0], minlength=places)
    largest = max(int(nodes.max()), 1)
    spots = []
    for place in np.flatnonzero(nodes).tolist():
        x, y = chart.place_x[place], chart.place_y[place]
        where = f'cx="{coordinate(x)}" cy="{coordinate(y)}"'
        radius = 0.6 + 1.8 * np.sqrt(nodes[place] / largest)
        drawn.append(
            f'<circle {where} r="{radius:.2g}" fill="#4a545e" stroke="#fff" stroke-width=".3"/>\n'
        )
        words: list[Words] = [
            (chart.place_name(place), ""),
            (f"{nodes[place]:,} nodes of the tree", ""),
            (f"{forwarding[place]:,} of them have children", ""),
            (f"{inside[place]:,} edges inside", ""),
        ]
        area = f'circle {where} r="4.5"'
        spots.append(spot_svg(Spot(area, x + 4, y + 6, words), *size))
    root = at[np.flatnonzero(tree.parent < 0)[0]]
    drawn.append(star(chart.place_x[root], chart.place_y[root]))
    name = "domain" if chart.has_domains else "router"
    largest_words = f"{largest:,} node" + "s" * (largest > 1)
    mark = '<circle cx="0" cy="0" r="3.2" fill="#4a545e"/>'
    keys = [(star(0, 0, 3.2), f"{name} of the root"), (mark, largest_words)]
    note = (
        f"A line stands for all edges between two {name}s at one depth, and is thicker where there "
        f"are more; a dot stands for the nodes of a {name}. Not drawn: {int((~leaves).sum()):,} "
        f"edges inside a {name}."
    )
    if cut:
        note += f" The figure shows evenly chosen lines: {', '.join(reversed(cut))}."
    return (drawn, spots, keys), note


def _scattered(tree: GroupTree, chart: _Map) -> tuple[np.ndarray, np.ndarray]:
    """Place nodes at their router; nodes of one router are in a ring around it."""
    at = chart.index(tree.router)
    x, y = chart.x[at].copy(), chart.y[at].copy()
    for router in np.unique(at).tolist():
        there = np.flatnonzero(at == router)
        if len(there) > 1:
            angle = 2 * np.pi * np.arange(len(there)) / len(there)
            radius = 1.8 + 0.55 * len(there)
            x[there] += radius * np.cos(angle)
            y[there] += radius * np.sin(angle)
    return x, y


def _ground(chart: _Map) -> list[tuple[str, str]]:
    """Return the map's part of the legend."""
    link = f'<path d="M-4 0H4" stroke="{_LINK}" stroke-width="1"/>'
    if not chart.has_domains:
        return [(link, "link")]
    land = f'<circle cx="0" cy="0" r="3.2" fill="{_LAND}" stroke="{_LINK}" stroke-width=".4"/>'
    keys = [(land, "stub domain")]
    if chart.is_transit.any():
        router = f'<circle cx="0" cy="0" r="3.2" fill="{_TRANSIT}"/>'
        keys += [(router, "transit router"), (link, "link between them")]
    return keys


def _lengths(tree: GroupTree, chart: _Map) -> str:
    """Return the mean length of the edges on the map, by depth, in a sentence."""
    at, below = chart.index(tree.router), tree.below
    up = at[tree.parent[below]]
    side = max(np.ptp(chart.x), np.ptp(chart.y)) or 1.0
    apart = np.hypot(chart.x[up] - chart.x[at[below]], chart.y[up] - chart.y[at[below]])
    length = 100 * apart / side
    level = np.minimum(tree.depth[below], len(DEPTHS))
    means = [
        f"{length[level == depth].mean():.2g}\N{NO-BREAK SPACE}% at depth {depth_name(tree, depth)}"
        for depth in range(1, int(level.max(initial=0)) + 1)
    ]
    return f"Mean length of an edge, in per cent of the map: {', '.join(means)}."
