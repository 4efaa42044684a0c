"""Lazy growth: a JOIN makes no forwarders on its way; the first node of the tree takes the joining
node in.

References
----------
JSAC 2002, Section IV.F: "an alternative algorithm that grows trees less eagerly".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from scribe_spark import draws, superstep
from scribe_spark.runtime.blocks import materialise, release
from scribe_spark.scribe.variants.context import (
    EDGE,
    Variant,
    VariantContext,
    bigints,
    timed_edges,
)
from scribe_spark.scribe.variants.tree_arrays import Trees, whole_trees
from scribe_spark.superstep import Round, Step, Table

__all__ = ["grow_lazily"]

_GROUP = ["group", "node"]


def grow_lazily(context: VariantContext) -> Variant:
    """Members join in waves, each as large as all before it together.

    A wave's JOINs see the tree and the loads that the waves before it left.  At the first node p in
    the tree, as many as it has room for become its children; the others become children of the node
    before p on their route, which p takes in their stead.

    The messages of a round are the edges that a wave has made; each goes to both ends.
    """
    trees = whole_trees(context.edges, _joining(context))
    steps = trees.mapInArrow(_routes, bigints(_STEP)).repartition("node")
    routes, any_step = materialise(steps)
    if not any_step:
        return Variant(context.edges.limit(0), overloaded=0)
    roots = context.groups.select("group", F.col("root").alias("node")).repartition("node")
    tree = Table(_GROUP, append_only=True, initial=roots)
    children = Table(["group", "node", "child"], ["router", "child_router"], append_only=True)

    def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
        edges = inbox.where(F.col("parent").isNotNull())
        # 1. the lower end of an edge is in the tree from now on; the upper end has a child more
        joined = edges.where(F.col("node") == F.col("child")).select(_GROUP)
        taken = edges.where(F.col("node") == F.col("parent")).select(
            *_GROUP, "child", F.col("parent_router").alias("router"), "child_router"
        )
        # 2. the next wave
        made = _wave(
            context, _steps(routes, round.number + 1), tree.after(joined), children.after(taken)
        )
        return Step(_to_both_ends(made), {"tree": joined, "children": taken})

    first = _to_both_ends(_wave(context, _steps(routes, 0), tree, children))
    superstep.run(
        "lazy growth",
        first,
        step,
        state={"tree": tree, "children": children},
        progress=context.progress,
    )
    release(routes)
    tree.release()
    grown = children.rows()
    edges = timed_edges(
        context.edges.limit(0)
        if grown is None
        else grown.withColumnsRenamed({"node": "parent", "router": "parent_router"}),
        context.overlay.underlay,
    )
    children.release()
    return Variant(edges, overloaded=context.overloaded(edges).count(), owned=[edges])


def _to_both_ends(edges: DataFrame) -> DataFrame:
    """Each edge as a message to its child and one to its parent, if it has one."""
    node = F.explode(F.array_distinct(F.array_compact(F.array("child", "parent")))).alias("node")
    return edges.select(*EDGE, node).repartition("node")


def _joining(context: VariantContext) -> DataFrame:
    """Every member and the wave that it joins in: ``group, node, router, wave``."""
    draw = draws.bits(context.seed, "arrival", *_GROUP)
    place = F.row_number().over(Window.partitionBy("group").orderBy(draw, "node"))
    wave = F.length(F.bin(place)) - 1  # place 1; 2, 3; 4 to 7; ...
    return context.members.select(*_GROUP, "router", wave.cast("bigint").alias("wave"))


_STEP = ["group", "member", "member_router", "wave", "hop"]
_STEP += ["node", "router", "previous", "previous_router"]


def _routes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each node that a member's JOIN would come by, itself at hop 0 included.

    A node's next hop to a root does not depend on who asks: the way up Scribe's own tree is the
    route.  ``previous, previous_router``: the node before (NULL at hop 0).
    """
    trees = Trees.of(batches)
    if trees is None:
        return
    wave = trees.members.column("wave").to_numpy()
    row, at = np.arange(len(wave)), trees.member
    nobody = pa.nulls(len(wave), pa.int64())
    before = [nobody, nobody]
    for hop in itertools.count():
        member = trees.member[row]
        columns = [trees.group[member], trees.node[member], trees.router[member], wave[row]]
        columns += [np.full(len(row), hop), trees.node[at], trees.router[at]]
        arrays = [*map(pa.array, columns), *before]
        yield pa.RecordBatch.from_arrays(arrays, names=_STEP)
        onward = trees.above[at] >= 0
        row, at = row[onward], at[onward]
        if not len(row):
            return
        before = [pa.array(trees.node[at]), pa.array(trees.router[at])]
        at = trees.above[at]


def _steps(routes: DataFrame, wave: int) -> DataFrame:
    return routes.where(F.col("wave") == wave)


def _wave(context: VariantContext, steps: DataFrame, tree: Table, children: Table) -> DataFrame:
    """Return the edges that a wave's JOINs make (`EDGE`); a member that sends none has no parent.

    Parameters
    ----------
    steps : DataFrame
        Every step of the wave's JOINs, partitioned by node.
    tree : Table
        ``group, node`` of all in the trees.
    children : Table
        ``group, node, child`` of all edges so far.
    """
    inside = tree.rows()
    assert inside is not None  # a root for every group
    here = inside.withColumn("inside", F.lit(True)).hint("shuffle_hash")
    at = F.struct("hop", "node", "router", "previous", "previous_router")
    first = F.min(F.when(F.col("inside"), at)).alias("at")
    found = steps.join(here, _GROUP, "left").groupBy("group", "member", "member_router")
    asked = _with_room(context, found.agg(first).select("*", "at.*"), children.rows())
    # at hop 0 the member itself is in the tree, and sends no JOIN
    idle = F.col("hop") == 0
    turn = F.row_number().over(Window.partitionBy("node").orderBy(idle, "group", "member"))
    taken = (turn <= F.col("room")) | (F.col("previous") == F.col("member"))
    answered = asked.withColumns({"idle": idle, "taken": taken})
    member = F.col("member"), F.col("member_router")
    p, q = (F.col("node"), F.col("router")), (F.col("previous"), F.col("previous_router"))
    nobody = F.lit(None).cast("bigint"), F.lit(None).cast("bigint")
    edges = (
        F.when(F.col("idle"), F.array(_edge(nobody, member)))
        .when(F.col("taken"), F.array(_edge(p, member)))
        .otherwise(F.array(_edge(q, member), _edge(p, q)))
    )
    # p takes q once, for whomever; also where q joins by itself in this wave, which brings it to p
    return answered.select("group", F.inline(edges)).select(EDGE).distinct()


def _edge(parent: tuple[Column, Column], child: tuple[Column, Column]) -> Column:
    """Two nodes, each with its router, as a struct."""
    columns = (parent[0], child[0], parent[1], child[1])
    return F.struct(*[c.alias(name) for c, name in zip(columns, EDGE[1:], strict=True)])


def _with_room(context: VariantContext, asked: DataFrame, children: DataFrame | None) -> DataFrame:
    """`asked`, partitioned by node, and how many children more the node takes (``room``)."""
    at_nodes = context.with_limit(asked.repartition("node"), "node")
    if children is None:
        return at_nodes.withColumnRenamed("limit", "room")
    load = children.groupBy("node").agg(F.count("*").alias("n"))
    joined = at_nodes.join(load.hint("shuffle_hash"), "node", "left")
    return joined.withColumn("room", F.col("limit") - F.coalesce("n", F.lit(0)))
