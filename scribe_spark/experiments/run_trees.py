"""The trees on a run's page, read from its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from scribe_spark.core.arrays import depths
from scribe_spark.report.group_tree import GroupTree
from scribe_spark.report.tree_figures import RunTrees
from scribe_spark.schemas import WRITTEN

#: The tables from which trees are drawn.
TABLES = ("routers", "links", "groups", "members", "tree_edges")

#: The greatest group whose tree is drawn, as the driver reads the tree.
MOST_MEMBERS = 2_000_000

_SYSTEM = "scribe"


def read_trees(read: Callable[..., pa.Table]) -> RunTrees:
    """Return Scribe's trees to draw: of a small group, the median group, and the largest.

    Groups are ranked by size, equal ones by number; the small one is the last.  Groups without an
    edge or with more than :data:`MOST_MEMBERS` members are left out.
    """
    groups = read("groups", ["group", "size"]).to_pandas()
    groups = groups.sort_values(["size", "group"], ascending=[False, True])
    too_large = groups[groups["size"] > MOST_MEMBERS]
    ranked = groups[(groups["size"] > 1) & (groups["size"] <= MOST_MEMBERS)]
    ranks = {"smallest group": -1, "median group": (len(ranked) - 1) // 2, "largest group": 0}
    chosen = {what: ranked.iloc[rank] for what, rank in ranks.items()} if len(ranked) else {}
    numbers = sorted({int(row["group"]) for row in chosen.values()})
    among = {"group": numbers}
    ends = ["group", "parent", "child", "parent_router", "child_router"]
    edges = read("tree_edges", ends, {"system": [_SYSTEM], **among}).to_pandas()
    edges_of = dict(list(edges.groupby("group")))
    members_of = read("members", ["group", "node"], among).to_pandas()
    # with few groups, the largest may also be the median; it is drawn once, as the largest
    once = {int(row["group"]): (what, row) for what, row in chosen.items()}
    trees = [
        (what, _tree(row, edges_of[group], members_of[members_of["group"] == group]))
        for group, (what, row) in once.items()
        if group in edges_of
    ]
    left_out = ""
    if len(too_large):
        left_out = (
            f"{len(too_large):,} groups with more than {MOST_MEMBERS:,} members are not drawn: the "
            "largest is that of those with fewer."
        )
    routers, links = (read(name, WRITTEN[name].names).to_pandas() for name in ("routers", "links"))
    return RunTrees(trees, routers, links, left_out)


def _tree(group: Any, edges: pd.DataFrame, members: pd.DataFrame) -> GroupTree:
    """Return the tree of a group; every node but the root is a child once."""
    ends = {name: edges[name].to_numpy(dtype=np.int64) for name in edges.columns}
    node, first = np.unique(np.r_[ends["parent"], ends["child"]], return_index=True)
    router = np.r_[ends["parent_router"], ends["child_router"]][first]
    parent = np.full(len(node), -1, dtype=np.int64)
    parent[np.searchsorted(node, ends["child"])] = np.searchsorted(node, ends["parent"])
    return GroupTree(
        group=int(group["group"]),
        size=int(group["size"]),
        node=node,
        parent=parent,
        depth=depths(parent),
        member=np.isin(node, members["node"].to_numpy(dtype=np.int64)),
        router=router,
    )
