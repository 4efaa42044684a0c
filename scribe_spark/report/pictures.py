"""Pictures: trees of groups, a tree before and after a failure, and the ring of keys.

References
----------
JSAC 2002, Section III.B.1: repairing the multicast tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, pairwise

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import index_sorted
from scribe_spark.report.style import DEPTHS, PERCENT, as_text, depth_style, label_of
from scribe_spark.report.svg import (
    CHARACTER,
    GREY,
    INK,
    LAND,
    LEGEND,
    LINK,
    NEW,
    ORPHAN,
    ROOT,
    Canvas,
    Key,
    PageFigure,
    Spot,
    canvas,
)
from scribe_spark.rounds.declaration import Picture

# --- the tree of a group

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
    draw = _on_map if found.has_map else _in_layers
    return [
        draw(found, f"tree-{what.partition(' ')[0]}",
             f"Group {tree.group}, the {what}: {tree.size:,} members", tree)
        for what, tree in found.trees
    ] + [
        draw(found, f"picture-{system}",
             f"{label_of(system)}, group {tree.group}: {tree.size:,} members", tree)
        for system, tree in found.pictures
    ]  # fmt: skip


def _finished(
    drawing: Canvas, tree: GroupTree, name: str, title: str, note: str, more: str = ""
) -> PageFigure:
    if tree.picture is None:
        inner, forwarders = int((tree.children > 0).sum()), int((~tree.member).sum())
        most, deepest = int(tree.children.max(initial=0)), int(tree.depth.max(initial=0))
        words = (
            f"{len(tree):,} nodes, {forwarders:,} of them forwarders that are no members; "
            f"{inner:,} nodes have children, at most {most:,} each; the greatest depth is "
            f"{deepest}. {more}"
        )
        return drawing.finished(name, title, words.rstrip(), caption=note, tables=("tree_edges",))
    counts = np.bincount(tree.level[tree.below], minlength=1)
    edges = [f"{n:,} ({tree.level_name(level)})" for level, n in enumerate(counts) if level]
    words = f"{len(tree):,} nodes; edges: {', '.join(edges)}. {more}"
    numbers = tree.picture.value and len(tree) <= MOST_NODES
    changes = " A number stands where it differs from the parent's." if numbers else ""
    caption = f"{tree.picture.words}{changes} {note}"
    return drawing.finished(name, title, words.rstrip(), caption=caption)


def _node_by_node(
    drawing: Canvas, tree: GroupTree, x: np.ndarray, y: np.ndarray, where: Callable[[int], str]
) -> list[Key]:
    """Draw every node and every edge of a tree; return the legend of the nodes."""
    at = np.column_stack([x, y])
    for level in range(int(tree.level.max(initial=0)), 0, -1):
        some = tree.below[tree.level[tree.below] == level]
        ends = np.stack([at[tree.parent[some]], at[some]], axis=1)
        drawing.lines(ends, *tree.style(level))
    keys: list[Key] = [("root", tree.root_name)]
    role = np.where(tree.parent < 0, "root", np.where(tree.member, "member", "forwarder"))
    for kind in ("member", "forwarder", "root"):
        drawing.marks(kind, *at[role == kind].T)
    keys += [("member", "member")] + [("forwarder", "forwarder")] * (not tree.member.all())
    for index in range(len(tree)):
        way = at[tree.path(index)].tolist() if tree.parent[index] >= 0 else []
        drawing.spot(x[index], y[index], [*tree.words(index), where(index)], way)
    if tree.picture is not None and tree.picture.value:
        drawing.numbers(_numbers(tree, at))
        keys.append(("number", tree.picture.value))
    return keys


def _numbers(tree: GroupTree, at: np.ndarray) -> list[tuple[float, float, str]]:
    """Return places for the numbers of a few nodes that are free: of large subtrees first."""
    assert tree.value is not None
    below, taken = tree.below, list[tuple[float, float, str]]()
    changes = ~np.isclose(tree.value[below], tree.value[tree.parent[below]])
    some = below[changes & np.isfinite(tree.value[below])]
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
            taken.append((*free[0], words))
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
    """Draw a large tree by places of the map (domains or routers), not node by node."""
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


# --- the ring of keys

#: The side of the drawing without its legend, and the radius of the ring.
_RING, _RADIUS = 212.0, 90.0
_PALE = "#c9d0d6"
#: The colours of marked nodes.
_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
#: The colours and widths of links: those of duplicates, and those of first copies.
_LINKS = {False: (_PALE, 0.5, "duplicate"), True: ("#4a545e", 1.2, "first copy of a node")}
#: The number of hexadecimal digits of a nodeId that a picture shows.
_DIGITS = 4


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
    name, heading : str
        A name for the ids in the drawing, and its title.
    nodes : pandas.DataFrame
        ``node, id_hi``: the nodes, and the first halves of their nodeIds.
    marked : mapping of str to iterable of int, optional
        Words of the legend -> nodes that have a colour.
    links : pandas.DataFrame, optional
        ``sender, receiver, first``: lines between nodes; those with ``first`` False are thin.
    route : sequence of int, optional
        Nodes that arrows connect, in order; the legend has the first digits of their nodeIds.
    key, source : int, optional
        The first half of a key, which is marked on the ring, and the node with a star.
    """
    halves = dict(zip(nodes["node"].tolist(), nodes["id_hi"].tolist(), strict=True))
    at = {node: _point(half % 2**64 / 2.0**64) for node, half in halves.items()}
    keys: list[Key] = []
    with canvas(_RING + LEGEND, _RING) as drawing:
        _ring(drawing)
        for first, rows in () if links is None else links.groupby("first", sort=True):
            colour, width, words = _LINKS[bool(first)]
            rows = rows[["sender", "receiver"]]
            drawing.lines([(at[a], at[b]) for a, b in rows.to_numpy().tolist()], colour, width)
            keys.insert(0, ({"colour": colour, "width": width}, words))
        drawing.marks("node", *np.transpose([*at.values()]))
        keys.append(("node", "node"))
        for (words, some), colour in zip((marked or {}).items(), cycle(_COLOURS), strict=False):
            places = np.reshape([at[node] for node in some], (-1, 2))  # perhaps none
            drawing.marks("member", *places.T, width=5.2, facecolor=colour)
            keys.append((colour, words))
        if key is not None:
            drawing.marks("key", *_point(key % 2**64 / 2.0**64))
            keys.append(("key", _hex("key", key)))
        if route:
            drawing.marks("member", *np.transpose([at[node] for node in route]), width=5.2)
            keys.append((INK, _hex("start", halves[route[0]])))
        for hop, (here, there) in enumerate(pairwise(route), start=1):
            colour, _ = depth_style(hop)
            drawing.arrow(at[here], at[there], colour)
            line = {"colour": colour, "width": 1.6}
            keys.append((line, _hex(f"hop {hop}, to", halves[there])))
        if source is not None:
            drawing.marks("root", *at[source])
            keys.append(("root", "source"))
        drawing.legend(keys, _RING + 6, 22.5)
        words = (
            f"{len(nodes):,} nodes on the ring of keys; {', '.join(words for _, words in keys)}."
        )
        return drawing.finished(name, heading, words).drawing


