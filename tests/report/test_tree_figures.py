"""Drawings of trees: over a map, in layers, by places where they are large."""

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from scribe_spark.report.run import render
from scribe_spark.report.style import DEPTHS
from scribe_spark.report.trees import (
    MOST_LINES,
    MOST_NODES,
    GroupTree,
    RunTrees,
    has_map,
    layers,
    subtree_sizes,
    tree_figures,
)

from .test_page import NOTHING, Page
from .test_readouts import words

SVG = "{http://www.w3.org/2000/svg}"
COLOURS = [colour for colour, _ in DEPTHS]


def network(stubs: int = 12, routers: int = 5) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two transit domains of two routers, and stub domains."""
    draw = np.random.default_rng(5)
    domain = np.r_[[0, 0, 1, 1], 2 + np.repeat(np.arange(stubs), routers)]
    n = len(domain)
    frame = pd.DataFrame(
        {
            "router": np.arange(n),
            "kind": ["transit"] * 4 + ["stub"] * (n - 4),
            "domain": domain,
            "x": 100.0 * domain + draw.uniform(0, 50, n),
            "y": 70.0 * (domain % 4) + draw.uniform(0, 50, n),
        }
    )
    links = pd.DataFrame({"src": [0, 1, 2, 0, 4], "dst": [1, 2, 3, 4, 0], "delay_ms": 1.0})
    return frame, links


def random_tree(n: int, routers: int, seed: int = 1, most: int | None = None) -> GroupTree:
    """A node's parent is one before it; node numbers and members are drawn."""
    draw = np.random.default_rng(seed)
    parent = np.array([-1, *(int(draw.integers(0, min(i, most or i))) for i in range(1, n))])
    depth = np.zeros(n, dtype=np.int64)
    for index in range(1, n):
        depth[index] = depth[parent[index]] + 1
    node = np.sort(draw.choice(10 * n, n, replace=False))
    member = draw.random(n) < 0.6
    return GroupTree(
        7, int(member.sum()), node, parent, depth, member, draw.integers(0, routers, n)
    )


def drawn(tree: GroupTree, frame: pd.DataFrame, links: pd.DataFrame):
    (figure,) = tree_figures(RunTrees([("largest group", tree)], frame, links))
    return figure


def strokes(svg: str) -> list[str]:
    """Colours of the edges that are drawn, by depth."""
    root = ElementTree.fromstring(svg)
    return [p.get("stroke") for p in root.iter(f"{SVG}path") if p.get("stroke") in COLOURS]


def test_a_small_tree_has_every_edge_by_depth_and_every_node():
    frame, links = network()
    tree = random_tree(60, len(frame))
    for routers in (frame, frame.assign(x=np.nan, y=np.nan)):
        figure = drawn(tree, routers, links)
        expected = np.bincount(np.minimum(tree.depth[1:], len(COLOURS)), minlength=6)[1:]
        assert [strokes(figure.svg).count(colour) for colour in COLOURS] == expected.tolist()
        told = words(figure.svg)
        assert len(told) == 60
        children = np.bincount(tree.parent[1:], minlength=60)
        by_node = {lines[0].removesuffix(", the root"): lines for lines in told}
        for index, node in enumerate(tree.node):
            what = "member" if tree.member[index] else "forwarder"
            lines = by_node[f"node {node}"]
            assert lines[1] == f"{what}, depth {tree.depth[index]}"
            assert lines[2].split()[0] == str(children[index])
            assert lines[3].startswith(f"router {tree.router[index]}")
        assert [lines[0] for lines in told if "root" in lines[0]] == [
            f"node {tree.node[0]}, the root"
        ]
        assert figure.svg.count("<polygon") == 2  # the root, and its mark in the legend
        legend = [
            "".join(e.itertext()) for e in ElementTree.fromstring(figure.svg).iter(f"{SVG}text")
        ]
        assert {"edges by depth", "root", "member", "forwarder"} <= set(legend)


def test_a_large_tree_is_drawn_by_domains():
    frame, links = network()
    tree = random_tree(3000, len(frame), most=40)
    figure = drawn(tree, frame, links)
    domain = frame["domain"].to_numpy()[tree.router]
    level = np.minimum(tree.depth[1:], len(COLOURS))
    pairs = list(zip(level, domain[tree.parent[1:]], domain[1:], strict=True))
    between = {pair for pair in pairs if pair[1] != pair[2]}
    counts = [min(sum(d == depth for d, _, _ in between), MOST_LINES) for depth in range(1, 6)]
    assert [strokes(figure.svg).count(colour) for colour in COLOURS] == counts
    inside = sum(up == down for _, up, down in pairs)
    assert f"Not drawn: {inside:,} edges inside a domain." in figure.caption
    told = {lines[0]: lines for lines in words(figure.svg)}
    assert len(told) == len(np.unique(domain))
    assert told["stub domain 5"][1] == f"{(domain == 5).sum()} nodes of the tree"
    assert told["transit domain 0"][1] == f"{(domain == 0).sum()} nodes of the tree"


