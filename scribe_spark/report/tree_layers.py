"""A group's tree in layers, one for each depth, for networks without coordinates.

A small tree is drawn node by node.  In a large one, a node is a bar below its parent's bar; its
width is the number of nodes in its subtree.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.report.group_tree import GroupTree, layers, subtree_sizes
from scribe_spark.report.readouts import Spot, Words, coordinate, spot_svg
from scribe_spark.report.style import depth_style
from scribe_spark.report.tree_map import MOST_NODES, TreeDrawing
from scribe_spark.report.tree_marks import (
    INK,
    LEGEND,
    TEXT,
    Marks,
    legend,
    node_by_node,
    node_words,
)

_LEFT, _TOP, _MARGIN = 40.0, 16.0, 10.0
#: The greatest number of leaves side by side.
_MOST_LEAVES = 60
#: The least width of a bar; narrower ones are drawn together.
_NARROWEST = 1.6
#: Narrower bars are left out.
_THINNEST = 0.2

_ROOT = "#f0c808"


def layers_of(tree: GroupTree, width: float) -> TreeDrawing:
    """Draw a tree in layers."""
    leaves, deepest = int((tree.children == 0).sum()), int(tree.depth.max(initial=0))
    small = len(tree) <= MOST_NODES and leaves <= _MOST_LEAVES
    step = 34.0 if small else 30.0
    size = width + LEGEND, max(2 * _TOP + step * (deepest + (not small)), 150.0)
    if small:
        drawn, spots, keys = _nodes(tree, width, step, size)
        note = "Nodes of the same depth stand side by side in the order of their numbers."
    else:
        (drawn, spots, keys), note = _bars(tree, width, step, size)
    body = [*_depths(deepest, step, 0 if small else 14), *drawn, *legend(tree, width, keys), *spots]
    return TreeDrawing(size, body, "", note)


def _depths(deepest: int, step: float, down: float) -> Iterator[str]:
    yield f"<g {TEXT}>\n"
    for depth in range(deepest + 1):
        y = coordinate(_TOP + step * depth + 2.5 + down)
        yield f'<text x="2" y="{y}">depth {depth}</text>\n'
    yield "</g>\n"


def _nodes(tree: GroupTree, width: float, step: float, size: tuple[float, float]) -> Marks:
    across = layers(tree.parent, tree.node)
    apart = (width - _LEFT - 2 * _MARGIN) / max(across.max(), 1.0)
    x, y = _LEFT + _MARGIN + across * apart, _TOP + step * tree.depth
    return node_by_node(tree, x, y, lambda index: f"router {tree.router[index]}", size)


def _bars(
    tree: GroupTree, width: float, step: float, size: tuple[float, float]
) -> tuple[Marks, str]:
    nodes, children = subtree_sizes(tree), tree.children
    scale = (width - _LEFT - _MARGIN) / max(int(nodes[tree.parent < 0].sum()), 1)
    order = np.lexsort((tree.node, -nodes, tree.parent))
    starts = np.searchsorted(tree.parent[order], np.arange(-1, len(tree) + 1))
    drawn, spots, together = [], [], 0

    def draw(some: np.ndarray, x: float, words: list[Words], pale: bool) -> float:
        length, depth = float(nodes[some].sum() * scale), int(tree.depth[some[0]])
        colour = _ROOT if depth == 0 else depth_style(depth)[0]
        at = f'rect x="{x:.2f}" y="{coordinate(_TOP + step * depth)}" height="{step - 2:g}"'
        opacity = ".3" if pale else ".85"
        width = max(length - 0.25, 0.25)
        drawn.append(f'<{at} width="{width:.2f}" fill="{colour}" fill-opacity="{opacity}"/>\n')
        area = f'{at} width="{length:.2f}"'
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
            words.append((f"{nodes[index] - 1:,} nodes below it", ""))
            stack.append((np.array([index]), x, False))
            x = draw(np.array([index]), x, words, pale=False)
        rest = some[~wide]
        if len(rest) and nodes[rest].sum() * scale >= _THINNEST:
            together += 0 if pale else len(rest)
            words = [
                (f"{len(rest):,} nodes, depth {tree.depth[rest[0]]}", ""),
                (f"{children[rest].sum():,} children", ""),
                (f"{(nodes[rest] - 1).sum():,} nodes below them", ""),
            ]
            stack.append((rest, x, True))
            draw(rest, x, words, pale=True)
    keys = [(f'<rect x="-4" y="-3" width="8" height="6" fill="{_ROOT}"/>', "root")]
    faint = f'<rect x="-4" y="-3" width="8" height="6" fill="{INK}" fill-opacity=".3"/>'
    keys.append((faint, "small subtrees"))
    note = (
        "A bar stands for a node; its width is the number of nodes in the node's subtree, and it "
        "lies below the bar of the parent. The root is on top. Paler bars stand for several "
        f"subtrees that are too small for a bar of their own ({together:,} in all)."
    )
    return (drawn, spots, keys), note