def _hex(words: str, half: int) -> str:
    """Return `words` and the first digits of the key with the upper half `half`."""
    return f"{words} {half % 2**64:016x}"[: len(words) + 1 + _DIGITS] + "..."


def _point(turn: float, radius: float = _RADIUS) -> tuple[float, float]:
    """Return the point on a circle at an angle in turns, clockwise from the top."""
    angle = 2 * np.pi * turn
    return _RING / 2 + radius * float(np.sin(angle)), _RING / 2 - radius * float(np.cos(angle))


def _ring(drawing: Canvas) -> None:
    """Draw the circle, and the first digit of the keys in each sixteenth."""
    drawing.lines([[_point(turn / 360) for turn in range(361)]], _PALE, 0.6)
    ticks = [[_point(n / 16, _RADIUS + far) for far in (3.5, 8.0)] for n in range(16)]
    drawing.lines(ticks, _PALE, 0.6)
    for digit in range(16):
        x, y = _point((digit + 0.5) / 16, _RADIUS + 7)
        drawing.text(x, y + 2.5, f"{digit:x}", color=GREY, ha="center")


# --- a failure in a tree

#: The range of tree sizes that are good for a drawing.
_NODES = range(8, 41)

_SCENE, _HEAD, _STEP, _MARGIN = 290.0, 14.0, 40.0, 12.0
_STATE = ["node", "parent", "member", "root", "orphan", "alive"]

