"""The cost of a host's failure by its depth: the reference tree beside Scribe's trees.

Of Scribe's trees it is read from the static trees of a run: a node that fails takes away its link
to its parent and those to its children, and each child joins again, which takes a new link and a
JOIN at least.  The parent drops the failed child.

References
----------
P. Costa, D. Frey: Publish-Subscribe Tree Maintenance over a DHT, Section 5: "it seems likely that
the closer the host is to the root, the more hosts need to modify their routing tables".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.core.arrays import numbered
from scribe_spark.core.u128 import from_halves
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables
from scribe_spark.reference_tree.failures import failures_by_depth
from scribe_spark.reference_tree.lineages import depths
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.systems import System

__all__ = ["FAILURES", "costs_of_rejoining"]

#: First and last depth of each row of the comparison.
_DEPTHS = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, 14), (15, 19), (20, None))

_COSTS = {
    "links": ("links", "Links removed or created"),
    "acting": ("hosts", "Hosts that act"),
    "messages": ("messages", "Messages"),
}

_SUMS = "depth bigint, failures bigint, links bigint, acting bigint, messages bigint"
_NAMES = [column.split()[0] for column in _SUMS.split(", ")]

#: Hosts of each depth that fail, and how many places in all are computed for them.
_SAMPLE, _PLACED = 4, 400_000


def costs_of_rejoining(edges: DataFrame) -> DataFrame:
    """Sums over every (group, node) of Scribe's trees, by the depth at which it fails.

    Parameters
    ----------
    edges : DataFrame
        ``group, parent, child`` of trees.

    Returns
    -------
    DataFrame
        ``depth, failures, links, acting, messages``.
    """
    whole = edges.select("group", "parent", "child").repartition("group")
    return (
        whole.mapInArrow(_rejoin, _SUMS)
        .groupBy("depth")
        .agg(*[F.sum(name).alias(name) for name in _NAMES[1:]])
    )


def _rejoin(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = read_partition(batches)
    if rows is None:
        return
    group, parent, child = (rows.column(n).to_numpy() for n in ("group", "parent", "child"))
    ends = np.stack([np.r_[group, group], np.r_[parent, child]])
    number = numbered(*ends)
    upper, lower = np.split(number, 2)
    above = np.full(number.max() + 1, -1)
    above[lower] = upper
    children = np.bincount(upper, minlength=len(above))
    below_root = (above >= 0).astype(np.int64)
    yield _sums(depths(above), 2 * children + below_root, children + below_root, children)


def _costs_of_reconfiguring(
    nodes: DataFrame, children: int, assignment: str, seed: int
) -> DataFrame:
    """Measure the costs in the tree over all nodes, where some hosts of each depth fail."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        hi, lo = (rows.column(name).to_numpy().view(np.uint64) for name in ("id_hi", "id_lo"))
        order = np.lexsort((lo, hi))
        sample = min(_SAMPLE, max(_PLACED // len(order), 1))
        ids = from_halves(hi[order], lo[order], 128)
        found = failures_by_depth(ReferenceTree(128, children), assignment, ids, sample, seed)
        if len(found):
            yield _sums(*found.T)

    return nodes.select("id_hi", "id_lo").repartition(1).mapInArrow(run, _SUMS)


def _sums(depth: np.ndarray, *costs: np.ndarray) -> pa.RecordBatch:
    """Rows of :func:`costs_of_rejoining`."""
    found, of = np.unique(depth, return_inverse=True)
    columns = [found, np.bincount(of)]
    columns += [np.bincount(of, cost).astype(np.int64) for cost in costs]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=_NAMES)


# --- what a run has of it


def _reconfigures(system: System) -> bool:
    return system.after_failure == "reconfigure"


def _collect(run: RunTables) -> dict[str, dict[int, tuple[Any, ...]]]:
    """``rejoin`` and ``reconfigure``: depth -> failures and sums."""
    if not any(map(_reconfigures, run.systems)):
        return {}
    rejoining = run.of_systems("tree_edges", lambda system: system.after_failure == "rejoin")
    children, assignment = run.reference_tree
    frames = {
        "rejoin": costs_of_rejoining(rejoining),
        "reconfigure": _costs_of_reconfiguring(run["nodes"], children, assignment, run.seed),
    }
    return {
        name: {row["depth"]: tuple(row[column] for column in _NAMES[1:]) for row in frame.collect()}
        for name, frame in frames.items()
    }


def _mean(after: str, cost: str, low: int, high: int | None) -> Callable[[Found, str], Any]:
    def value(found: Found, system: str) -> float | None:
        by_depth = found.collected.get("failures", {}).get(after, {})
        last = math.inf if high is None else high
        mine = [of for depth, of in by_depth.items() if low <= depth <= last]
        failures = sum(of[0] for of in mine)
        return sum(of[1 + list(_COSTS).index(cost)] for of in mine) / failures if failures else None

    return value


def _metrics() -> Iterator[Metric]:
    for low, high in _DEPTHS:
        name = f"{low}" if low == high else f"{low}_and_deeper" if high is None else f"{low}_{high}"
        for cost, (unit, words) in _COSTS.items():
            for after, whose in (("reconfigure", "the tree"), ("rejoin", "a Scribe tree")):
                suffix = "" if after == "reconfigure" else ".scribe"
                yield Metric(
                    f"failure.depth_{name}.{cost}{suffix}",
                    unit,
                    None,
                    f"{words} when a host at depth {name.replace('_', ' ')} of {whose} fails: mean "
                    + ("of some hosts." if after == "reconfigure" else "of all, of static trees."),
                    _mean(after, cost, low, high),
                    _reconfigures,
                )


FAILURES = Measure("failures", metrics=tuple(_metrics()), collect=_collect, early=True)
