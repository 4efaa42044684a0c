"""Join messages: routed by the tables as they are, answered by every node on the route.

References
----------
JSAC 2002, Section II.B.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import superstep
from scribe_spark.core.arrays import offsets_of
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.join_answers import request_letters
from scribe_spark.pastry.arrivals.letters import LETTER
from scribe_spark.pastry.arrivals.rules import ArrivalRules
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.progress import Progress
from scribe_spark.superstep import Finished, Round, Step, Table
from scribe_spark.underlay.protocol import Kernel

__all__ = ["requests", "route_joins"]

#: A node on a route.
_VISIT = ("node", "router", "at_hi", "at_lo")
_VISITED = "array<struct<node:bigint,router:bigint,at_hi:bigint,at_lo:bigint>>"


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
        route) with its ``router, at_hi, at_lo`` (its nodeId), and the nodes ``visited`` before.
    """
    payload = [F.col(c) for c in ("key_hi", "key_lo", "arriving", "arriving_router")]
    moving = F.col("next").isNotNull()
    passed = F.array_append("visited", F.struct(*_VISIT))
    visited = F.when(moving, passed).otherwise(F.col("visited")).alias("visited")

    def at_nodes(messages: DataFrame) -> DataFrame:
        hop = overlay.next_hop(messages)
        there = overlay.nodes.select(
            "node", F.col("id_hi").alias("at_hi"), F.col("id_lo").alias("at_lo")
        )
        return hop.hint("shuffle_hash").join(there, "node", "inner")

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


def requests(routed: DataFrame, kernel: Kernel, rules: ArrivalRules, buckets: int) -> DataFrame:
    """What the nodes on the routes are asked for, as letters to them.

    Parameters
    ----------
    routed : DataFrame
        Outcomes of :func:`route_joins`.

    Returns
    -------
    DataFrame
        :data:`LETTER`, as :func:`~scribe_spark.pastry.arrivals.join_answers.answer_joins` reads it.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from _requests(batch, rules, buckets)

    here = F.array(F.struct(*_VISIT))
    return routed.select(
        F.col("arriving").alias("node"),
        F.col("key_hi").alias("id_hi"),
        F.col("key_lo").alias("id_lo"),
        F.col("arriving_router").alias("router"),
        F.concat("visited", here).alias("route"),
    ).mapInArrow(run, LETTER)


def _requests(batch: pa.RecordBatch, rules: ArrivalRules, buckets: int) -> Iterator[pa.RecordBatch]:
    route = batch.column("route")
    lengths = route.value_lengths().to_numpy().astype(np.int64)
    visits = pa.RecordBatch.from_struct_array(route.flatten())
    known = Ring.join(_ring(batch, "id_hi", "id_lo"), _ring(visits, "at_hi", "at_lo"))
    # routes begin at the top
    routes = np.full((lengths.max(), len(lengths)), -1, dtype=np.int64)
    message = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(message)) - offsets_of(lengths)[message]
    routes[place, message] = len(batch) + np.arange(len(message))
    yield from request_letters(known, routes, np.arange(len(batch)), rules, buckets)


def _ring(rows: pa.RecordBatch, hi: str, lo: str) -> Ring:
    columns = [rows.column(name).to_numpy() for name in (hi, lo, "node", "router")]
    return Ring(columns[0].view(np.uint64), columns[1].view(np.uint64), *columns[2:])