#: The colour, width and dashes of edges: of dead nodes, orphans, nodes with a new parent, others.
_EDGES = {
    "old": ("#7a858f", 1, "-"),
    "dead": ("#b9c1c8", 1, (0, (2, 2))),
    "orphan": (ORPHAN, 1, (0, (3, 2))),
    "new": (NEW, 2, "-"),
}

#: What a node is -> words under the pointer; the first fitting one counts.
_NODE_WORDS = {
    "dead": "died in this round",
    "root": "the root, {}",
    "orphan": "{}, an orphan",
    "cut off": "{}, below an orphan",
    "alive": "{}",
    "new": "{}, new in the tree",
}


@dataclass(frozen=True)
class Scene:
    """A failure of inner nodes of a group's tree: the tree before, during and after it.

    The tables have the columns ``node, parent, member, root, orphan, alive``.
    """

    group: int
    number: int  # the round of the failure
    last: int  # the round of the last drawing
    before: pd.DataFrame
    during: pd.DataFrame  # with the nodes that died in the round
    after: pd.DataFrame


def scene_of(watched: pd.DataFrame) -> Scene | None:
    """Return the failure to draw; None if no watched tree lost an inner node.

    The function prefers failures that were repaired before the next failure, in trees of medium
    size, in which the root lived, few nodes died, and orphans waited for at least one round.  Among
    equal failures it takes the first one, then the one of the smallest group number.
    """
    told = {key: rows[_STATE] for key, rows in watched.groupby(["group", "round", "moment"])}
    struck = [(group, number) for group, number, moment in told if moment == "before"]

    def rank(scene: Scene) -> tuple:
        dead = scene.during[~scene.during["alive"]]
        return (
            bool(scene.after["orphan"].any()),  # not repaired
            any(g == scene.group and scene.number < n <= scene.last for g, n in struck),
            len(scene.before) not in _NODES,
            scene.last == scene.number,
            bool(dead["root"].any()),
            len(dead),
            scene.number,
            scene.group,
        )

    return min((_scene(told, *key) for key in struck), key=rank, default=None)


def _scene(told: dict[tuple, pd.DataFrame], group: int, number: int) -> Scene:
    before, during = (told[group, number, moment] for moment in ("before", "after"))
    last = number
    while told[group, last, "after"]["orphan"].any() and (group, last + 1, "after") in told:
        # dead nodes are listed in the round of their death
        last += 1
    after = told[group, last, "after"]
    if not (during["orphan"] & during["alive"]).any():  # repaired in the round itself
        dead = during.loc[~during["alive"], "node"]
        during = before.assign(alive=~before["node"].isin(dead), orphan=before["parent"].isin(dead))
    return Scene(int(group), int(number), int(last), before, during, after[after["alive"]])


