"""The trees of a run's page: which groups, and that they are those of the tables."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.reporting import read_trees


def table(out: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(out / "tables" / name)


def reader(spark, out):
    return Folder(spark, str(out)).collect


def test_the_page_draws_a_small_the_median_and_the_largest_group(spark, small):
    """Against the tables, edge by edge."""
    out = Path(small.out)
    groups = table(out, "groups").sort_values(["size", "group"], ascending=[False, True])
    groups = groups[groups["size"] > 1].reset_index(drop=True)
    picked = [groups.iloc[-1], groups.iloc[(len(groups) - 1) // 2], groups.iloc[0]]
    found = read_trees(reader(spark, out))
    assert [what for what, _ in found.trees] == [
        "smallest group", "median group", "largest group",
    ]  # fmt: skip
    assert found.left_out == ""
    edges = table(out, "tree_edges")
    edges = edges[edges["system"] == "scribe"]
    members, nodes = table(out, "members"), table(out, "nodes").set_index("node")["router"]
    for row, (_, tree) in zip(picked, found.trees, strict=True):
        assert (tree.group, tree.size) == (row["group"], row["size"])
        mine = edges[edges["group"] == row["group"]]
        parents = dict(zip(mine["child"], mine["parent"], strict=True))
        assert {int(tree.node[i]): int(tree.node[tree.parent[i]]) for i in tree.below} == parents
        assert len(tree) == len(parents) + 1
        assert tree.node[tree.parent < 0].tolist() == [row["root"]]
        assert set(tree.node[tree.member]) == set(
            members.loc[members["group"] == row["group"], "node"]
        ) & set(tree.node)
        assert tree.router.tolist() == nodes[tree.node].tolist()
        for index in range(len(tree)):
            assert tree.depth[index] == len(tree.path(index)) - 1
    page = (out / "report.html").read_text()
    titles = re.findall(r"<h3 id=\"tree-\w+-heading\">Group (\d+), the (\w+) group", page)
    assert titles == [
        (str(row["group"]), what)
        for row, what in zip(picked, ("smallest", "median", "largest"), strict=True)
    ]
    figures = sorted(file.stem for file in (out / "figures").glob("tree-*.svg"))
    assert figures == ["tree-largest", "tree-median", "tree-smallest"]


def test_groups_too_large_for_the_driver_are_left_out_and_it_is_said(spark, small, monkeypatch):
    sizes = table(Path(small.out), "groups")["size"].sort_values(ascending=False).to_numpy()
    monkeypatch.setattr("scribe_spark.experiments.reporting.MOST_MEMBERS", int(sizes[3]))
    found = read_trees(reader(spark, Path(small.out)))
    too_large = int((sizes > sizes[3]).sum())
    assert found.left_out.startswith(f"{too_large} groups with more than {sizes[3]:,} members")
    assert found.trees[-1][1].size == sizes[3]
    monkeypatch.setattr("scribe_spark.experiments.reporting.MOST_MEMBERS", 0)
    assert read_trees(reader(spark, Path(small.out))).trees == []
