"""The picture of the ring; a tree before a failure, in it and after its repair."""

import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from scribe_spark import schemas
from scribe_spark.report.pictures import ring_picture, scene_figures, scene_of
from scribe_spark.report.svg import Canvas

from .sample import texts, words


@pytest.fixture
def marks(monkeypatch) -> Counter:
    """How many marks and lines of each look are drawn, also in the legend."""
    found: Counter = Counter()
    draw_marks, draw_lines = Canvas.marks, Canvas.lines

    def count_marks(canvas, kind, x, y, **other):
        found[kind, *other.values()] += np.size(x)
        draw_marks(canvas, kind, x, y, **other)

    def count_lines(canvas, ends, colour, width, *more, **look):
        found[colour, width] += len(ends)
        draw_lines(canvas, ends, colour, width, *more, **look)

    monkeypatch.setattr(Canvas, "marks", count_marks)
    monkeypatch.setattr(Canvas, "lines", count_lines)
    return found


# --- the ring

#: Node -> the first half of its nodeId: at 0, a quarter, a half and three quarters of the ring.
HALVES = {7: 0, 8: 2**62, 9: -(2**63), 5: -(2**62)}
NODES = pd.DataFrame({"node": list(HALVES), "id_hi": list(HALVES.values())})
LINKS = pd.DataFrame({"sender": [7, 8, 9], "receiver": [8, 9, 7], "first": [True, True, False]})


@pytest.mark.parametrize(
    ("parts", "legend", "counts"),
    [
        ({}, ["node"], {"node": 4 + 1}),
        (
            {"marked": {"its leaf set": [7, 8], "node 5": [5]}},
            ["node", "its leaf set", "node 5"],
            {("member", 5.2, "#d55e00"): 2, ("member", 5.2, "#0072b2"): 1},
        ),
        (
            {"route": [7, 8, 9], "key": 2**62 + 5},
            ["node", "key 4000...", "start 0000...", "hop 1, to 4000...", "hop 2, to 8000..."],
            {("member", 5.2): 3, "key": 2},
        ),
        ({"source": 9}, ["node", "source"], {"root": 2}),
        (
            {"links": LINKS},  # one that brings a first copy is thick
            ["first copy of a node", "duplicate", "node"],
            {("#c9d0d6", 0.5): 2, ("#4a545e", 1.2): 3},
        ),
    ],
)
def test_what_is_asked_for_is_drawn_and_explained(marks, parts, legend, counts):
    told = texts(ring_picture("a", "A ring", NODES, **parts))
    assert told[:16] == list("0123456789abcdef")
    assert told[16:] == legend
    for look, count in counts.items():
        assert marks[look if isinstance(look, tuple) else (look,)] == count


# --- a failure in a tree

#: A root 1 with children 2, 3 and 4, which have two children each: 20, 21, 30, ...
PARENTS = {1: None, 2: 1, 3: 1, 4: 1, **{10 * p + i: p for p in (2, 3, 4) for i in (0, 1)}}
NAMES = ["tree-before", "tree-failure", "tree-repaired"]


def frame(number: int, moment: str, group: int, parents: dict, orphans=(), dead=()) -> pd.DataFrame:
    """`schemas.WATCHED_TREES` of one tree: the leaves are members, node 1 is the root."""
    rows = [
        (
            number,
            moment,
            group,
            node,
            parent,
            node > 9,
            node == 1,
            node in orphans,
            node not in dead,
        )
        for node, parent in parents.items()
    ]
    return pd.DataFrame(rows, columns=schemas.WATCHED_TREES.names)


