"""The trees that the page of a run draws: a small one, one of median size, the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from scribe_spark.report.group_tree import GroupTree
from scribe_spark.report.svg import PageFigure, plain_svg
from scribe_spark.report.tree_layers import layers_of
from scribe_spark.report.tree_map import has_map, map_of

#: The width of a drawing without its legend.
_WIDTH = 236.0


@dataclass(frozen=True)
class RunTrees:
    """The tables from which trees are drawn."""

    trees: Sequence[tuple[str, GroupTree]]  # with names such as ``largest group``, in order
    routers: pd.DataFrame  # coordinates may be missing
    links: pd.DataFrame
    left_out: str = ""  # a sentence about groups that are not drawn


def tree_figures(found: RunTrees) -> list[PageFigure]:
    """Draw trees over the map of the network, or in layers if it has no coordinates."""
    figures = []
    for what, tree in found.trees:
        if has_map(found.routers):
            drawn = map_of(tree, found.routers, found.links, _WIDTH)
        else:
            drawn = layers_of(tree, _WIDTH)
        name = f"tree-{what.partition(' ')[0]}"
        title = f"Group {tree.group}, the {what}: {tree.size:,} members"
        words = f"{_counts(tree)} {drawn.words}".rstrip()
        svg = plain_svg(name, title, words, drawn.size, drawn.body)
        figures.append(PageFigure(name, title, svg, drawn.note, words, tables=("tree_edges",)))
    return figures


def _counts(tree: GroupTree) -> str:
    inner, forwarders = int((tree.children > 0).sum()), int((~tree.member).sum())
    most, deepest = int(tree.children.max(initial=0)), int(tree.depth.max(initial=0))
    return (
        f"{len(tree):,} nodes, {forwarders:,} of them forwarders that are no members; {inner:,} "
        f"nodes have children, at most {most:,} each; the greatest depth is {deepest}."
    )
