"""Route convergence: how far messages of two nodes travel to one key before their routes meet.

The routes are those of JOINs.  A node's next hop towards a group's key is its parent in Scribe's
tree, so two members' routes meet at the lowest common ancestor of both, and `tree_edges` has all
that is needed.

References
----------
JSAC 2002, Section II.A: "the average distance traveled by each of the two messages before their
routes converge is approximately equal to the distance between their respective source nodes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws
from scribe_spark.core.arrays import index_in_run
from scribe_spark.measures.group_size import rank_groups
from scribe_spark.measures.measure import Found, Measure, Metric, RunTables
from scribe_spark.runtime.blocks import read_partition, union_tables
from scribe_spark.schemas import MICROSECONDS
from scribe_spark.scribe.trees import SYSTEM

__all__ = ["CONVERGENCE", "member_pairs"]

#: Members that are paired, roughly: the smallest groups that have as many.
_MEMBERS = 20_000

#: Two members of a group, and how far both their JOINs travelled before they met.
_PAIRS = "a_router bigint, b_router bigint, travelled_us bigint"


def member_pairs(members: DataFrame, edges: DataFrame, seed: int) -> DataFrame:
    """Members of each group in pairs, drawn, with what their routes to the group's key travel.

    Parameters
    ----------
    members : DataFrame
        ``group, node``.
    edges : DataFrame
        ``group, parent, child, parent_router, child_router, delay_us``: a tree for each group that
        has all its members.
    seed : int

    Returns
    -------
    DataFrame
        ``a_router, b_router``, and ``travelled_us``: the sum of both members' distances to the node
        at which their routes meet.  A member of an odd number is left out.
    """
    drawn = draws.bits(seed, "route convergence", "group", "node").alias("drawn")
    none = F.lit(None).cast("bigint")
    asking = members.select(
        "group",
        F.col("node").alias("child"),
        *(none.alias(name) for name in ("parent", "child_router", "parent_router", "delay_us")),
        drawn,
    )
    given = asking.columns
    legs = edges.select(*given[:-1], none.alias("drawn"))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is not None:
            columns = {name: rows.column(name).fill_null(-1).to_numpy() for name in given}
            is_leg = rows.column("parent").is_valid().to_numpy()
            found = _travelled(columns, is_leg)
            yield pa.RecordBatch.from_arrays([pa.array(part) for part in found], names=names)

    names = [column.split()[0] for column in _PAIRS.split(", ")]
    return union_tables([asking, legs]).repartition("group").mapInArrow(run, _PAIRS)


def _travelled(
    columns: dict[str, np.ndarray], is_leg: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Routers of both members of each pair, and how far both travel."""
    # 1. nodes of trees, each with its parent and the leg to it
    group = np.unique(columns["group"], return_inverse=True)[1]
    width = int(max(columns["child"].max(), columns["parent"].max())) + 1
    child, parent = (group * width + columns[name] for name in ("child", "parent"))
    child, parent = child[is_leg], parent[is_leg]
    trees = np.unique(np.concatenate([child, parent]))
    at, up_at = np.searchsorted(trees, child), np.searchsorted(trees, parent)
    up = np.full(len(trees), -1)
    leg, router, depth = np.zeros((3, len(trees)), dtype=np.int64)
    up[at], leg[at] = up_at, columns["delay_us"][is_leg]
    router[up_at] = columns["parent_router"][is_leg]
    router[at] = columns["child_router"][is_leg]
    above = up
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, up[above], -1)
    # 2. members of a group in drawn order, two by two
    order = np.lexsort((columns["child"][~is_leg], columns["drawn"][~is_leg], group[~is_leg]))
    of = group[~is_leg][order]
    member = (of * width + columns["child"][~is_leg][order]).astype(np.int64)
    place = index_in_run(of)
    first = np.flatnonzero((place[:-1] % 2 == 0) & (of[:-1] == of[1:]))
    a, b = (np.searchsorted(trees, member[pair]) for pair in (first, first + 1))
    ends = router[a], router[b]
    # 3. whoever is deeper goes up, both where neither is
    travelled = np.zeros(len(a), dtype=np.int64)
    while (apart := a != b).any():
        deeper = depth[a] - depth[b]
        for side, goes in ((a, apart & (deeper >= 0)), (b, apart & (deeper <= 0))):
            travelled[goes] += leg[side[goes]]
            side[goes] = up[side[goes]]
    return *ends, travelled


# --- what a run has of it


def _collect(run: RunTables) -> dict[str, float | None]:
    """Mean distances in ms: ``travelled`` by a message, ``between`` the two nodes."""
    if run.underlay is None:
        return {}
    ranked = rank_groups(run["groups"]).query("size > 1")[::-1]
    few = ranked[ranked["size"].cumsum().shift(fill_value=0) < _MEMBERS]
    chosen = F.col("group").isin(few["group"].to_list())
    edges = run["tree_edges"].where((F.col("system") == SYSTEM) & chosen)
    legs = run.underlay.delay(edges, "parent_router", "child_router")
    pairs = member_pairs(run["members"].where(chosen), legs, run.seed)
    timed = run.underlay.delay(pairs, "a_router", "b_router", "between_us")
    sums = timed.agg(
        F.sum("travelled_us").alias("travelled"),
        F.sum("between_us").alias("between"),
        F.count(F.lit(1)).alias("pairs"),
    )
    (row,) = sums.collect()
    if not row["pairs"]:
        return {"travelled": None, "between": None}
    return {
        "travelled": row["travelled"] / (2 * row["pairs"] * MICROSECONDS),
        "between": row["between"] / (row["pairs"] * MICROSECONDS),
    }


def _collected(name: str):
    return lambda found: found.collected.get("convergence", {}).get(name)


def _ratio(found: Found) -> float | None:
    travelled, between = (_collected(name)(found) for name in ("travelled", "between"))
    return travelled / between if between else None


CONVERGENCE = Measure(
    "convergence",
    collect=_collect,
    early=True,
    metrics=(
        Metric(
            "pastry.convergence.travelled",
            "ms",
            "II.A",
            "Mean distance that each of two members' JOINs travels before their routes meet, over "
            "drawn pairs of members of the smallest groups.",
            _collected("travelled"),
        ),
        Metric(
            "pastry.convergence.between",
            "ms",
            "II.A",
            "Mean distance between the two members of these pairs.",
            _collected("between"),
        ),
        Metric(
            "pastry.convergence.ratio",
            "x",
            "II.A",
            "Mean distance travelled before routes meet / mean distance between the two nodes.",
            _ratio,
            note="paper: about 1",
        ),
    ),
)
