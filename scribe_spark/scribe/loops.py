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
from scribe_spark.superstep import Rounds

__all__ = ["Refusals", "path", "rejoin"]

#: All nodes that a child can route by may hang on the child itself.  After so many randomised
#: routes it sends its JOIN to the root, which it knows from the path that it has been told.
ATTEMPTS = 8


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
    that node's path: then it is refused again, and all such route anew.  (Other refused children
    and what hangs on them count as in the tree: they have children, and will have a parent.)

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
    waiting = refused.where("refused").select("group", "child", "child_router")
    concerned = F.broadcast(waiting.select("group").distinct())
    trees = edges.join(concerned, "group", "left_semi").select("group", "parent", "child")
    made: list[DataFrame] = []
    attempt = 0
    while not waiting.isEmpty():
        rounds = _routes(forest, waiting, attempt)
        routes = rounds.union().select("group", "child", "hop", "node", "router")
        known = superstep.union([trees, *[t.select("group", "parent", "child") for t in made]])
        answers, _ = superstep.materialise(
            known.groupBy("group").cogroup(routes.groupBy("group")).applyInPandas(_answer, _ANSWER)
        )
        rounds.release()
        made.append(answers.where("NOT again"))
        waiting = answers.where("again").select("group", "child", "child_router")
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


def _routes(forest: Forest, waiting: DataFrame, attempt: int) -> Rounds:
    """Where each JOIN comes by: :func:`trace`."""
    groups = F.broadcast(forest.groups)
    asking = waiting.join(groups, "group", "inner").withColumn("attempt", F.lit(attempt))
    if attempt < ATTEMPTS:
        overlay = randomised(forest.overlay, forest.config.seed, "group", "child", "attempt")
        columns = ("key_hi", "key_lo", "group", "child", "attempt")
        sent = asking.select(F.col("child").alias("node"), *columns)
        return trace(overlay, sent, "JOIN, randomised", forest.progress)
    ends = [("child", "child_router"), ("root", "root_router")]
    steps = [
        F.struct(F.lit(hop).alias("hop"), F.col(node).alias("node"), F.col(router).alias("router"))
        for hop, (node, router) in enumerate(ends)
    ]
    direct = asking.select("group", "child", F.inline(F.array(*steps)))
    table, rows = superstep.materialise(direct)
    return Rounds((table,), (rows,))


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
        steps = list(zip(route["node"].tolist(), route["router"].tolist(), strict=True))
        (_, at), *onward = steps
        first = next((i for i, (node, _) in enumerate(onward) if node in tree), len(onward) - 1)
        if child in path(parents, onward[first][0]):
            rows.append((group, None, child, None, at, True))
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
