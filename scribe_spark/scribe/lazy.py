"""Lazy growth: a JOIN makes no forwarders on its way; the first node of the tree takes the joining
node in.

References
----------
JSAC 2002, Section IV.F: "an alternative algorithm that grows trees less eagerly".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from scribe_spark import draws, superstep
from scribe_spark.scribe.forest import EDGE, Forest, Variant, timed_edges
from scribe_spark.scribe.tracing import trace

__all__ = ["grow_lazily"]

_GROUP = ["group", "node"]


def grow_lazily(forest: Forest) -> Variant:
    """Members join in waves, each as large as all before it together.

    A wave's JOINs see the tree and the loads that the waves before it left.  At the first node p in
    the tree, as many as it has room for become its children; the others become children of the node
    before p on their route, which p takes in their stead.
    """
    rounds = trace(forest.overlay, _joining(forest), "JOIN, traced", forest.progress)
    if not rounds.tables:
        return Variant(forest.edges.limit(0))
    routes, _ = superstep.materialise(rounds.union().repartition("node"))
    rounds.release()
    roots = forest.groups.select("group", F.col("root").alias("node"))

    def step(table: DataFrame, past: Sequence[DataFrame]) -> DataFrame:
        made = superstep.union(past).where(F.col("parent").isNotNull())
        inside = made.select("group", F.col("child").alias("node"))
        steps = routes.where(F.col("wave") == len(past))
        return _wave(forest, steps, roots.unionByName(inside).repartition("node"), made)

    first = _wave(forest, routes.where("wave = 0"), roots.repartition("node"), None)
    waves = superstep.run("lazy growth", first, step, progress=forest.progress)
    superstep.release(routes)
    edges = timed_edges(waves.union().where(F.col("parent").isNotNull()), forest.overlay.underlay)
    waves.release()
    return Variant(edges, held=[edges])


def _joining(forest: Forest) -> DataFrame:
    """Every member's JOIN, and the wave that it is sent in: 1, 2, 4, ... of a group."""
    keys = F.broadcast(forest.groups.select("group", "key_hi", "key_lo"))
    draw = draws.bits(forest.config.seed, "arrival", *_GROUP)
    place = F.row_number().over(Window.partitionBy("group").orderBy(draw, "node"))
    wave = F.length(F.bin(place)) - 1  # place 1; 2, 3; 4 to 7; ...
    placed = forest.members.withColumn("wave", wave)
    return placed.join(keys, "group", "inner").select(
        *("node", "key_hi", "key_lo", "group", "wave"),
        F.col("node").alias("member"),
        F.col("router").alias("member_router"),
    )


def _wave(forest: Forest, routes: DataFrame, tree: DataFrame, made: DataFrame | None) -> DataFrame:
    """What the JOINs of a wave make: `EDGE` rows, with no parent for a member that sends none.

    Parameters
    ----------
    routes : DataFrame
        Every step of the wave's members, partitioned by node.
    tree : DataFrame
        ``group, node`` of all in the trees, partitioned by node.
    made : DataFrame or None
        The edges so far.
    """
    here = tree.withColumn("inside", F.lit(True)).hint("shuffle_hash")
    steps = routes.join(here, _GROUP, "left")
    at = F.struct("hop", "node", "router", "previous", "previous_router")
    first = F.min(F.when(F.col("inside"), at)).alias("at")
    found = steps.groupBy("group", "member", "member_router").agg(first)
    found = found.select("group", "member", "member_router", "at.*")
    # at hop 0 the member itself is in the tree, and sends no JOIN
    idle = found.where("hop = 0").select(
        "group",
        F.lit(None).cast("bigint").alias("parent"),
        F.col("member").alias("child"),
        *[F.lit(None).cast("bigint").alias(name) for name in EDGE[3:]],
    )
    asked = _with_room(forest, found.where("hop > 0"), made)
    turn = F.row_number().over(Window.partitionBy("node").orderBy("group", "member"))
    taken = (turn <= F.col("room")) | (F.col("previous") == F.col("member"))
    answered = asked.withColumn("taken", taken)
    mine = _member_edges(answered)
    adopted = answered.where("NOT taken").select(
        "group",
        F.col("node").alias("parent"),
        F.col("previous").alias("child"),
        F.col("router").alias("parent_router"),
        F.col("previous_router").alias("child_router"),
    )
    placed = superstep.union([tree, mine.select("group", F.col("child").alias("node"))])
    others = placed.withColumnRenamed("node", "child")
    orphans = adopted.distinct().join(others.hint("shuffle_hash"), ["group", "child"], "left_anti")
    return superstep.union([idle, mine, orphans])


def _with_room(forest: Forest, asked: DataFrame, made: DataFrame | None) -> DataFrame:
    """`asked`, partitioned by node, and how many children more the node takes (``room``)."""
    at_nodes = forest.with_limit(asked.repartition("node"), "node")
    if made is None:
        return at_nodes.withColumnRenamed("limit", "room")
    load = made.groupBy(F.col("parent").alias("node")).agg(F.count("*").alias("n"))
    joined = at_nodes.join(load.hint("shuffle_hash"), "node", "left")
    return joined.withColumn("room", F.col("limit") - F.coalesce("n", F.lit(0)))


def _member_edges(answered: DataFrame) -> DataFrame:
    """Each member's edge: to the node that took it, or to the one before."""

    def either(taken: str, handed: str) -> Column:
        return F.when(F.col("taken"), F.col(taken)).otherwise(F.col(handed))

    return answered.select(
        "group",
        either("node", "previous").alias("parent"),
        F.col("member").alias("child"),
        either("router", "previous_router").alias("parent_router"),
        F.col("member_router").alias("child_router"),
    )