def failure(number: int, group: int, node: int = 3, rounds: int = 2) -> list[pd.DataFrame]:
    """An inner node dies; its children get node 2 as their parent some rounds later."""
    children = [child for child, parent in PARENTS.items() if parent == node]
    left = {n: p for n, p in PARENTS.items() if n != node}
    waiting = left | dict.fromkeys(children, None)
    mended = left | dict.fromkeys(children, 2)
    parts = [frame(number, "before", group, PARENTS)]
    if rounds:
        dying = frame(number, "after", group, left | {node: PARENTS[node]}, children, [node])
        parts.append(dying)
        for later in range(number + 1, number + rounds):
            parts.append(frame(later, "after", group, waiting, children))
        parts.append(frame(number + rounds, "after", group, mended))
    else:
        parts.append(frame(number, "after", group, mended | {node: PARENTS[node]}, (), [node]))
    return parts


def scene(*parts: list[pd.DataFrame]):
    return scene_of(pd.concat([one for part in parts for one in part], ignore_index=True))


def drawn(*parts: list[pd.DataFrame]) -> dict:
    return {figure.name: figure for figure in scene_figures(scene(*parts))}


def told(figure) -> dict[str, list[str]]:
    return {lines[0]: lines[1:] for lines in words(figure.svg)}


def test_the_three_drawings_of_a_failure(marks):
    figures = drawn(failure(4, 7))
    assert {name: figure.title for name, figure in figures.items()} == dict(
        zip(NAMES, ["Before round 4", "In round 4", "After round 6"], strict=True)
    )
    assert [figure.words for figure in figures.values()] == [
        "10 nodes, 6 of them members; the root is node 1.",
        "Node 3 dies. 2 nodes are orphans; with what is below them, 2 live nodes are cut off from "
        "the root.",
        "2 rounds later no node is an orphan: 2 nodes have a new parent, 0 are new in the tree.",
    ]
    before, during, after = map(told, figures.values())
    assert before["node 3"] == ["forwarder", "parent: node 1"]
    assert during["node 3"] == ["died in this round", "parent: node 1"]
    assert during["node 30"] == ["member, an orphan", "parent: node 3"]
    assert "node 3" not in after
    assert after["node 30"] == ["member", "parent: node 2"]
    assert after["node 1"] == ["the root, forwarder", "parent: none"]
    # each also once in the legend; edges of orphans are dashed, those to new parents thick
    assert marks["dead",] == 1 + 1
    assert marks["orphan",] == 2 + 1
    assert marks["#d55e00", 1] == 2
    assert marks["#0072b2", 2] == 2 + 1


def test_which_failure_is_drawn():
    def chosen(*parts: list[pd.DataFrame]) -> tuple[int, int]:
        found = scene(*parts)
        return found.group, found.number

    # the first one; of equals the least group
    assert chosen(failure(9, 3), failure(4, 8), failure(4, 7)) == (7, 4)
    # one that is repaired
    assert chosen(failure(9, 3), failure(4, 8)[:-1]) == (3, 9)
    assert scene(failure(4, 8)[:-1]).after["orphan"].any()
    # orphans that can be seen
    assert chosen(failure(4, 3, rounds=0), failure(9, 8)) == (8, 9)
    # not that of the root, if there is another
    root = [one.assign(root=one["node"] == 3) for one in failure(2, 1)]
    assert chosen(root, failure(9, 8)) == (8, 9)
    assert chosen(root) == (1, 2)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_parents_there_are_can_be_drawn(seed):
    """Circles, parents that are not in the tree, two roots, no root, dead roots."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 12))
    nodes = draw.choice(40, n, replace=False).tolist()

    def some(moment: str, number: int) -> pd.DataFrame:
        parents = {
            node: (None if draw.random() < 0.2 else int(draw.choice([*nodes, 99])))
            for node in nodes
        }
        flags = [[node for node in nodes if draw.random() < 0.3] for _ in range(2)]
        dead = {*flags[1], nodes[0]} if (moment, number) == ("after", 1) else ()
        one = frame(number, moment, 3, parents, flags[0], dead)
        return one.assign(root=draw.random(n) < 0.2)

    for figure in drawn([some("before", 1), some("after", 1), some("after", 2)]).values():
        assert len(words(figure.svg)) <= n
        assert not re.search(r"nan|inf\b", figure.svg)
