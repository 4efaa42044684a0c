"""Pictures of the ring of keys, and of a small tree before, at and after a failure.

The picture of the ring has its nodes, the route of a message, and links between nodes.  The picture
of a tree shows the tree in the round before a failure, in its round, and after the repair, as a
world's page draws it.

References
----------
JSAC 2002, Section III.B.1: repairing the multicast tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.report.style import depth_style
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
from scribe_spark.report.trees import HALO, INK, LEGEND, TEXT, dot, layers, star

# --- the ring of keys


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
    body = [*(mark for drawn, _ in parts for mark in drawn), *_ring_legend(keys)]
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


def _ring_legend(keys: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"<g {TEXT}>\n"
    for number, (mark, words) in enumerate(keys):
        y = 20.0 + 12 * number
        yield f'<g transform="translate({_SIDE + 6:g} {y:g})">{mark.strip()}</g>'
        yield f'<text x="{_SIDE + 15:g}" y="{y + 2.5:g}">{escape(words)}</text>\n'
    yield "</g>\n"


# --- trees


#: The range of tree sizes that are good for a drawing.
_NODES = range(8, 41)

_WIDTH, _TOP, _STEP, _MARGIN = 290.0, 14.0, 40.0, 12.0
_EDGE, _NEW, _DEAD = "#7a858f", "#0072b2", "#c1272d"
_ORPHAN, _GONE = "#d55e00", "#b9c1c8"


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

    @property
    def is_repaired(self) -> bool:
        """True if no node is an orphan after the last round."""
        return not self.after["orphan"].any()


def scene_of(watched: pd.DataFrame) -> Scene | None:
    """Return the failure to draw; None if no watched tree lost an inner node.

    The function prefers failures that were repaired before the next failure, in trees of medium
    size, in which the root lived, few nodes died, and orphans waited for at least one round.  Among
    equal failures it takes the first one, then the one of the smallest group number.
    """
    told = {key: rows for key, rows in watched.groupby(["group", "round", "moment"])}
    struck = sorted((group, number) for group, number, moment in told if moment == "before")
    scenes = [_scene(told, group, number) for group, number in struck]
    ranked = sorted(scenes, key=lambda scene: _rank(scene, struck))
    return ranked[0] if ranked else None


_COLUMNS = ["node", "parent", "member", "root", "orphan", "alive"]


def _scene(told: dict[tuple, pd.DataFrame], group: int, number: int) -> Scene:
    before, during = (told[group, number, moment][_COLUMNS] for moment in ("before", "after"))
    last = number
    while told[group, last, "after"]["orphan"].any() and (group, last + 1, "after") in told:
        # dead nodes are listed in the round of their death
        last += 1
    after = told[group, last, "after"][_COLUMNS]
    if not (during["orphan"] & during["alive"]).any():  # repaired in the round itself
        dead = during.loc[~during["alive"], "node"]
        during = before.assign(alive=~before["node"].isin(dead), orphan=before["parent"].isin(dead))
    return Scene(int(group), int(number), int(last), before, during, after[after["alive"]])


def _rank(scene: Scene, struck: Sequence[tuple[int, int]]) -> tuple:
    again = any(g == scene.group and scene.number < n <= scene.last for g, n in struck)
    dead = scene.during[~scene.during["alive"]]
    return (
        not scene.is_repaired,
        again,
        len(scene.before) not in _NODES,
        scene.last == scene.number,
        bool(dead["root"].any()),
        len(dead),
        scene.number,
        scene.group,
    )


# --- drawing


def scene_figures(scene: Scene) -> list[PageFigure]:
    """Return the drawings of the tree: before the failure, in it, and after the repair."""
    number, last = scene.number, scene.last
    live = scene.during["alive"]
    dead = scene.during.loc[~live, "node"].tolist()
    orphans = scene.during.loc[scene.during["orphan"] & live, "node"].tolist()
    cut = int(_cut_off(scene.during, _above(scene.during, scene.before)).sum())
    first = _places(scene.before, _above(scene.before, scene.before), {})
    order = dict(zip(scene.before["node"].tolist(), first.tolist(), strict=True))
    panels = (
        ("tree-before", f"Before round {number}", _before_words(scene), scene.before),
        ("tree-failure", f"In round {number}", _failure_words(dead, orphans, cut), scene.during),
        ("tree-repaired", f"After round {last}", _after_words(scene), scene.after),
    )
    named = {int(node) for node in (*dead, *orphans)}
    figures = []
    for name, title, words, frame in panels:
        size, body = _panel(frame, scene.before, order, named)
        svg = plain_svg(name, f"Group {scene.group}: {title}", words, size, body)
        figures.append(PageFigure(name, title, svg, words=words, tables=("watched_trees",)))
    return figures


def tree_picture(name: str, heading: str, tree: pd.DataFrame) -> str:
    """Draw a tree in layers, its root on top, as an ``<svg>`` element.

    Parameters
    ----------
    name : str
        A name for the ids in the drawing.
    heading : str
        The title.
    tree : pandas.DataFrame
        ``node, parent, member, root``: the nodes of a group, as `World.memberships` has them; the
        root has no parent.
    """
    frame = tree.assign(orphan=False, alive=True)[_COLUMNS].sort_values("node", ignore_index=True)
    order = _places(frame, _above(frame, frame), {})
    at = dict(zip(frame["node"].tolist(), order.tolist(), strict=True))
    inner = {int(node) for node in frame["parent"].dropna()}
    size, body = _panel(frame, frame, at, inner)
    members, most = int(frame["member"].sum()), int(frame["parent"].value_counts().max())
    words = f"{len(frame)} nodes, {members} of them members; at most {most} children of a node."
    return plain_svg(name, heading, words, size, body)


def _before_words(scene: Scene) -> str:
    root = scene.before.loc[scene.before["root"], "node"].tolist()
    words = f"{len(scene.before)} nodes, {int(scene.before['member'].sum())} of them members"
    return f"{words}; the root is node {root[0]}." if root else f"{words}."


def _failure_words(dead: list[int], orphans: list[int], cut: int) -> str:
    words = f"{_nodes(dead)} {'dies' if len(dead) == 1 else 'die'}. "
    if len(orphans) == 1:
        words += "1 node is an orphan; with what is below it, "
    else:
        words += f"{len(orphans)} nodes are orphans; with what is below them, "
    some = "1 live node is" if cut == 1 else f"{cut} live nodes are"
    return f"{words}{some} cut off from the root."


def _after_words(scene: Scene) -> str:
    known = dict(zip(scene.before["node"], scene.before["parent"], strict=True))
    here = list(zip(scene.after["node"], scene.after["parent"], strict=True))
    moved = sum(n in known and not pd.isna(p) and known[n] != p for n, p in here)
    new = sum(n not in known for n, _ in here)
    more = scene.last - scene.number
    when = "In the same round" if not more else f"{more} round{'s' * (more > 1)} later"
    ends = "no node is an orphan" if scene.is_repaired else "the tree is not repaired yet"
    return (
        f"{when} {ends}: {moved} {'node has' if moved == 1 else 'nodes have'} a new parent, {new} "
        f"{'is' if new == 1 else 'are'} new in the tree."
    )


def _nodes(numbers: Sequence[int]) -> str:
    """Return words such as ``Nodes 3, 17 and 25``."""
    words = [str(int(number)) for number in numbers]
    if len(words) == 1:
        return f"Node {words[0]}"
    return f"Nodes {', '.join(words[:-1])} and {words[-1]}"


def _above(frame: pd.DataFrame, before: pd.DataFrame) -> np.ndarray:
    """Return the index of the node drawn above each node: an orphan's last parent.

    The index is -1 for a node at the top. Circles of the last parents of orphans are cut.
    """
    index = {int(node): place for place, node in enumerate(frame["node"])}
    last = dict(zip(before["node"], before["parent"], strict=True))
    above = np.full(len(frame), -1)
    for place, (node, parent, root) in enumerate(
        zip(frame["node"], frame["parent"], frame["root"], strict=True)
    ):
        parents = [] if root else [parent, last.get(node)]
        found = [index[int(p)] for p in parents if not pd.isna(p) and int(p) in index]
        above[place] = found[0] if found else -1
        at, steps = int(above[place]), 0
        while at >= 0 and at != place and steps <= len(frame):
            at, steps = int(above[at]), steps + 1
        if at >= 0:
            above[place] = -1
    return above


def _places(frame: pd.DataFrame, above: np.ndarray, order: dict[int, float]) -> np.ndarray:
    """Return horizontal positions of nodes; siblings keep their order, new ones come last.

    `above` has the row of each node's parent (-1: none), `order` the earlier position by node.
    """
    rank = np.array([order.get(int(node), np.inf) for node in frame["node"]])
    by_rank = np.empty(len(frame))
    by_rank[np.lexsort((frame["node"], rank))] = np.arange(len(frame))
    return layers(above, by_rank)


def _depths(above: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return the layer of each node: 0 for the root, 1 for a node without a way to the root.

    `above` has the row of each node's parent (-1: none); `root` marks roots.
    """
    depth = np.where(root, 0, 1)
    for _ in above:
        depth = np.where(above >= 0, depth[above] + 1, depth)
    return depth