def scene_figures(scene: Scene) -> list[PageFigure]:
    """Return the drawings of the tree: before the failure, in it, and after the repair."""
    laid = _laid_out(scene.before, scene.before)
    order = laid.set_index("node")["x"]
    during = _laid_out(scene.during, scene.before, order)
    after = _laid_out(scene.after, scene.before, order)
    named = {*during.loc[(during["what"] == "dead") | during["orphan"], "node"]}
    return [
        _picture(name, title, words, frame, named, f"Group {scene.group}: {title}")
        for name, title, words, frame in (
            ("tree-before", f"Before round {scene.number}", _before_words(scene), laid),
            ("tree-failure", f"In round {scene.number}", _failure_words(during), during),
            ("tree-repaired", f"After round {scene.last}", _after_words(scene, after), after),
        )
    ]


def tree_picture(name: str, heading: str, tree: pd.DataFrame) -> str:
    """Draw a tree in layers, its root on top, as an ``<svg>`` element.

    The nodes of `tree` (``node, parent, member, root``) are those of a group, as
    `World.memberships` has them; the root has no parent.
    """
    frame = tree.assign(orphan=False, alive=True)[_STATE]
    members, most = int(frame["member"].sum()), int(frame["parent"].value_counts().max())
    words = f"{len(frame)} nodes, {members} of them members; at most {most} children of a node."
    inner = {*frame["parent"].dropna()}
    return _picture(name, heading, words, _laid_out(frame, frame), inner).drawing


def _before_words(scene: Scene) -> str:
    root = scene.before.loc[scene.before["root"], "node"].tolist()
    words = f"{len(scene.before)} nodes, {int(scene.before['member'].sum())} of them members"
    return f"{words}; the root is node {root[0]}." if root else f"{words}."


def _failure_words(during: pd.DataFrame) -> str:
    *some, last = map(str, during.loc[~during["alive"], "node"])
    dead = f"Nodes {', '.join(some)} and {last} die" if some else f"Node {last} dies"
    orphans = int((during["orphan"] & during["alive"]).sum())
    are = "1 node is an orphan; with what is below it"
    if orphans != 1:
        are = f"{orphans} nodes are orphans; with what is below them"
    below = int(during["cut"].sum())
    nodes = "1 live node is" if below == 1 else f"{below} live nodes are"
    return f"{dead}. {are}, {nodes} cut off from the root."


def _after_words(scene: Scene, after: pd.DataFrame) -> str:
    more = scene.last - scene.number
    when = "In the same round" if not more else f"{more} round{'s' * (more > 1)} later"
    ends = "the tree is not repaired yet" if after["orphan"].any() else "no node is an orphan"
    known = after["node"].isin(scene.before["node"])
    moved, new = int((known & (after["edge"] == "new")).sum()), int((~known).sum())
    have, are = "1 node has" if moved == 1 else f"{moved} nodes have", "is" if new == 1 else "are"
    return f"{when} {ends}: {have} a new parent, {new} {are} new in the tree."


def _laid_out(
    frame: pd.DataFrame, before: pd.DataFrame, order: pd.Series | None = None
) -> pd.DataFrame:
    """Return a tree with the places, the kinds and the edges of its nodes."""
    frame = frame.sort_values("node", ignore_index=True)
    last = before.set_index("node")["parent"]
    above = _above(frame, last)
    rank = frame["node"] if order is None else frame["node"].map(order)
    across = layers(above, np.argsort(np.lexsort((frame["node"], rank))))
    depth = np.where(frame["root"], 0, 1)  # 1 for a node without a way to the root
    cut = (frame["orphan"] & frame["alive"]).to_numpy()
    for _ in above:
        depth = np.where(above >= 0, depth[above] + 1, depth)
        cut = cut | ((above >= 0) & cut[above])
    cut = cut & frame["alive"]
    known, parent = frame["node"].isin(last.index), frame["parent"]
    moved = parent.notna() & (frame["node"].map(last) != parent)
    is_ = [~frame["alive"], frame["root"], frame["orphan"], cut, known]
    return frame.assign(
        above=above,
        x=_MARGIN + across * (_SCENE - 2 * _MARGIN) / max(across.max(initial=0), 1.0),
        y=_HEAD + _STEP * depth,
        cut=cut,
        what=np.select(is_, [*_NODE_WORDS][:-1], "new"),
        edge=np.select([~frame["alive"], frame["orphan"], moved], [*_EDGES][1:], "old"),
        role=np.where(frame["member"], "member", "forwarder"),
    )


