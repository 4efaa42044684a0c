"""The loop rule: a JOIN from a node on the path to the root is refused, and routed anew.

References
----------
JSAC 2002, Section IV.E: "if a node receives a JOIN message from a node in its path to the root, it
rejects the join and informs the joining node that it should join using a randomized route".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.pastry.randomised import randomised
from scribe_spark.scribe.forest import EDGE, Forest
from scribe_spark.scribe.tracing import trace

__all__ = ["Refusals", "path", "rejoin"]


class Refusals:
    """The JOINs that the children of one table have sent each other, answered in order.

    All of them had the same parent, so a path from there to the root holds none of them: a loop can
    only run among themselves.
    """

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def refuses(self, child: int, sibling: int) -> bool:
        """Whether `sibling` refuses the JOIN of `child`; if not, it is its parent from now on."""
        if child in path(self._parent, sibling):
            return True
        self._parent[child] = sibling
        return False


def path(parents: dict[int, int], node: int) -> Iterator[int]:
    """A node and those above it, as far as `parents` tells."""
    at: int | None = node
    while at is not None:
        yield at
        at = parents.get(at)


def rejoin(forest: Forest, edges: DataFrame, refused: DataFrame) -> DataFrame | None:
    """Children whose JOIN was refused route one to the root with randomisation.

    They do so at once, and are answered in the order of (group, child).  The first node of the tree
    on the way takes the child in, and those before it become forwarders; unless the child is on
    that node's path: then it is refused again, and all such route anew.

    Parameters
    ----------
    edges : DataFrame
        All trees as they stand, `Forest.edges`; the refused have no parent in them.
    refused : DataFrame
        ``group, child``; a message's deltas.

    Returns
    -------
    DataFrame or None
        Deltas that add what the JOINs made; None if there was nobody to rejoin.
    """
    waiting = refused.where("refused").select("group", "child").distinct()
    keys = F.broadcast(forest.groups.select("group", "key_hi", "key_lo"))
    concerned = F.broadcast(waiting.select("group").distinct())
    trees = edges.join(concerned, "group", "left_semi").select("group", "parent", "child")
    overlay = randomised(forest.overlay, forest.config.seed, "group", "child", "attempt")
    made: list[DataFrame] = []
    attempt = 0
    while not waiting.isEmpty():
        asking = waiting.join(keys, "group", "inner").select(
            F.col("child").alias("node"),
            *("key_hi", "key_lo", "group", "child"),
            F.lit(attempt).alias("attempt"),
        )
        rounds = trace(overlay, asking, "JOIN, randomised", forest.progress)
        routes = rounds.union().select("group", "child", "hop", "node", "router")
        known = superstep.union([trees, *[t.select("group", "parent", "child") for t in made]])
        answers, _ = superstep.materialise(
            known.groupBy("group").cogroup(routes.groupBy("group")).applyInPandas(_answer, _ANSWER)
        )
        rounds.release()
        made.append(answers.where("NOT again"))
        waiting = answers.where("again").select("group", "child")
        attempt += 1
    if not made:
        return None
    added = superstep.union(made).select(EDGE)
    timed = forest.overlay.underlay.delay(added, "parent_router", "child_router")
    return timed.withColumns(
        {
            "change": F.lit(1),
            "probes": F.lit(0).cast("bigint"),
            "refused": F.lit(False),
        }
    )


_ANSWER = (
    "group bigint, parent bigint, child bigint, parent_router bigint, child_router bigint, "
    "again boolean"
)


def _answer(edges: pd.DataFrame, routes: pd.DataFrame) -> pd.DataFrame:
    """One group's JOINs, in order; a row for every edge made, and for each that is refused."""
    parents = dict(zip(edges["child"].tolist(), edges["parent"].tolist(), strict=True))
    tree = {*parents, *parents.values()}
    rows: list[tuple] = []
    ordered = routes.sort_values(["child", "hop"])
    for (group, child), route in ordered.groupby(["group", "child"], sort=True):
        if child in parents:  # somebody else's JOIN came by, and it is a forwarder again
            continue
        steps = list(zip(route["node"].tolist(), route["router"].tolist(), strict=True))
        (_, at), *onward = steps
        first = next((i for i, (node, _) in enumerate(onward) if node in tree), len(onward) - 1)
        if child in path(parents, onward[first][0]):
            rows.append((group, None, child, None, None, True))
            continue
        new = [(child, at), *onward[: first + 1]]
        for (low, low_router), (high, high_router) in itertools.pairwise(new):
            parents[low] = high
            tree |= {low, high}
            rows.append((group, high, low, high_router, low_router, False))
    columns = ["group", "parent", "child", "parent_router", "child_router", "again"]
    return pd.DataFrame(rows, columns=columns).astype(
        {name: "Int64" for name in columns[:-1]} | {"again": bool}
    )