def _cut_off(frame: pd.DataFrame, above: np.ndarray) -> np.ndarray:
    """Return True for live nodes that are orphans, or below an orphan in the drawing.

    `above` has the row of each node's parent (-1: none).
    """
    alive = frame["alive"].to_numpy(dtype=bool)
    cut = frame["orphan"].to_numpy(dtype=bool) & alive
    for _ in above:
        cut |= (above >= 0) & cut[above]
    return cut & alive


def _panel(
    frame: pd.DataFrame, before: pd.DataFrame, order: dict[int, float], named: set[int]
) -> tuple[tuple[float, float], list[str]]:
    """Draw a tree in layers; return the size of the drawing, and its elements.

    `before` is the tree of the drawing before, `order` the horizontal positions there, `named` the
    nodes with numbers.
    """
    frame = frame.sort_values("node").reset_index(drop=True)
    above = _above(frame, before)
    across, cut = _places(frame, above, order), _cut_off(frame, above)
    depth = _depths(above, frame["root"].to_numpy(dtype=bool))
    x = _MARGIN + across * (_WIDTH - 2 * _MARGIN) / max(across.max(initial=0), 1.0)
    y = _TOP + _STEP * depth
    last = dict(zip(before["node"], before["parent"], strict=True))
    drawn, labels, spots = [], [], []
    height = _TOP + _STEP * int(depth.max(initial=0)) + 58
    seen, new_edges = set[str](), False
    for place, row in enumerate(frame.itertuples()):
        if above[place] >= 0:
            up = above[place]
            is_new = not pd.isna(row.parent) and last.get(row.node) != row.parent
            if not row.alive:
                look = f'stroke="{_GONE}" stroke-dasharray="2 2"'
            elif row.orphan:
                look = f'stroke="{_ORPHAN}" stroke-dasharray="3 2"'
            elif is_new:
                look, new_edges = f'stroke="{_NEW}" stroke-width="2"', True
            else:
                look = f'stroke="{_EDGE}"'
            ends = path((x[up], y[up]), (x[place], y[place]))
            drawn.append(f'<path d="{ends}" {look}/>\n')
    for place, row in enumerate(frame.itertuples()):
        at = float(x[place]), float(y[place])
        kind, what = _kind(row, bool(cut[place]), row.node in last)
        drawn.append(_mark(kind, bool(row.member), *at))
        seen |= {kind, *(["member" if row.member else "forwarder"] if row.alive else [])}
        if int(row.node) in named or kind in ("dead", "new") or row.root:
            labels.append((depth[place], at[0], at[1], str(int(row.node))))
        words = [f"node {int(row.node)}", what, f"parent: {_parent(row)}"]
        area = shape("circle", cx=at[0], cy=at[1], r=5)
        spots.append(spot_svg(Spot(area, at[0] + 4, at[1] + 6, words), _WIDTH, height))
    body = [*drawn, *_labels(labels), *_legend(seen, new_edges, height - 26), *spots]
    return (_WIDTH, height), body