def test_too_many_lines_of_a_depth_are_cut_and_it_is_said():
    frame, links = network(stubs=40, routers=2)
    tree = random_tree(6000, len(frame), most=300)
    figure = drawn(tree, frame, links)
    most = max(strokes(figure.svg).count(colour) for colour in COLOURS)
    assert most == MOST_LINES
    assert f"evenly chosen lines: {MOST_LINES} of " in figure.caption
    assert len(figure.svg) < 500_000


def test_a_large_tree_without_coordinates_is_drawn_in_layers():
    frame, links = network()
    tree = random_tree(5000, len(frame))
    figure = drawn(tree, frame.assign(x=np.nan), links)
    assert words(figure.svg)[0][0] == f"node {tree.node[0]}, the root"
    assert words(figure.svg)[0][3] == "4,999 nodes below it"
    # bars of one depth lie side by side, each below that of its parent
    bars: dict[str, list[tuple[float, float]]] = {}
    for bar in ElementTree.fromstring(figure.svg).iter(f"{SVG}rect"):
        if bar.get("class") == "area":
            x, width = float(bar.get("x", "")), float(bar.get("width", ""))
            bars.setdefault(bar.get("y", ""), []).append((x, x + width))
    assert len(bars) > 4
    above = [(0.0, 1000.0)]
    for y in sorted(bars, key=float):
        here = sorted(bars[y])
        for one, other in pairwise(here):
            assert one[1] <= other[0] + 0.02
        for left, right in here:
            assert any(a - 0.02 <= left and right <= b + 0.02 for a, b in above)
        above = here
    assert len(figure.svg) < 500_000


def test_routers_without_domains_are_places_of_their_own():
    frame, links = network()
    frame = frame.assign(kind=None, domain=pd.array([None] * len(frame), dtype="Int64"))
    assert has_map(frame)
    small, large = random_tree(20, len(frame)), random_tree(MOST_NODES + 1, len(frame))
    assert "stub" not in drawn(small, frame, links).svg
    assert {lines[0].split()[0] for lines in words(drawn(large, frame, links).svg)} == {"router"}
    assert "edges inside a router" in drawn(large, frame, links).caption


@pytest.mark.parametrize("n", [1, 2, MOST_NODES, MOST_NODES + 1])
@pytest.mark.parametrize("has_coordinates", [True, False])
def test_any_size_can_be_drawn_and_equal_trees_are_drawn_alike(n, has_coordinates):
    frame, links = network()
    frame = frame if has_coordinates else frame.assign(y=np.nan)
    tree = random_tree(n, len(frame))
    figure = drawn(tree, frame, links)
    shuffled = frame.sample(frac=1, random_state=3), links.sample(frac=1, random_state=3)
    assert drawn(tree, shuffled[0], links) == figure
    ElementTree.fromstring(figure.svg)
    assert not any(text in figure.svg for text in ("nan", "inf", "<script"))


def test_a_map_of_one_point():
    frame, links = network()
    figure = drawn(random_tree(30, len(frame)), frame.assign(x=1.0, y=2.0), links)
    assert "nan" not in figure.svg
    assert "0\N{NO-BREAK SPACE}% at depth 1" in figure.words


def test_layout_and_subtrees_against_recursion():
    tree = random_tree(300, 4)
    below = {i: [c for c in range(300) if tree.parent[c] == i] for i in range(300)}

    def count(index: int) -> int:
        return 1 + sum(map(count, below[index]))

    assert subtree_sizes(tree).tolist() == [count(index) for index in range(300)]
    across = layers(tree.parent, tree.node)
    leaves = [index for index in range(300) if not below[index]]
    assert sorted(across[leaves]) == list(range(len(leaves)))
    for index, children in below.items():
        if children:
            assert across[index] == (across[children[0]] + across[children[-1]]) / 2


def test_the_page_has_the_trees_and_says_what_is_left_out():
    frame, links = network()
    trees = [
        ("smallest group", random_tree(5, len(frame), 1)),
        ("median group", replace(random_tree(40, len(frame), 2), group=8)),
        ("largest group", replace(random_tree(900, len(frame), 3), group=9)),
    ]
    report = render([], {}, NOTHING, RunTrees(trees, frame, links, "<2> groups are not drawn."))
    page = Page(report.html)
    assert len(page.ids) == len(set(page.ids))
    names = ["tree-smallest", "tree-median", "tree-largest"]
    assert [name for name in report.figures if name.startswith("tree")] == names
    assert all(report.figures[name] in report.html for name in names)
    assert "Group 9, the largest group" in report.html
    assert "&lt;2&gt; groups are not drawn." in report.html
    assert 'id="trees"' not in render([], {}, NOTHING).html
