"""The cycle rule: a JOIN from a node on the path to the root is refused, and routed anew.

References
----------
JSAC 2002, Section IV.E: "if a node receives a JOIN message from a node in its path to the root, it
rejects the join and informs the joining node that it should join using a randomized route".
"""

from __future__ import annotations

import itertools

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.pastry.randomised import randomised
from scribe_spark.pastry.trace import trace
from scribe_spark.runtime.blocks import materialise, union_tables
from scribe_spark.scribe.bottleneck import ancestors
from scribe_spark.scribe.variants.context import EDGE, VariantContext, bigints
from scribe_spark.superstep import Finished

__all__ = ["rejoin"]

#: All nodes that a child can route by may be descendants of the child.  After this many randomised
#: routes it sends its JOIN to the root, which it knows from the path that it has received.
ATTEMPTS = 8


def rejoin(
    context: VariantContext, edges: DataFrame, refused: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Children whose JOIN was refused route one to the root with randomisation.

    They do so at once, and are answered in the order of (group, child).  The first node of the tree
    on the way takes the child in, and those before it become forwarders; unless the child is on
    that node's path: then it is refused again, and all such route anew.  (Other refused children
    and their descendants count as in the tree: they have children, and will have a parent.)

    Parameters
    ----------
    edges : DataFrame
        All trees as they stand, `VariantContext.edges`; the refused have no parent in them.
    refused : DataFrame
        ``group, child, child_router, refused``.

    Returns
    -------
    DataFrame
        Messages that add what the JOINs made, with the columns of the remover's.
    DataFrame
        The materialised table that these are read from, to be released.
    """
    waiting = refused.where("refused").select("group", "child", "child_router")
    concerned = F.broadcast(waiting.select("group").distinct())
    trees = edges.join(concerned, "group", "left_semi").select("group", "parent", "child")
    asking = waiting.join(F.broadcast(context.groups), "group", "inner")
    traced = _randomised(context, asking)
    steps = [_direct(asking), traced.outcomes()]
    routes = union_tables([frame.select(_STEP) for frame in steps if frame is not None])
    answered = (
        trees.groupBy("group")
        .cogroup(routes.groupBy("group"))
        .applyInPandas(_answer, bigints(EDGE))
    )
    added, _ = materialise(answered)
    traced.release()
    timed = context.overlay.underlay.delay(added, "parent_router", "child_router")
    extra = {"change": F.lit(1), "probes": F.lit(0).cast("bigint"), "refused": F.lit(False)}
    return timed.withColumns(extra), added


_STEP = ["group", "child", "attempt", "hop", "node", "router"]


def _randomised(context: VariantContext, asking: DataFrame) -> Finished:
    """Return the nodes that the JOIN of each attempt would come by: :func:`trace`.

    Routes depend on draws alone, so those of all attempts are found together.
    """
    attempts = F.explode(F.sequence(F.lit(0), F.lit(ATTEMPTS - 1))).alias("attempt")
    key = ["group", "child", "attempt"]
    sent = asking.select(
        "group", "child", F.col("child").alias("node"), "key_hi", "key_lo", attempts
    )
    overlay = randomised(context.overlay, context.seed, *key)
    return trace(overlay, sent, "JOIN, randomised", context.progress)


def _direct(asking: DataFrame) -> DataFrame:
    """The last attempt: a hop, to the root."""
    ends = [("child", "child_router"), ("root", "root_router")]
    steps = [
        F.struct(F.lit(hop).alias("hop"), F.col(node).alias("node"), F.col(router).alias("router"))
        for hop, (node, router) in enumerate(ends)
    ]
    attempt = F.lit(ATTEMPTS).alias("attempt")
    return asking.select("group", "child", attempt, F.inline(F.array(*steps)))


def _answer(edges: pd.DataFrame, routes: pd.DataFrame) -> pd.DataFrame:
    """One group's JOINs, attempt by attempt and in order; a row for every edge made."""
    parents = dict(zip(edges["child"].tolist(), edges["parent"].tolist(), strict=True))
    tree = {*parents, *parents.values()}
    rows: list[tuple[int, ...]] = []
    joined: set[int] = set()
    ordered = routes.sort_values(["attempt", "child", "hop"])
    for (group, _, child), route in ordered.groupby(["group", "attempt", "child"], sort=True):
        if child in joined:
            continue
        steps = list(zip(route["node"].tolist(), route["router"].tolist(), strict=True))
        nodes = [node for node, _ in steps]
        first = next((i for i in range(1, len(nodes)) if nodes[i] in tree), len(nodes) - 1)
        if child in ancestors(parents, nodes[first]):
            continue
        joined.add(child)
        for (low, low_router), (high, high_router) in itertools.pairwise(steps[: first + 1]):
            parents[low] = high
            tree |= {low, high}
            rows.append((group, high, low, high_router, low_router))
    return pd.DataFrame(rows, columns=EDGE, dtype="int64")