def _kind(row: Any, is_cut_off: bool, is_known: bool) -> tuple[str, str]:
    """Return the name of a node's mark, and words about the node."""
    member = "member" if row.member else "forwarder"
    if not row.alive:
        return "dead", "died in this round"
    if row.root:
        return "root", f"the root, {member}"
    if row.orphan:
        return "orphan", f"{member}, an orphan"
    if is_cut_off:
        return "cut off", f"{member}, below an orphan"
    return ("alive", member) if is_known else ("new", f"{member}, new in the tree")


def _parent(row: Any) -> str:
    if row.root:
        return "none"
    if pd.isna(row.parent):
        return "none; the node waits for a parent"
    return f"node {int(row.parent)}"


def _mark(kind: str, member: bool, x: float, y: float) -> str:
    if kind == "dead":
        d = f"M{coordinate(x - 3.2)} {coordinate(y - 3.2)}l6.4 6.4m0 -6.4l-6.4 6.4"
        return element("path", d=d, stroke=_DEAD, stroke_width="1.8", fill="none")
    if kind == "root":
        return star(x, y)
    mark = dot(x, y, member).replace(INK, "#9aa4ad") if kind == "cut off" else dot(x, y, member)
    if ring := {"orphan": _ORPHAN, "new": _NEW}.get(kind):
        look = {"fill": "#fff", "stroke": ring, "stroke_width": "1.5"}
        return element("circle", cx=x, cy=y, r=4.4, **look) + mark
    return mark


