"""Join messages: routed by the tables as they are, answered by every node on the route.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scribe_spark import ids, superstep
from scribe_spark.pastry.arrivals.letters import LETTER, Content
from scribe_spark.pastry.arrivals.messages import Kind
from scribe_spark.pastry.next_hop import next_hop
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.progress import Progress
from scribe_spark.superstep import Finished, Round, Step, Table

__all__ = ["answers", "route_joins"]

#: A node on a route, and how many digits it shares with the key.
_VISITED = "array<struct<node:bigint,digits:int>>"


def route_joins(
    overlay: PastryOverlay, arriving: DataFrame, progress: Progress | None = None
) -> Finished:
    """Route the join messages of a wave, a hop a superstep.

    Messages that have arrived stay where they are until all have: an outcome of every round would
    be a job of its own.

    Parameters
    ----------
    arriving : DataFrame
        ``node, id_hi, id_lo, router, contact``.

    Returns
    -------
    Finished
        Outcomes: ``arriving, arriving_router, key_hi, key_lo``, ``node`` (the last node of the
        route) with the ``digits`` that it shares with the key, and the nodes ``visited`` before.
    """
    digits = ids.prefix_digits(*ids.halves("key"), *ids.halves("node_state.id"), overlay.b)
    payload = [F.col(c) for c in ("key_hi", "key_lo", "arriving", "arriving_router")]
    moving = F.col("next").isNotNull()
    passed = F.array_append("visited", F.struct("node", "digits"))
    visited = F.when(moving, passed).otherwise(F.col("visited")).alias("visited")

    def at_nodes(messages: DataFrame) -> DataFrame:
        return next_hop(messages, overlay.nodes, overlay.b, digits.alias("digits"))

    def step(state: Mapping[str, Table], inbox: DataFrame, round: Round) -> Step:
        if not round.counts["moving"]:
            return Step(outcomes=inbox)
        at = F.coalesce("next", "node").alias("node")
        return Step(outbox=at_nodes(inbox.select(at, *payload, visited)))

    first = arriving.select(
        F.col("contact").alias("node"),
        F.col("id_hi").alias("key_hi"),
        F.col("id_lo").alias("key_lo"),
        F.col("node").alias("arriving"),
        F.col("router").alias("arriving_router"),
        F.array().cast(_VISITED).alias("visited"),
    )
    return superstep.run(
        "join messages", at_nodes(first), step, counts={"moving": moving}, progress=progress
    )


def answers(routed: DataFrame, states: DataFrame, rows: str, buckets: int) -> DataFrame:
    """What the nodes on the routes answer, as letters to the arriving nodes.

    Parameters
    ----------
    routed : DataFrame
        Outcomes of :func:`route_joins`.
    states : DataFrame
        :data:`LETTER`: states of the nodes before the wave.
    rows : str
        ``route``: row i comes from the first node that shares at least i digits; ``all``.

    Returns
    -------
    DataFrame
        :data:`LETTER`, as :func:`~scribe_spark.pastry.arrivals.bucket_steps.first_states` reads it.
    """
    # 1. each node on a route: the rows that it supplies, from `first` to the digits that it shares
    route = F.concat("visited", F.array(F.struct("node", "digits"))).alias("route")
    message = ["arriving", "arriving_router", "key_hi", "key_lo"]
    on_route = routed.select(*message, route).select(
        *message, "route", F.posexplode("route").alias("place", "visit")
    )
    before = F.transform(F.slice("route", 1, F.col("place")), lambda visit: visit["digits"])
    first = F.lit(0) if rows == "all" else F.coalesce(F.array_max(before) + 1, F.lit(0))
    requests = on_route.select(
        *message,
        F.col("visit.node").alias("node"),
        F.col("visit.digits").alias("digits"),
        first.alias("first"),
        (F.col("place") == F.size("route") - 1).alias("is_last"),
    )
    # 2. what these nodes know
    known = states.select("node", "id_hi", "id_lo", "router", "leaf_set", "routing_table")
    met = requests.hint("shuffle_hash").join(known, "node", "inner")
    itself = [F.col("node").alias("entry"), *map(F.col, ("id_hi", "id_lo", "router"))]
    nowhere = F.lit(0).cast("int")  # of an arriving node's cells, the node itself finds its own
    as_leaf = F.array(F.struct(*itself))
    as_entry = F.array(F.struct(nowhere.alias("row"), nowhere.alias("col"), *itself))
    supplied = F.filter("routing_table", lambda entry: entry["row"].between(*_span()))
    no_leaves = F.array().cast(LETTER["leaf_set"].dataType)
    leaves = F.when(F.col("is_last"), F.concat("leaf_set", as_leaf)).otherwise(no_leaves)
    return met.select(
        F.pmod("arriving", F.lit(buckets)).cast("int").alias("bucket"),
        F.lit(int(Content.ROWS)).cast("int").alias("content"),
        (F.col("first") <= F.col("digits")).alias("sends"),
        F.array_repeat(F.lit(0).cast("bigint"), len(Kind)).alias("messages"),
        F.col("arriving").alias("node"),
        F.col("key_hi").alias("id_hi"),
        F.col("key_lo").alias("id_lo"),
        F.col("arriving_router").alias("router"),
        nowhere.alias("smaller"),
        F.lit(False).alias("covers_ring"),
        leaves.alias("leaf_set"),
        F.concat(supplied, as_entry).alias("routing_table"),
    )


def _span() -> tuple[Column, Column]:
    return F.col("first"), F.col("digits")
