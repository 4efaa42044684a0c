"""Pictures of the ring of keys, and of a small tree before, at and after a failure.

References
----------
JSAC 2002, Section III.B.1: repairing the multicast tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise

import numpy as np
import pandas as pd

from scribe_spark.report.canvas import (
    CHARACTER,
    GREY,
    INK,
    LEGEND,
    NEW,
    ORPHAN,
    Canvas,
    Key,
    canvas,
    finished,
)
from scribe_spark.report.style import depth_style
from scribe_spark.report.svg import PageFigure
from scribe_spark.report.trees import layers

# --- the ring of keys

#: The side of the drawing without its legend, and the radius of the ring.
_SIDE, _RADIUS = 212.0, 90.0
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
    with canvas(_SIDE + LEGEND, _SIDE) as drawing:
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
        drawing.legend(keys, _SIDE + 6, 22.5)
        words = (
            f"{len(nodes):,} nodes on the ring of keys; {', '.join(words for _, words in keys)}."
        )
        return finished(drawing, name, heading, words).drawing


def _hex(words: str, half: int) -> str:
    """Return `words` and the first digits of the key with the upper half `half`."""
    return f"{words} {half % 2**64:016x}"[: len(words) + 1 + _DIGITS] + "..."


def _point(turn: float, radius: float = _RADIUS) -> tuple[float, float]:
    """Return the point on a circle at an angle in turns, clockwise from the top."""
    angle = 2 * np.pi * turn
    return _SIDE / 2 + radius * float(np.sin(angle)), _SIDE / 2 - radius * float(np.cos(angle))


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

_WIDTH, _TOP, _STEP, _MARGIN = 290.0, 14.0, 40.0, 12.0
_COLUMNS = ["node", "parent", "member", "root", "orphan", "alive"]

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
    told = {key: rows[_COLUMNS] for key, rows in watched.groupby(["group", "round", "moment"])}
    struck = [(group, number) for group, number, moment in told if moment == "before"]

    def rank(scene: Scene) -> tuple:
        dead = scene.during[~scene.during["alive"]]
        return (
            not scene.is_repaired,
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
    frame = tree.assign(orphan=False, alive=True)[_COLUMNS]
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
    return f"{dead}. {are}, {_are(int(during['cut'].sum()), 'live node')} cut off from the root."


def _after_words(scene: Scene, after: pd.DataFrame) -> str:
    more = scene.last - scene.number
    when = "In the same round" if not more else f"{more} round{'s' * (more > 1)} later"
    ends = "no node is an orphan" if scene.is_repaired else "the tree is not repaired yet"
    known = after["node"].isin(scene.before["node"])
    moved, new = int((known & (after["edge"] == "new")).sum()), int((~known).sum())
    have = "1 node has" if moved == 1 else f"{moved} nodes have"
    return f"{when} {ends}: {have} a new parent, {_are(new)} new in the tree."


def _are(count: int, noun: str = "") -> str:
    words = f"{count} {noun}".rstrip() + "s" * (bool(noun) and count != 1)
    return f"{words} {'is' if count == 1 else 'are'}"


def _laid_out(
    frame: pd.DataFrame, before: pd.DataFrame, order: pd.Series | None = None
) -> pd.DataFrame:
    """Return a tree with the places, the kinds and the edges of its nodes.

    `before` is the tree before the failure, and `order` has the horizontal positions there:
    siblings keep their order, and new ones come last.
    """
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
        x=_MARGIN + across * (_WIDTH - 2 * _MARGIN) / max(across.max(initial=0), 1.0),
        y=_TOP + _STEP * depth,
        cut=cut,
        what=np.select(is_, [*_NODE_WORDS][:-1], "new"),
        edge=np.select([~frame["alive"], frame["orphan"], moved], [*_EDGES][1:], "old"),
        role=np.where(frame["member"], "member", "forwarder"),
    )


def _above(frame: pd.DataFrame, last: pd.Series) -> np.ndarray:
    """Return the index of the node drawn above each node, an orphan's last parent; -1 at the top.

    Circles of the last parents of orphans are cut.
    """
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
    with canvas(_WIDTH, high) as drawing:
        for edge, look in _EDGES.items():
            some = np.flatnonzero((frame["edge"] == edge) & (frame["above"] >= 0))
            drawing.lines(np.stack([at[frame["above"].iloc[some]], at[some]], axis=1), *look)
        for kind in ("orphan", "new"):
            drawing.marks(kind, *at[frame["what"] == kind].T)
        for (what, role), some in frame.groupby(["what", "role"]):
            of = {"dead": "dead", "root": "root", "cut off": f"{role} cut off"}
            drawing.marks(of.get(what, role), some["x"], some["y"])
        told = frame["node"].isin(named) | frame["what"].isin(["dead", "new", "root"])
        drawing.numbers(_numbers(frame[told]), ha="center")
        drawing.legend(_keys(frame), 8, high - 23.5, _WIDTH)
        for row in frame.itertuples():
            parent = "none" if row.root else "none; the node waits for a parent"
            if not row.root and not pd.isna(row.parent):
                parent = f"node {int(row.parent)}"
            what = _NODE_WORDS[row.what].format(row.role)
            drawing.spot(row.x, row.y, [f"node {row.node}", what, f"parent: {parent}"])
        tables = ("watched_trees",)
        return finished(drawing, name, title, words, tables=tables, heading=heading)


def _numbers(frame: pd.DataFrame) -> Iterator[tuple[float, float, str]]:
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
    for kind, mark, words in (
        ("root", "root", "root"),
        ("member", "member", "member"),
        ("forwarder", "forwarder", "forwarder"),
        ("dead", "dead", "dead"),
        ("orphan", "orphan", "orphan"),
        ("cut off", "member cut off", "below an orphan"),
        ("new", "new", "new in the tree"),
    ):
        if kind in there:
            yield mark, words
    if ((frame["edge"] == "new") & (frame["above"] >= 0)).any():
        yield {"colour": NEW, "width": 2}, "new parent"