def _labels(labels: list[tuple[int, float, float, str]]) -> Iterator[str]:
    """Yield the numbers of nodes, as elements below their marks.

    Of two numbers that would overlap, one is lower.
    """
    yield f'<g {TEXT} text-anchor="middle" style="{HALO}">\n'
    ends: dict[tuple[int, int], float] = {}
    for depth, x, y, words in sorted(labels):
        half = len(words) * 4.4 / 2 + 1
        row = next((r for r in range(3) if ends.get((depth, r), -1.0) <= x - half), 2)
        ends[depth, row] = x + half
        yield f'<text x="{coordinate(x)}" y="{coordinate(y + 11.5 + 7.5 * row)}">{words}</text>\n'
    yield "</g>\n"


def _legend(seen: set[str], new_edges: bool, y: float) -> Iterator[str]:
    """Yield the entries of the legend, in rows, for the kinds of marks that are `seen`."""
    keys = [
        (_mark("root", False, 0, 0), "root", "root" in seen),
        (_mark("alive", True, 0, 0), "member", "member" in seen),
        (_mark("alive", False, 0, 0), "forwarder", "forwarder" in seen),
        (_mark("dead", False, 0, 0), "dead", "dead" in seen),
        (_mark("orphan", False, 0, 0), "orphan", "orphan" in seen),
        (_mark("cut off", True, 0, 0), "below an orphan", "cut off" in seen),
        (_mark("new", False, 0, 0), "new in the tree", "new" in seen),
        (f'<path d="M-5 0H5" stroke="{_NEW}" stroke-width="2"/>', "new parent", new_edges),
    ]
    yield f"<g {TEXT}>\n"
    x = 8.0
    for mark, words, is_there in keys:
        if not is_there:
            continue
        wide = 15 + len(words) * 4.4 + 10
        if x + wide > _WIDTH:
            x, y = 8.0, y + 13
        yield f'<g transform="translate({coordinate(x)} {coordinate(y)})">{mark.strip()}</g>'
        yield f'<text x="{coordinate(x + 9)}" y="{coordinate(y + 2.5)}">{words}</text>\n'
        x += wide
    yield "</g>\n"
