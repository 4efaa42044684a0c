"""Drawings of trees: over a map, in layers, by places where they are large; pictures of systems."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.colors import to_hex

from scribe_spark.experiments.publishing import _group_of_picture
from scribe_spark.experiments.reporting import read_pictures
from scribe_spark.report.pictures import (
    MOST_LINES,
    MOST_NODES,
    GroupTree,
    RunTrees,
    layers,
    subtree_sizes,
    tree_figures,
)
from scribe_spark.report.style import DEPTHS

from .sample import texts, words

COLOURS = [colour for colour, _ in DEPTHS]


def network(stubs: int = 12, routers: int = 5, **other) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two transit domains of two routers, and stub domains; `other` are other columns."""
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
    return frame.assign(**other), links


def random_tree(n: int, routers: int, seed: int = 1, most: int | None = None) -> GroupTree:
    """A node's parent is one before it; node numbers and members are drawn."""
    draw = np.random.default_rng(seed)
    parent = np.array([-1, *(int(draw.integers(0, min(i, most or i))) for i in range(1, n))])
    depth = np.zeros(n, dtype=np.int64)
    for index in range(1, n):
        depth[index] = depth[parent[index]] + 1
    node = np.sort(draw.choice(10 * n, n, replace=False))
    member = draw.random(n) < 0.6
    router = draw.integers(0, routers, n)
    return GroupTree(7, int(member.sum()), node, parent, depth, member, router)


def drawn(tree: GroupTree, frame: pd.DataFrame, links: pd.DataFrame):
    (figure,) = tree_figures(RunTrees([("largest group", tree)], frame, links))
    return figure


def edges(figure) -> list[int]:
    """How many edges have the colour of each depth; the first line of a colour is in the legend."""
    (axes,) = figure.figure.axes
    counts = dict.fromkeys(COLOURS, 0)
    for line in axes.lines:
        if line.get_color() in counts and line.get_linewidth() < 6:
            counts[line.get_color()] += int(np.isnan(line.get_xdata()).sum())
    for lines in axes.collections:
        for colour in map(to_hex, getattr(lines, "get_segments", list)() and lines.get_colors()):
            if colour in counts:
                counts[colour] += len(lines.get_segments())
    return list(counts.values())


@pytest.mark.parametrize("other", [{}, {"x": np.nan}], ids=["map", "layers"])
def test_a_small_tree_has_every_edge_by_depth_and_every_node(other):
    frame, links = network(**other)
    tree = random_tree(60, len(frame))
    figure = drawn(tree, frame, links)
    expected = np.bincount(np.minimum(tree.depth[1:], len(COLOURS)), minlength=6)[1:]
    assert edges(figure) == expected.tolist()
    told = words(figure.svg)
    children = np.bincount(tree.parent[1:], minlength=60)
    for index, (lines, node) in enumerate(zip(told, tree.node, strict=True)):
        assert lines[0] == f"node {node}" + ", the root" * (index == 0)
        what = "member" if tree.member[index] else "forwarder"
        assert lines[1] == f"{what}, depth {tree.depth[index]}"
        assert lines[2].split()[0] == str(children[index])
        assert lines[3].startswith(f"router {tree.router[index]}")
    assert {"edges by depth", "root", "member", "forwarder"} <= {*texts(figure.svg)}


def test_a_large_tree_is_drawn_by_domains():
    frame, links = network(stubs=40, routers=2)
    tree = random_tree(6000, len(frame), most=300)
    figure = drawn(tree, frame, links)
    domain = frame["domain"].to_numpy()[tree.router]
    level = np.minimum(tree.depth[1:], len(COLOURS))
    pairs = list(zip(level, domain[tree.parent[1:]], domain[1:], strict=True))
    between = {pair for pair in pairs if pair[1] != pair[2]}
    counts = [min(sum(d == depth for d, _, _ in between), MOST_LINES) for depth in range(1, 6)]
    assert edges(figure) == counts
    assert max(counts) == MOST_LINES  # not all lines are drawn
    assert f"evenly chosen lines: {MOST_LINES} of " in figure.caption
    inside = sum(up == down for _, up, down in pairs)
    assert f"Not drawn: {inside:,} edges inside a domain." in figure.caption
    told = {lines[0]: lines for lines in words(figure.svg)}
    assert len(told) == len(np.unique(domain))
    assert told["stub domain 5"][1] == f"{(domain == 5).sum()} nodes of the tree"
    assert told["transit domain 0"][1] == f"{(domain == 0).sum()} nodes of the tree"


