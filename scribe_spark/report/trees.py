"""The tree of a group: its layout, and drawings over the map of the network or in layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.report.style import DEPTHS, as_text, depth_style, label_of
from scribe_spark.report.svg import (
    PageFigure,
    Spot,
    coordinate,
    element,
    path,
    plain_svg,
    shape,
    spot_svg,
)
from scribe_spark.rounds.declaration import Picture


@dataclass(frozen=True)
class GroupTree:
    """A group's tree; arrays of shape (n,).

    The edges have levels: the depths of the children or, in a system's picture, the ranks from 1.
    """

    group: int
    size: int  # the number of members
    node: np.ndarray
    parent: np.ndarray  # the index of the parent in `node`, -1 at a root
    depth: np.ndarray  # 0 at a root
    member: np.ndarray
    router: np.ndarray
    picture: Picture | None = None
    rank: np.ndarray | None = None  # in a picture, of the edge to each node
    value: np.ndarray | None = None  # in a picture, a number of each node; NaN: none

    def __len__(self) -> int:
        return len(self.node)

    @property
    def children(self) -> np.ndarray:
        """Return the number of children of each node."""
        return np.bincount(self.parent[self.parent >= 0], minlength=len(self))

    @property
    def below(self) -> np.ndarray:
        """Return the indices of the nodes that have a parent; each stands for an edge."""
        return np.flatnonzero(self.parent >= 0)

    @cached_property
    def _ranks(self) -> np.ndarray:
        return np.unique(self.rank[self.below]) if self.rank is not None else np.empty(0)

    @cached_property
    def level(self) -> np.ndarray:
        """The level of the edge to each node; 0 at a root."""
        if self.rank is None:
            return self.depth
        return np.where(self.parent < 0, 0, np.searchsorted(self._ranks, self.rank) + 1)

    def style(self, level: int) -> tuple[str, float]:
        """Return the colour and the width of the edges of a level; the extremes in a picture."""
        if self.rank is None or len(self._ranks) < 2:
            return depth_style(level)
        last = len(DEPTHS) - 1
        return depth_style(1 + round((level - 1) * last / min(len(self._ranks) - 1, last)))

    def level_name(self, level: int) -> str:
        """Return a level as text: ``3``, ``5-7`` for the last style, or the name of a rank."""
        deepest = int(self.level.max())
        ends = dict.fromkeys([level, deepest] if level == len(DEPTHS) else [level])
        if self.picture is None:
            return "\N{EN DASH}".join(map(str, ends))
        return ", ".join(self.picture.name(int(self._ranks[end - 1])) for end in ends)

    def path(self, index: int) -> list[int]:
        """Return the indices of the nodes from a node up to its root, both included."""
        way = [index]
        while self.parent[way[-1]] >= 0:
            way.append(int(self.parent[way[-1]]))
        return way


def subtree_sizes(tree: GroupTree) -> np.ndarray:
    """Return the number of nodes in each node's subtree, including the node."""
    size = np.ones(len(tree), dtype=np.int64)
    for depth in range(int(tree.depth.max(initial=0)), 0, -1):
        at = np.flatnonzero(tree.depth == depth)
        np.add.at(size, tree.parent[at], size[at])
    return size


