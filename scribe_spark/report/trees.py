"""The tree of a group: its layout, and drawings over the map of the network or in layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.report.canvas import (
    CHARACTER,
    LAND,
    LEGEND,
    LINK,
    ROOT,
    Canvas,
    Key,
    canvas,
    finished,
)
from scribe_spark.report.style import DEPTHS, PERCENT, as_text, depth_style, label_of
from scribe_spark.report.svg import PageFigure, Spot
from scribe_spark.rounds.declaration import Picture

#: The width of a drawing without its legend.
_WIDTH = 236.0
#: The greatest tree that is drawn node by node, and its greatest number of leaves side by side.
MOST_NODES, _MOST_LEAVES = 150, 60
#: The greatest number of lines between places at one depth, and of nodes with a number.
MOST_LINES, MOST_NUMBERS = 400, 16
#: The margin of a map.
_EDGE = 12.0
#: The margins of layers; the least width of a bar: narrower ones are drawn together or left out.
_LEFT, _TOP, _SIDE = 40.0, 16.0, 10.0
_NARROWEST, _THINNEST = 1.6, 0.2


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

    @cached_property
    def children(self) -> np.ndarray:
        """The number of children of each node."""
        return np.bincount(self.parent[self.below], minlength=len(self))

    @cached_property
    def below(self) -> np.ndarray:
        """The indices of the nodes that have a parent; each stands for an edge."""
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

    @property
    def root_name(self) -> str:
        """The name of the node without a parent, such as ``root`` or ``top leader``."""
        return "root" if self.picture is None else self.picture.root

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

    def words(self, index: int) -> list[str]:
        """Return lines of words about a node."""
        children = int(self.children[index])
        return [
            f"node {self.node[index]}" + f", the {self.root_name}" * bool(self.parent[index] < 0),
            f"{'member' if self.member[index] else 'forwarder'}, depth {self.depth[index]}",
            f"{children:,} {'child' if children == 1 else 'children'}",
        ]


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


# --- the figures of a run


@dataclass(frozen=True)
class RunTrees:
    """The tables of a run from which its trees are drawn."""

    trees: Sequence[tuple[str, GroupTree]]  # with names such as ``largest group``, in order
    routers: pd.DataFrame  # coordinates may be missing
    links: pd.DataFrame
    left_out: str = ""  # a sentence about groups that are not drawn
    pictures: Sequence[tuple[str, GroupTree]] = ()  # of systems, by their names

    @property
    def has_map(self) -> bool:
        """True if all routers have coordinates."""
        return len(self.routers) > 0 and bool(self.routers[["x", "y"]].notna().all(axis=None))


def tree_figures(found: RunTrees) -> list[PageFigure]:
    """Draw trees over the map of the network, or in layers if it has no coordinates."""
    named = [
        (f"tree-{what.partition(' ')[0]}", f"Group {tree.group}, the {what}", tree)
        for what, tree in found.trees
    ]
    named += [
        (f"picture-{system}", f"{label_of(system)}, group {tree.group}", tree)
        for system, tree in found.pictures
    ]
    draw = _on_map if found.has_map else _in_layers
    return [
        draw(found, name, f"{title}: {tree.size:,} members", tree) for name, title, tree in named
    ]


def _finished(
    drawing: Canvas, tree: GroupTree, name: str, title: str, note: str, more: str = ""
) -> PageFigure:
    words = f"{_counts(tree)} {more}".rstrip()
    if tree.picture is None:
        return finished(drawing, name, title, words, note, ("tree_edges",))
    numbers = tree.picture.value and len(tree) <= MOST_NODES
    changes = " A number stands where it differs from the parent's." if numbers else ""
    return finished(drawing, name, title, words, f"{tree.picture.words}{changes} {note}")


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


def _node_by_node(
    drawing: Canvas, tree: GroupTree, x: np.ndarray, y: np.ndarray, where: Callable[[int], str]
) -> list[Key]:
    """Draw every node and every edge of a tree; return the legend of the nodes.

    ``where(index)`` describes a node's position. While the pointer is at a node, the node's path to
    the root is visible.
    """
    at = np.column_stack([x, y])
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        some = tree.below[tree.level[tree.below] == level]
        ends = np.stack([at[tree.parent[some]], at[some]], axis=1)
        drawing.lines(ends, *tree.style(level))
    keys: list[Key] = [("root", tree.root_name)]
    for kind, some in (
        ("member", tree.member & (tree.parent >= 0)),
        ("forwarder", ~tree.member & (tree.parent >= 0)),
        ("root", tree.parent < 0),
    ):
        drawing.marks(kind, x[some], y[some])
        if kind == "member" or (kind == "forwarder" and not tree.member.all()):
            keys.append((kind, kind))
    for index in range(len(tree)):
        way = at[tree.path(index)].tolist() if tree.parent[index] >= 0 else []
        drawing.spot(x[index], y[index], [*tree.words(index), where(index)], way)
    if tree.picture is not None and tree.picture.value:
        drawing.numbers(_numbers(tree, at))
        keys.append(("number", tree.picture.value))
    return keys


def _numbers(tree: GroupTree, at: np.ndarray) -> list[tuple[float, float, str]]:
    """Return places for the numbers of a few nodes: those of large subtrees first.

    A number stands at that corner of its node where it covers the fewest marks.
    """
    assert tree.value is not None
    below = tree.below

    def covered(corner: tuple[float, float]) -> int:
        away = at - corner - np.array([wide / 2, -2.5])
        return int((abs(away) < [wide / 2 + 2, 4.5]).all(axis=1).sum())

    changes = ~np.isclose(tree.value[below], tree.value[tree.parent[below]])
    some = below[changes & np.isfinite(tree.value[below])]
    taken: list[tuple[float, float, str]] = []
    for index in some[np.argsort(-subtree_sizes(tree)[some], kind="stable")].tolist():
        (x, y), words = at[index].tolist(), as_text(float(f"{tree.value[index]:.3g}"))
        wide = CHARACTER * len(words)
        free = [
            (left, line)
            for left in (x + 3, x - 3 - wide)
            for line in (y - 2, y + 7)
            if all(
                abs(line - b) > 7 or left > a + CHARACTER * len(other) or left + wide < a
                for a, b, other in taken
            )
        ]
        if free and len(taken) < MOST_NUMBERS:
            taken.append((*min(free, key=covered), words))
    return taken


def _legend(drawing: Canvas, tree: GroupTree, keys: Sequence[Key]) -> None:
    """Draw the legend: the edges by level as bars, and the meaning of the marks."""
    x, y = _WIDTH + 8, 16.0
    drawing.text(x, y, "edges by depth" if tree.picture is None else tree.picture.heading)
    counts = np.bincount(np.minimum(tree.level[tree.below], len(DEPTHS)), minlength=1)
    names = {level: tree.level_name(level) for level in range(1, len(counts))}
    start = 20.0 if tree.picture is None else 6 + 4.1 * max(map(len, names.values()), default=0)
    for level, name in names.items():
        y += 11
        length = max(min(34.0, LEGEND - 26 - start) * counts[level] / counts.max(), 1.2)
        drawing.text(x, y, name)
        ends = [[(x + start, y - 2.5), (x + start + length, y - 2.5)]]
        drawing.lines(ends, tree.style(level)[0], 6, solid_capstyle="butt")
        drawing.text(x + start + 4 + length, y, f"{counts[level]:,}")
    drawing.legend(keys, x + 5, y + 19)


# --- in layers


def _in_layers(_: RunTrees, name: str, title: str, tree: GroupTree) -> PageFigure:
    leaves, deepest = int((tree.children == 0).sum()), int(tree.depth.max(initial=0))
    small = len(tree) <= MOST_NODES and leaves <= _MOST_LEAVES
    step = 34.0 if small else 30.0
    high = max(2 * _TOP + step * (deepest + (not small)), 150.0)
    with canvas(_WIDTH + LEGEND, high) as drawing:
        for depth in range(deepest + 1):
            drawing.text(2, _TOP + step * depth + 2.5 + (0 if small else 14), f"depth {depth}")
        if small:
            across = layers(tree.parent, tree.node)
            apart = (_WIDTH - _LEFT - 2 * _SIDE) / max(across.max(), 1.0)
            x, y = _LEFT + _SIDE + across * apart, _TOP + step * tree.depth
            keys = _node_by_node(drawing, tree, x, y, lambda at: f"router {tree.router[at]}")
            note = "Nodes of the same depth stand side by side in the order of their numbers."
        else:
            keys, note = _bars(drawing, tree, step)
        _legend(drawing, tree, keys)
        return _finished(drawing, tree, name, title, note)


def _bars(drawing: Canvas, tree: GroupTree, step: float) -> tuple[list[Key], str]:
    """Draw a bar for each subtree below that of the parent; return the legend and the caption."""
    nodes, children = subtree_sizes(tree), tree.children
    scale = (_WIDTH - _LEFT - _SIDE) / max(int(nodes[tree.parent < 0].sum()), 1)
    order = np.lexsort((tree.node, -nodes, tree.parent))
    starts = np.searchsorted(tree.parent[order], np.arange(-1, len(tree) + 1))
    bars, together = [], 0

    def draw(some: np.ndarray, x: float, words: list[str], pale: bool) -> float:
        length, depth = float(nodes[some].sum() * scale), int(tree.depth[some[0]])
        colour = ROOT if depth == 0 else tree.style(int(tree.level[some[0]]))[0]
        top = _TOP + step * depth
        bars.append((x, top, max(length - 0.25, 0.25), colour, 0.3 if pale else 0.85))
        drawing.spots.append(Spot((x, top, length, step - 2), x + length / 2, top, words))
        return x + length

    # Bars are laid from the left, those of the largest subtrees first; of each stretch of siblings
    # and where it begins, the children are laid next.
    stack = [(np.array([-1]), _LEFT, False)]
    while stack:
        parents, x, pale = stack.pop()
        some = np.concatenate([order[starts[p + 1] : starts[p + 2]] for p in parents.tolist()])
        wide = nodes[some] * scale >= _NARROWEST if not pale else np.zeros(len(some), dtype=bool)
        for index in some[wide]:
            words = [*tree.words(index), f"{nodes[index] - 1:,} nodes below it"]
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
    left, top, length, colour, alpha = (list(column) for column in zip(*bars, strict=True))
    middle = np.array(top) + step / 2 - 1
    ends = np.stack([np.c_[left, middle], np.c_[np.add(left, length), middle]], axis=1)
    drawing.lines(ends, colour, step - 2, alpha=alpha, capstyle="butt")
    keys: list[Key] = [("bar of the root", "root"), ("pale bar", "small subtrees")]
    return keys, (
        "A bar stands for a node; its width is the number of nodes in the node's subtree, and it "
        "lies below the bar of the parent. The root is on top. Paler bars stand for several "
        f"subtrees that are too small for a bar of their own ({together:,} in all)."
    )


# --- over the map


class _Map:
    """The map of a topology: coordinates by router and domain, in the units of the drawing."""

    def __init__(self, routers: pd.DataFrame) -> None:
        self.routers = routers = routers.set_index("router").sort_index()
        x, y = (routers[name].to_numpy(dtype=float) for name in ("x", "y"))
        scale = (_WIDTH - 2 * _EDGE) / (max(np.ptp(x), np.ptp(y)) or 1.0)
        self.height = float(np.ptp(y) * scale + 2 * _EDGE)
        self.x = _EDGE + (x - x.min()) * scale
        self.y = self.height - _EDGE - (y - y.min()) * scale
        self.has_domains = bool(routers["domain"].notna().all())
        number = routers["domain"].astype(int) if self.has_domains else routers.index
        self.place_numbers, self.place = np.unique(number, return_inverse=True)
        counts = np.bincount(self.place)
        self.place_x, self.place_y = (
            np.bincount(self.place, of) / counts for of in (self.x, self.y)
        )
        apart = np.hypot(self.x - self.place_x[self.place], self.y - self.place_y[self.place])
        self.place_r = np.bincount(self.place, apart) / counts
        self.is_transit = np.bincount(self.place, (routers["kind"] == "transit")) > 0

    def index(self, router: np.ndarray) -> np.ndarray:
        """Return the rows of routers in the map, given by id."""
        return index_sorted(self.routers.index.to_numpy(), router)

    def place_name(self, place: int) -> str:
        """Return a name such as ``stub domain 12`` or ``router 7``."""
        number = as_text(int(self.place_numbers[place]))
        if not self.has_domains:
            return f"router {number}"
        return f"{'transit' if self.is_transit[place] else 'stub'} domain {number}"

    def draw(self, drawing: Canvas, links: pd.DataFrame) -> list[Key]:
        """Draw the domains, and the links between transit routers; return the legend.

        Without transit routers, all links are drawn.
        """
        if self.has_domains:
            stub, transit = ~self.is_transit, self.is_transit[self.place]
            width = 2 * np.round(self.place_r[stub] * 1.25 + 2)
            drawing.marks("stub domain", self.place_x[stub], self.place_y[stub], width=width,
                          edgecolor=LAND)  # fmt: skip
            drawing.marks("transit router", self.x[transit], self.y[transit])
        ends = [self.index(links[name].to_numpy()) for name in ("src", "dst")]
        core = self.is_transit[self.place[ends[0]]] & self.is_transit[self.place[ends[1]]]
        kept = (core if self.is_transit.any() else ~core) & (ends[0] < ends[1])
        points = np.stack([np.c_[self.x[end[kept]], self.y[end[kept]]] for end in ends], axis=1)
        drawing.lines(points, LINK, 0.35 if self.has_domains else 0.7)
        link = {"colour": LINK, "width": 1}
        if not self.has_domains:
            return [(link, "link")]
        routers: list[Key] = [("transit router", "transit router"), (link, "link between them")]
        return [("stub domain", "stub domain"), *(routers if self.is_transit.any() else [])]


def _on_map(found: RunTrees, name: str, title: str, tree: GroupTree) -> PageFigure:
    chart = _Map(found.routers)
    at = chart.index(tree.router)

    def where(index: int) -> str:
        place = chart.place_name(int(chart.place[at[index]]))
        return f"router {tree.router[index]}" + f", {place}" * chart.has_domains

    with canvas(_WIDTH + LEGEND, max(chart.height, 150.0)) as drawing:
        ground = chart.draw(drawing, found.links)
        if len(tree) <= MOST_NODES:
            keys = _node_by_node(drawing, tree, *_scattered(chart, at), where)
            note = "Nodes of the same router stand around the place of the router."
        else:
            keys, note = _by_places(drawing, tree, chart, chart.place[at])
        _legend(drawing, tree, keys + ground)
        return _finished(drawing, tree, name, title, note, _lengths(tree, chart, at))


def _by_places(
    drawing: Canvas, tree: GroupTree, chart: _Map, at: np.ndarray
) -> tuple[list[Key], str]:
    """Draw a large tree by places of the map (domains or routers), not node by node.

    `at` has the place of each node.
    """
    # 1. A line for all edges of one depth between two places
    level, up, down = np.minimum(tree.level, len(DEPTHS)), at[tree.parent], at
    edges = pd.DataFrame({"level": level, "up": up, "down": down}).iloc[tree.below]
    inside = edges[edges["up"] == edges["down"]]
    between = edges.drop(inside.index).value_counts(sort=False).sort_index().reset_index()
    places, cut = np.c_[chart.place_x, chart.place_y], []
    for depth in range(len(DEPTHS), 0, -1):
        mine = between[between["level"] == depth]
        shown, (colour, width) = mine, tree.style(depth)
        if len(mine) > MOST_LINES:
            shown = mine.iloc[np.linspace(0, len(mine) - 1, MOST_LINES).round().astype(int)]
            cut.append(f"{len(shown):,} of {len(mine):,} {_level_in_words(tree, depth)}")
        ends = np.stack([places[shown["up"]], places[shown["down"]]], axis=1)
        wide = width * (0.45 + 0.25 * np.minimum(np.log2(shown["count"]), 6))
        drawing.lines(ends, colour, wide, alpha=0.75)
    # 2. A dot for each place, by its nodes
    nodes, within, forwarding = (
        np.bincount(some, minlength=len(places))
        for some in (at, inside["down"], at[tree.children > 0])
    )
    there, largest = np.flatnonzero(nodes), int(nodes.max())
    drawing.marks("place", *places[there].T, width=1.2 + 3.6 * np.sqrt(nodes[there] / largest))
    for place in there.tolist():
        words = [
            chart.place_name(place),
            f"{nodes[place]:,} nodes of the tree",
            f"{forwarding[place]:,} of them have children",
            f"{within[place]:,} edges inside",
        ]
        x, y = places[place].tolist()
        drawing.spot(x, y, words)
    drawing.marks("root", *places[at[tree.parent < 0][:1]].T)
    name = "domain" if chart.has_domains else "router"
    note = (
        f"A line stands for all edges of a colour between two {name}s, and is thicker where there "
        f"are more; a dot stands for the nodes of a {name}. Not drawn: {len(inside):,} "
        f"edges inside a {name}."
    )
    if cut:
        note += f" The figure shows evenly chosen lines: {', '.join(reversed(cut))}."
    dot = f"{largest:,} node" + "s" * (largest > 1)
    return [("root", f"{name} of the {tree.root_name}"), ("place", dot)], note


def _scattered(chart: _Map, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of nodes on the map: in a ring around their router."""
    x, y = chart.x[at], chart.y[at]
    for router in np.unique(at).tolist():
        there = np.flatnonzero(at == router)
        if len(there) > 1:
            angle = 2 * np.pi * np.arange(len(there)) / len(there)
            radius = 1.8 + 0.55 * len(there)
            x[there] += radius * np.cos(angle)
            y[there] += radius * np.sin(angle)
    return x, y


def _lengths(tree: GroupTree, chart: _Map, at: np.ndarray) -> str:
    """Return a sentence with the mean length of the edges on the map, by depth."""
    down, up = at[tree.below], at[tree.parent[tree.below]]
    side = max(np.ptp(chart.x), np.ptp(chart.y)) or 1.0
    length = 100 * np.hypot(chart.x[up] - chart.x[down], chart.y[up] - chart.y[down]) / side
    level = np.minimum(tree.level[tree.below], len(DEPTHS))
    means = [
        f"{length[level == one].mean():.2g}{PERCENT} {_level_in_words(tree, one)}"
        for one in range(1, int(level.max(initial=0)) + 1)
    ]
    return f"Mean length of an edge, in per cent of the map: {', '.join(means)}."


def _level_in_words(tree: GroupTree, level: int) -> str:
    name = tree.level_name(level)
    return f"at depth {name}" if tree.picture is None else f"({name})"
