"""The report phase: it draws the page and the figures from the outputs of the other phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from scribe_spark.core.arrays import depths, index_sorted
from scribe_spark.core.errors import InputError, listed
from scribe_spark.experiments.folder import Folder, StoredFolder
from scribe_spark.experiments.manifest import MANIFEST, RUN
from scribe_spark.experiments.phases import REPORT
from scribe_spark.experiments.plan import read_records
from scribe_spark.report.pictures import GroupTree, RunTrees
from scribe_spark.report.run import Latency, render
from scribe_spark.schemas import DISTRIBUTIONS, WRITTEN
from scribe_spark.systems.registry import all_systems, find_system

#: The tables from which trees are drawn.
TABLES = ("routers", "links", "groups", "members", "tree_edges")

#: The greatest group whose tree is drawn, as the driver reads the tree.
MOST_MEMBERS = 2_000_000

_SYSTEM = "scribe"

#: The columns of edges that are drawn.
_ENDS = ["group", "parent", "child", "parent_router", "child_router"]

#: The tables and texts from which the report is drawn.
_METRICS = "metrics.json"
_READ = ("distributions", "group_delay", *TABLES)
#: Further tables, which some runs have.
_OPTIONAL = ("latency", "latency_counts", "by_part", "part_latencies", "pictures")

#: The columns of `schemas.GROUP_DELAY` that are drawn.
DELAYS = ("system", "size", "rad")


def report(spark: SparkSession | None, out: str, note: Callable[[str], None] | None = None) -> str:
    """Draw the report of a folder with a run; return the location of the page.

    A local folder needs no session.

    ``note(line)`` gets the names of the verified texts and tables, from which the page is drawn.
    """
    with StoredFolder(None, out) if spark is None else Folder(spark, out) as folder:
        _, manifest, records = read_records(folder, RUN)
        folder.refuse_links(RUN)
        if _METRICS not in records.texts:
            done = listed(entry["name"] for entry in manifest["phases"])
            remedy = f"holds no finished run (phases done: {done}); continue with --resume"
            raise InputError("out", out, remedy)
        for name in _READ:
            if name not in records.tables:
                raise _damage(out, name, f"{MANIFEST} does not have it")
        read = {name: of for name, of in records.tables.items() if name in (*_READ, *_OPTIONAL)}
        for path, problem in folder.faults(read, {_METRICS: records.texts[_METRICS]}):
            raise _damage(out, path, problem)
        if note is not None:
            tables = listed(f"tables/{name}" for name in _READ)
            verified = f"{_METRICS}, {tables}"
            note(f"verified: {verified} (`scribe-spark verify {out}` looks at all tables)")
        # without the time of the report, so that the page is the same when it is drawn again
        shown = {**manifest, "phases": [e for e in manifest["phases"] if e["name"] != REPORT]}
        trees = read_trees(folder.collect)
        if "pictures" in read:
            trees = replace(trees, pictures=read_pictures(folder.collect))

        def table(name: str, columns: Sequence[str]) -> pd.DataFrame:
            return folder.collect(name, columns).to_pandas()

        by_part, part_latencies = (
            table(name, WRITTEN[name].names) if name in read else None
            for name in ("by_part", "part_latencies")
        )
        has_latency = {"latency", "latency_counts"} <= read.keys()
        page = render(
            folder.read_json(_METRICS),
            shown,
            table("distributions", DISTRIBUTIONS.names),
            trees,
            table("group_delay", DELAYS),
            by_part,
            latency_of(folder.collect, manifest) if has_latency else None,
            part_latencies=part_latencies,
        )
        return folder.write_page(page)


def latency_of(
    collect: Callable[[str, tuple[str, ...]], pa.Table], manifest: Mapping[str, Any]
) -> Latency:
    """Return the deliveries by their latency, with the deadlines of a manifest."""
    counts = collect("latency_counts", ("system", "unit", "value", "count")).to_pandas()
    rows = collect("latency", ("system", "unit", "expected")).to_pandas()
    expected = rows[rows["unit"] == "ms"].groupby("system")["expected"].sum()
    numbers = {str(name): float(number) for name, number in expected.items()}
    return Latency(counts, numbers, tuple(manifest["resolved"].get("deadline", ())))


def _damage(out: str, name: str, problem: str) -> InputError:
    remedy = f"{name} is not as written: {problem}; make it again with --resume"
    return InputError("out", out, remedy)


# --- trees


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
    edges = read("tree_edges", _ENDS, {"system": [_SYSTEM], **among}).to_pandas()
    edges_of = dict(list(edges.sort_values("child").groupby("group")))
    members_of = dict(list(read("members", ["group", "node"], among).to_pandas().groupby("group")))
    # with few groups, the largest may also be the median; it is drawn once, as the largest
    once = {int(row["group"]): (what, row) for what, row in chosen.items()}
    trees = [
        (what, _tree(group, int(row["size"]), edges_of[group], members_of[group]["node"]))
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


def read_pictures(read: Callable[..., pa.Table]) -> list[tuple[str, GroupTree]]:
    """Return the pictures of systems, by their names in the order of the registry."""
    every = read("pictures", ["system", *_ENDS, "rank", "value"]).to_pandas()
    sizes = read("groups", ["group", "size"]).to_pandas().set_index("group")["size"]
    among = {"group": sorted({int(group) for group in every["group"]})}
    members = read("members", ["group", "node"], among).to_pandas().groupby("group")["node"]
    found = []
    for system, edges in every.groupby("system"):
        known, group = find_system(str(system)), int(edges["group"].iloc[0])
        if known is not None and known.picture is not None:
            edges = edges.sort_values(["rank", "value", "child"])
            tree = _tree(group, int(sizes[group]), edges, members.get_group(group))
            above = np.full(len(tree.node) - len(edges), -1)  # the roots come first
            rank = np.r_[above, edges["rank"]]
            value = np.r_[above * np.nan, edges["value"].astype(float)]
            told = {"rank": rank, "value": value, "picture": known.picture}
            found.append((known.name, replace(tree, **told)))
    order = [system.name for system in all_systems()]
    return sorted(found, key=lambda one: order.index(one[0]))


def _tree(group: int, size: int, edges: pd.DataFrame, members: pd.Series) -> GroupTree:
    """Return the tree of edges: its roots, and the child of each edge."""
    above, child = edges["parent"].to_numpy(), edges["child"].to_numpy()
    root, first = np.unique(above, return_index=True)
    is_root = ~np.isin(root, child)
    node = np.r_[root[is_root], child]
    router = np.r_[edges["parent_router"].to_numpy()[first[is_root]], edges["child_router"]]
    names, place = np.unique(node, return_index=True)
    parent = np.r_[np.full(np.count_nonzero(is_root), -1), place[index_sorted(names, above)]]
    member = np.isin(node, members.to_numpy())
    return GroupTree(group, size, node, parent, depths(parent), member, router)