@pytest.mark.parametrize("n", [1, 2, MOST_NODES, MOST_NODES + 1])
@pytest.mark.parametrize("other", [{}, {"y": np.nan}, {"x": 1.0, "y": 2.0}], ids=str)
def test_any_size_can_be_drawn_and_equal_trees_are_drawn_alike(n, other):
    frame, links = network(**other)
    tree = random_tree(n, len(frame))
    figure = drawn(tree, frame, links)
    shuffled = frame.sample(frac=1, random_state=3), links.sample(frac=1, random_state=3)
    assert drawn(tree, shuffled[0], links) == figure
    assert not any(text in figure.svg for text in ("nan", "inf", "<script"))
    if other.get("x") and n > 1:
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


# --- pictures of systems

#: Edges of pictures: NICE has two layers; node 5 is a parent and a child of SplitStream's node 3.
NICE = [(1, 2, -1, np.nan), (1, 3, 0, np.nan), (2, 4, 0, np.nan), (2, 5, 0, np.nan)]
OVERCAST = [(1, 2, -16, 100.0), (2, 3, -13, 1.5), (3, 4, -16, 1.5), (1, 5, -13, 1.5)]
SPLITSTREAM = [(3, 5, 0, 2.0), (3, 1, 0, 1.0), (3, 5, -1, np.nan), (3, 4, -8, np.nan)]


def pictures(**edges: list[tuple]) -> list[tuple[str, GroupTree]]:
    """Pictures of group 7, read from the tables of a run."""
    rows = [(name, 7, a, b, a, b, *more) for name, of in edges.items() for a, b, *more in of]
    ends = ["group", "parent", "child", "parent_router", "child_router"]
    found = {
        "pictures": pd.DataFrame(rows, columns=["system", *ends, "rank", "value"]),
        "groups": pd.DataFrame({"group": [7], "size": [4]}),
        "members": pd.DataFrame({"group": 7, "node": [2, 3, 4, 5]}),
    }
    return read_pictures(lambda name, of, among=None: pa.Table.from_pandas(found[name][of]))


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [([5000, 64, 63], [1]), ([5000, 65, 300], [1]), ([3, 9, 9], [1]), ([70], [0]), ([], [])],
)
def test_the_largest_small_group_has_a_picture(sizes, chosen):
    assert _group_of_picture(np.array(sizes)).tolist() == chosen


def test_a_picture_is_a_tree_whose_levels_are_ranks():
    found = dict(pictures(splitstream=SPLITSTREAM, nice=NICE, overcast=OVERCAST))
    assert list(found) == ["nice", "overcast", "splitstream"]  # as in the registry
    nice, star = found["nice"], found["splitstream"]
    assert nice.size == star.size == 4
    ends = sorted((nice.node[nice.parent[at]], nice.node[at], nice.level[at]) for at in nice.below)
    assert ends == [(1, 2, 1), (1, 3, 2), (2, 4, 2), (2, 5, 2)]
    assert [nice.level_name(level) for level in (1, 2)] == ["layer 1", "layer 0"]
    # a node that is parent and child stands twice below the node of the picture
    assert star.parent.tolist() == [-1, 0, 0, 0, 0]
    assert [star.level_name(level) for level in (1, 2, 3)] == ["stripe 7", "stripe 0", "parents"]
    assert star.member.tolist() == [True, True, True, False, True]