def layers(parent: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return horizontal positions of the nodes of a forest: leaves side by side, others above them.

    `parent` has the index of each node's parent (-1: a root); siblings are sorted by `order`.

    Examples
    --------
    >>> layers(np.array([-1, 0, 0, 2, 2]), np.arange(5)).tolist()
    [0.75, 0.0, 1.5, 1.0, 2.0]
    """
    across, leaves = np.zeros(len(parent)), 0
    children: dict[int, list[int]] = {}
    for index in np.argsort(order, kind="stable").tolist():
        children.setdefault(int(parent[index]), []).append(index)
    stack = [(root, False) for root in reversed(children.get(-1, []))]
    while stack:
        index, done = stack.pop()
        below = children.get(index, [])
        if not below:
            across[index], leaves = leaves, leaves + 1
        elif done:
            across[index] = (across[below[0]] + across[below[-1]]) / 2
        else:
            stack.append((index, True))
            stack += [(child, False) for child in reversed(below)]
    return across


INK = "#1c2024"

#: Width of the legend.
LEGEND = 108.0

#: An outline that keeps numbers legible over edges.
HALO = "paint-order:stroke;stroke:#fff;stroke-width:2px"

#: The greatest number of nodes with a number in a picture.
MOST_NUMBERS = 16

#: The style of words in a drawing.
TEXT = f'font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="7" fill="{INK}"'


def dot(x: float, y: float, member: bool) -> str:
    """Return the mark of a node that is a member or, else, a forwarder, as an element."""
    look = {"fill": INK} if member else {"fill": "#fff", "stroke": INK, "stroke_width": ".7"}
    return element("circle", cx=x, cy=y, r=1.9 if member else 1.6, **look)


def star(x: float, y: float, radius: float = 4.2) -> str:
    """Return the mark of the root, as an element."""
    angle = np.pi * np.arange(10) / 5
    reach = np.where(np.arange(10) % 2, 0.45, 1.0) * radius
    corners = zip(x + reach * np.sin(angle), y - reach * np.cos(angle), strict=True)
    points = " ".join(f"{coordinate(a)},{coordinate(b)}" for a, b in corners)
    return element("polygon", points=points, fill="#f0c808", stroke=INK, stroke_width=".7")


def node_words(tree: GroupTree, index: int, children: int) -> list[str]:
    """Return lines of words about a node, given by index."""
    root = f", the {_root_name(tree)}" * bool(tree.parent[index] < 0)
    return [
        f"node {tree.node[index]}{root}",
        f"{'member' if tree.member[index] else 'forwarder'}, depth {tree.depth[index]}",
        f"{children:,} {'child' if children == 1 else 'children'}",
    ]


def _root_name(tree: GroupTree) -> str:
    return "root" if tree.picture is None else tree.picture.root


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
    at: list[tuple[float, float]] = list(zip(x.tolist(), y.tolist(), strict=True))
    for index in sorted(tree.below.tolist(), key=lambda i: -tree.level[i]):
        colour, width = tree.style(int(tree.level[index]))
        edge = path(at[tree.parent[index]], at[index])
        drawn.append(element("path", d=edge, stroke=colour, stroke_width=f"{width:g}"))
    for index in np.argsort(tree.depth == 0, kind="stable").tolist():
        is_root, here = tree.parent[index] < 0, at[index]
        drawn.append(star(*here) if is_root else dot(here[0], here[1], bool(tree.member[index])))
        way = path(*(at[i] for i in tree.path(index)))
        marks = "" if is_root else f'<path d="{way}" style="stroke-width:1.6"/>'
        words = [*node_words(tree, index, int(children[index])), where(index)]
        area = shape("circle", cx=here[0], cy=here[1], r=4.5)
        spots.append(spot_svg(Spot(area, here[0] + 4, here[1] + 6, words, marks), *size))
    keys = [(star(0, 0, 3.2), _root_name(tree)), (dot(0, 0, True), "member")]
    if not tree.member.all():
        keys.append((dot(0, 0, False), "forwarder"))
    if tree.picture is not None and tree.picture.value:
        drawn += _numbers(tree, at)
        keys.append(('<text x="-4" y="2.5">12</text>', tree.picture.value))
    return drawn, spots, keys


def _numbers(tree: GroupTree, at: list[tuple[float, float]]) -> Iterator[str]:
    """Yield the numbers of a few nodes, as elements: those of large subtrees first.

    A number stands at that corner of its node where it covers the fewest marks.
    """
    assert tree.value is not None
    below, marks = tree.below, np.array(at)

    def covered(corner: tuple[float, float]) -> int:
        away = marks - corner - np.array([wide / 2, -2.5])
        return int((abs(away) < [wide / 2 + 2, 4.5]).all(axis=1).sum())

    changes = ~np.isclose(tree.value[below], tree.value[tree.parent[below]])
    some = below[changes & np.isfinite(tree.value[below])]
    yield f'<g {TEXT} style="{HALO}">\n'
    taken: list[tuple[float, float, float]] = []
    for index in some[np.argsort(-subtree_sizes(tree)[some], kind="stable")].tolist():
        (x, y), words = at[index], as_text(float(f"{tree.value[index]:.3g}"))
        wide = 4.4 * len(words)
        free = [
            (left, line)
            for left in (x + 3, x - 3 - wide)
            for line in (y - 2, y + 7)
            if all(abs(line - b) > 7 or left > a + w or left + wide < a for a, b, w in taken)
        ]
        if free:
            left, line = min(free, key=covered)
            taken.append((left, line, wide))
            yield f'<text x="{coordinate(left)}" y="{coordinate(line)}">{words}</text>\n'
        if len(taken) == MOST_NUMBERS:
            break
    yield "</g>\n"


def legend(tree: GroupTree, left: float, keys: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return the legend: the edges by level as bars, and the meaning of the marks.

    `left` is the position of its left end; `keys` are further marks and their words.
    """
    x, y = left + 8, 16.0
    heading = "edges by depth" if tree.picture is None else tree.picture.heading
    yield f'<g {TEXT}>\n<text x="{coordinate(x)}" y="{y:g}">{escape(heading)}</text>\n'
    counts = np.bincount(np.minimum(tree.level[tree.below], len(DEPTHS)), minlength=1)
    most = max(int(counts.max()), 1)
    names = {level: tree.level_name(level) for level in range(1, len(counts))}
    start = 20.0 if tree.picture is None else 6 + 4.1 * max(map(len, names.values()), default=0)
    for level, name in names.items():
        y += 11
        colour, _ = tree.style(level)
        length = max(min(34.0, LEGEND - 26 - start) * counts[level] / most, 1.2)
        yield (
            f'<text x="{coordinate(x)}" y="{y:g}">{escape(name)}</text>'
            f'<rect x="{coordinate(x + start)}" y="{y - 5.5:g}" width="{coordinate(length)}" '
            f'height="6" fill="{colour}"/><text x="{coordinate(x + start + 4 + length)}" '
            f'y="{y:g}">{counts[level]:,}</text>\n'
        )
    y += 8
    for mark, words in keys:
        y += 11
        yield f'<g transform="translate({coordinate(x + 5)} {y - 2.5:g})">{mark.strip()}</g>'
        yield f'<text x="{coordinate(x + 14)}" y="{y:g}">{escape(words)}</text>\n'
    yield "</g>\n"


_LEFT, _TOP, _SIDE = 40.0, 16.0, 10.0
#: The greatest number of leaves side by side.
_MOST_LEAVES = 60
#: The least width of a bar; narrower ones are drawn together.
_NARROWEST = 1.6
#: Narrower bars are left out.
_THINNEST = 0.2

_ROOT = "#f0c808"


def layers_of(tree: GroupTree, width: float) -> TreeDrawing:
    """Draw a tree in layers; without its legend, the drawing is `width` units wide."""
    leaves, deepest = int((tree.children == 0).sum()), int(tree.depth.max(initial=0))
    small = len(tree) <= MOST_NODES and leaves <= _MOST_LEAVES
    step = 34.0 if small else 30.0
    size = width + LEGEND, max(2 * _TOP + step * (deepest + (not small)), 150.0)
    if small:
        across = layers(tree.parent, tree.node)
        apart = (width - _LEFT - 2 * _SIDE) / max(across.max(), 1.0)
        x, y = _LEFT + _SIDE + across * apart, _TOP + step * tree.depth
        where = "router {}".format
        drawn, spots, keys = node_by_node(tree, x, y, lambda i: where(tree.router[i]), size)
        note = "Nodes of the same depth stand side by side in the order of their numbers."
    else:
        (drawn, spots, keys), note = _bars(tree, width, step, size)
    depths = [f"<g {TEXT}>\n"]
    for depth in range(deepest + 1):
        y_of = coordinate(_TOP + step * depth + 2.5 + (0 if small else 14))
        depths.append(f'<text x="2" y="{y_of}">depth {depth}</text>\n')
    body = [*depths, "</g>\n", *drawn, *legend(tree, width, keys), *spots]
    return TreeDrawing(size, body, "", note)


def _bars(
    tree: GroupTree, width: float, step: float, size: tuple[float, float]
) -> tuple[Marks, str]:
    nodes, children = subtree_sizes(tree), tree.children
    scale = (width - _LEFT - _SIDE) / max(int(nodes[tree.parent < 0].sum()), 1)
    order = np.lexsort((tree.node, -nodes, tree.parent))
    starts = np.searchsorted(tree.parent[order], np.arange(-1, len(tree) + 1))
    drawn, spots, together = [], [], 0

    def draw(some: np.ndarray, x: float, words: list[str], pale: bool) -> float:
        length, depth = float(nodes[some].sum() * scale), int(tree.depth[some[0]])
        colour = _ROOT if depth == 0 else tree.style(int(tree.level[some[0]]))[0]
        at = {"x": f"{x:.2f}", "y": _TOP + step * depth, "height": f"{step - 2:g}"}
        look = {"fill": colour, "fill_opacity": ".3" if pale else ".85"}
        drawn.append(element("rect", **at, width=f"{max(length - 0.25, 0.25):.2f}", **look))
        area = shape("rect", **at, width=f"{length:.2f}")
        spots.append(spot_svg(Spot(area, x + length / 2, _TOP + step * depth, words), *size))
        return x + length

    # Bars are laid from the left, those of the largest subtrees first; of each stretch of siblings
    # and where it begins, the children are laid next.
    stack = [(np.array([-1]), _LEFT, False)]
    while stack:
        parents, x, pale = stack.pop()
        some = np.concatenate([order[starts[p + 1] : starts[p + 2]] for p in parents.tolist()])
        wide = nodes[some] * scale >= _NARROWEST if not pale else np.zeros(len(some), dtype=bool)
        for index in some[wide]:
            words = node_words(tree, index, int(children[index]))
            words.append(f"{nodes[index] - 1:,} nodes below it")
            stack.append((np.array([index]), x, False))
            x = draw(np.array([index]), x, words, pale=False)
        rest = some[~wide]
        if len(rest) and nodes[rest].sum() * scale >= _THINNEST:
            together += 0 if pale else len(rest)
            words = [
                f"{len(rest):,} nodes, depth {tree.depth[rest[0]]}",
                f"{children[rest].sum():,} children",
                f"{(nodes[rest] - 1).sum():,} nodes below them",
            ]
            stack.append((rest, x, True))
            draw(rest, x, words, pale=True)
    bar = {"x": -4, "y": -3, "width": 8, "height": 6}
    faint = element("rect", **bar, fill=INK, fill_opacity=".3")
    keys = [(element("rect", **bar, fill=_ROOT), "root"), (faint, "small subtrees")]
    note = (
        "A bar stands for a node; its width is the number of nodes in the node's subtree, and it "
        "lies below the bar of the parent. The root is on top. Paler bars stand for several "
        f"subtrees that are too small for a bar of their own ({together:,} in all)."
    )
    return (drawn, spots, keys), note


#: The greatest tree that is drawn node by node; larger ones are drawn by places.
MOST_NODES = 150
#: The greatest number of lines between places at one depth.
MOST_LINES = 400

_EDGE = 12.0
_LAND, _TRANSIT, _LINK = "#edf1f4", "#bcd3ea", "#d0d8df"


def has_map(routers: pd.DataFrame) -> bool:
    """Return True if all routers of a topology have coordinates."""
    return len(routers) > 0 and bool(routers[["x", "y"]].notna().all(axis=None))


@dataclass(frozen=True)
class TreeDrawing:
    """A drawn tree: its element, its size and its words."""

    size: tuple[float, float]
    body: list[str]  # its elements
    words: str  # a description
    note: str  # the parts that the drawing leaves out


class _Map:
    """The map of a topology: coordinates by router and domain, in the units of the drawing."""

    def __init__(self, routers: pd.DataFrame, side: float) -> None:
        self.routers = routers.set_index("router").sort_index()
        x, y = (self.routers[name].to_numpy(dtype=float) for name in ("x", "y"))
        span = max(np.ptp(x), np.ptp(y)) or 1.0
        scale = (side - 2 * _EDGE) / span
        self.height = np.ptp(y) * scale + 2 * _EDGE
        self.x = _EDGE + (x - x.min()) * scale
        self.y = self.height - _EDGE - (y - y.min()) * scale
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
        """Return the rows of routers in the map, given by id."""
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
                x, y, r = (of[place] for of in (self.place_x, self.place_y, self.place_r))
                yield element("circle", cx=x, cy=y, r=r * 1.25 + 2, fill=_LAND)
            for router in np.flatnonzero(self.is_transit[self.place]).tolist():
                at = {"cx": self.x[router], "cy": self.y[router]}
                yield element("circle", **at, r=4.5, fill=_TRANSIT)
        ends = [self.index(links[name].to_numpy()) for name in ("src", "dst")]
        core = self.is_transit[self.place[ends[0]]] & self.is_transit[self.place[ends[1]]]
        kept = (core if self.is_transit.any() else ~core) & (ends[0] < ends[1])
        drawn = "".join(
            path((self.x[a], self.y[a]), (self.x[b], self.y[b]))
            for a, b in zip(ends[0][kept].tolist(), ends[1][kept].tolist(), strict=True)
        )
        if drawn:
            width = 0.35 if self.has_domains else 0.7
            yield element("path", d=drawn, fill="none", stroke=_LINK, stroke_width=str(width))


def map_of(tree: GroupTree, routers: pd.DataFrame, links: pd.DataFrame, side: float) -> TreeDrawing:
    """Draw a tree over the map, which is `side` wide, in units of the drawing."""
    chart = _Map(routers, side)
    size, at_router = (side + LEGEND, max(chart.height, 150.0)), chart.index(tree.router)

    def where(index: int) -> str:
        place = chart.place_name(int(chart.place[at_router[index]]))
        return f"router {tree.router[index]}" + f", {place}" * chart.has_domains

    if len(tree) <= MOST_NODES:
        drawn, spots, keys = node_by_node(tree, *_scattered(tree, chart), where, size)
        note = "Nodes of the same router stand around the place of the router."
    else:
        (drawn, spots, keys), note = _map_places(tree, chart, size)
    body = [*chart.background(links), *drawn, *legend(tree, side, keys + _ground(chart)), *spots]
    return TreeDrawing(size, body, _lengths(tree, chart), note)


def _map_places(tree: GroupTree, chart: _Map, size: tuple[float, float]) -> tuple[Marks, str]:
    """Draw a large tree by places of the map (domains or routers), not node by node."""
    # 1. A line for all edges of one depth between two places
    below, drawn = tree.below, list[str]()
    at = chart.place[chart.index(tree.router)]
    level = np.minimum(tree.level[below], len(DEPTHS))
    up, down = at[tree.parent[below]], at[below]
    leaves = up != down
    places = len(chart.place_numbers)
    pairs = ((level * places + up) * places + down)[leaves]
    lines, count = np.unique(pairs, return_counts=True)
    of_level, cut = lines // places**2, []
    for depth in range(len(DEPTHS), 0, -1):
        mine = np.flatnonzero(of_level == depth)
        shown, (colour, width) = mine, tree.style(depth)
        if len(mine) > MOST_LINES:
            shown = mine[np.linspace(0, len(mine) - 1, MOST_LINES).round().astype(int)]
            cut.append(f"{len(shown):,} of {len(mine):,} {_level_in_words(tree, depth)}")
        for key, edges in zip(lines[shown].tolist(), count[shown].tolist(), strict=True):
            a, b = divmod(key % places**2, places)
            thick = width * (0.45 + 0.25 * min(np.log2(edges), 6))
            look = {"stroke": colour, "stroke_width": f"{thick:.2g}", "stroke_opacity": ".75"}
            ends = ((chart.place_x[end], chart.place_y[end]) for end in (a, b))
            drawn.append(element("path", d=path(*ends), **look))
    # 2. A dot for each place, by its nodes
    nodes = np.bincount(at, minlength=places)
    inside = np.bincount(down[~leaves], minlength=places)
    forwarding = np.bincount(at[tree.children > 0], minlength=places)
    largest = max(int(nodes.max()), 1)
    spots = []
    for place in np.flatnonzero(nodes).tolist():
        x, y = chart.place_x[place], chart.place_y[place]
        radius = 0.6 + 1.8 * np.sqrt(nodes[place] / largest)
        look = {"fill": "#4a545e", "stroke": "#fff", "stroke_width": ".3"}
        drawn.append(element("circle", cx=x, cy=y, r=f"{radius:.2g}", **look))
        words = [
            chart.place_name(place),
            f"{nodes[place]:,} nodes of the tree",
            f"{forwarding[place]:,} of them have children",
            f"{inside[place]:,} edges inside",
        ]
        area = shape("circle", cx=x, cy=y, r=4.5)
        spots.append(spot_svg(Spot(area, x + 4, y + 6, words), *size))
    root = at[np.flatnonzero(tree.parent < 0)[0]]
    drawn.append(star(chart.place_x[root], chart.place_y[root]))
    name = "domain" if chart.has_domains else "router"
    mark = element("circle", cx=0, cy=0, r=3.2, fill="#4a545e")
    keys = [(star(0, 0, 3.2), f"{name} of the {_root_name(tree)}")]
    keys.append((mark, f"{largest:,} node" + "s" * (largest > 1)))
    note = (
        f"A line stands for all edges of a colour between two {name}s, and is thicker where there "
        f"are more; a dot stands for the nodes of a {name}. Not drawn: {int((~leaves).sum()):,} "
        f"edges inside a {name}."
    )
    if cut:
        note += f" The figure shows evenly chosen lines: {', '.join(reversed(cut))}."
    return (drawn, spots, keys), note


def _scattered(tree: GroupTree, chart: _Map) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of nodes on the map: in a ring around their router."""
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
    """Return the map's part of the legend: marks and their meanings."""
    link = element("path", d="M-4 0H4", stroke=_LINK, stroke_width="1"), "link"
    if not chart.has_domains:
        return [link]
    at = {"cx": 0, "cy": 0, "r": 3.2}
    land = element("circle", **at, fill=_LAND, stroke=_LINK, stroke_width=".4")
    routers = (element("circle", **at, fill=_TRANSIT), "transit router")
    of_transit = [routers, (link[0], "link between them")] if chart.is_transit.any() else []
    return [(land, "stub domain"), *of_transit]


def _lengths(tree: GroupTree, chart: _Map) -> str:
    """Return a sentence with the mean length of the edges on the map, by depth."""
    at, below = chart.index(tree.router), tree.below
    up = at[tree.parent[below]]
    side = max(np.ptp(chart.x), np.ptp(chart.y)) or 1.0
    apart = np.hypot(chart.x[up] - chart.x[at[below]], chart.y[up] - chart.y[at[below]])
    length = 100 * apart / side
    level = np.minimum(tree.level[below], len(DEPTHS))
    means = [
        f"{length[level == one].mean():.2g}\N{NO-BREAK SPACE}% {_level_in_words(tree, one)}"
        for one in range(1, int(level.max(initial=0)) + 1)
    ]
    return f"Mean length of an edge, in per cent of the map: {', '.join(means)}."


def _level_in_words(tree: GroupTree, level: int) -> str:
    name = tree.level_name(level)
    return f"at depth {name}" if tree.picture is None else f"({name})"


#: The width of a drawing without its legend.
_WIDTH = 236.0


@dataclass(frozen=True)
class RunTrees:
    """The tables of a run from which its trees are drawn."""

    trees: Sequence[tuple[str, GroupTree]]  # with names such as ``largest group``, in order
    routers: pd.DataFrame  # coordinates may be missing
    links: pd.DataFrame
    left_out: str = ""  # a sentence about groups that are not drawn
    pictures: Sequence[tuple[str, GroupTree]] = ()  # of systems, by their names


def tree_figures(found: RunTrees) -> list[PageFigure]:
    """Draw trees over the map of the network, or in layers if it has no coordinates."""
    figures = []
    for what, tree in found.trees:
        title = f"Group {tree.group}, the {what}: {tree.size:,} members"
        figures.append(_figure(found, f"tree-{what.partition(' ')[0]}", title, tree))
    for system, tree in found.pictures:
        title = f"{label_of(system)}, group {tree.group}: {tree.size:,} members"
        figures.append(_figure(found, f"picture-{system}", title, tree))
    return figures


def _figure(found: RunTrees, name: str, title: str, tree: GroupTree) -> PageFigure:
    if has_map(found.routers):
        drawn = map_of(tree, found.routers, found.links, _WIDTH)
    else:
        drawn = layers_of(tree, _WIDTH)
    words = f"{_counts(tree)} {drawn.words}".rstrip()
    svg = plain_svg(name, title, words, drawn.size, drawn.body)
    if tree.picture is None:
        return PageFigure(name, title, svg, drawn.note, words, tables=("tree_edges",))
    numbers = tree.picture.value and len(tree) <= MOST_NODES
    changes = " A number stands where it differs from the parent's." if numbers else ""
    return PageFigure(name, title, svg, f"{tree.picture.words}{changes} {drawn.note}", words)


def _counts(tree: GroupTree) -> str:
    if tree.picture is not None:
        counts = np.bincount(tree.level[tree.below], minlength=1)
        edges = [f"{n:,} ({tree.level_name(level)})" for level, n in enumerate(counts) if level]
        return f"{len(tree):,} nodes; edges: {', '.join(edges)}."
    inner, forwarders = int((tree.children > 0).sum()), int((~tree.member).sum())
    most, deepest = int(tree.children.max(initial=0)), int(tree.depth.max(initial=0))
    return (
        f"{len(tree):,} nodes, {forwarders:,} of them forwarders that are no members; {inner:,} "
        f"nodes have children, at most {most:,} each; the greatest depth is {deepest}."
    )