def _above(frame: pd.DataFrame, last: pd.Series) -> np.ndarray:
    """Return the index of the node above each node, also an orphan's last parent; -1 at the top."""
    index = pd.Series(frame.index, frame["node"])
    found = frame["parent"].map(index).fillna(frame["node"].map(last).map(index))
    above = found.mask(frame["root"]).fillna(-1).to_numpy(dtype=int)
    for place in range(len(above)):
        at, way = above[place], set[int]()
        while at >= 0 and at != place and at not in way:
            way.add(at)
            at = above[at]
        if at == place:
            above[place] = -1
    return above


def _picture(
    name: str, title: str, words: str, frame: pd.DataFrame, named: set[int], heading: str = ""
) -> PageFigure:
    """Draw a tree in layers; `named` are the nodes with numbers."""
    high = float(frame["y"].max()) + 58
    at = frame[["x", "y"]].to_numpy()
    with canvas(_SCENE, high) as drawing:
        for edge, look in _EDGES.items():
            some = np.flatnonzero((frame["edge"] == edge) & (frame["above"] >= 0))
            drawing.lines(np.stack([at[frame["above"].iloc[some]], at[some]], axis=1), *look)
        for kind in ("orphan", "new"):
            drawing.marks(kind, *at[frame["what"] == kind].T)
        for (what, role), some in frame.groupby(["what", "role"]):
            of = {"dead": "dead", "root": "root", "cut off": f"{role} cut off"}
            drawing.marks(of.get(what, role), some["x"], some["y"])
        told = frame["node"].isin(named) | frame["what"].isin(["dead", "new", "root"])
        drawing.numbers(_node_numbers(frame[told]), ha="center")
        drawing.legend(_keys(frame), 8, high - 23.5, _SCENE)
        for row in frame.itertuples():
            parent = "none" if row.root else "none; the node waits for a parent"
            if not row.root and not pd.isna(row.parent):
                parent = f"node {int(row.parent)}"
            what = _NODE_WORDS[row.what].format(row.role)
            drawing.spot(row.x, row.y, [f"node {row.node}", what, f"parent: {parent}"])
        return drawing.finished(name, title, words, heading, tables=("watched_trees",))


def _node_numbers(frame: pd.DataFrame) -> Iterator[tuple[float, float, str]]:
    """Yield the places of the numbers of nodes; of two that would overlap, one is lower."""
    ends: dict[tuple[float, int], float] = {}
    for y, x, node in sorted(zip(frame["y"], frame["x"], frame["node"], strict=True)):
        half = len(str(node)) * CHARACTER / 2 + 1
        row = next((r for r in range(3) if ends.get((y, r), -1.0) <= x - half), 2)
        ends[y, row] = x + half
        yield x, y + 11.5 + 7.5 * row, str(node)


def _keys(frame: pd.DataFrame) -> Iterator[Key]:
    """Yield the entries of the legend for the kinds of nodes and edges that are there."""
    there = {*frame["what"], *frame.loc[frame["alive"], "role"]}
    for kind in ("root", "member", "forwarder", "dead", "orphan", "cut off", "new"):
        mark, words = _KEYS.get(kind, (kind, kind))
        if kind in there:
            yield mark, words
    if ((frame["edge"] == "new") & (frame["above"] >= 0)).any():
        yield {"colour": NEW, "width": 2}, "new parent"


#: Kinds of nodes whose name is neither that of the mark nor the words of the legend.
_KEYS = {"cut off": ("member cut off", "below an orphan"), "new": ("new", "new in the tree")}
