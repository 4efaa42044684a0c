"""Randomised routing: another way to the same root.

References
----------
JSAC 2002, Section IV.E: "it uses Pastry to route a JOIN message towards the group identifier with
randomization".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import draws, ids
from scribe_spark.pastry.routing import Overlay

__all__ = ["Randomised", "randomised"]


@dataclass(frozen=True)
class Randomised(Overlay):
    """A network whose nodes draw each next hop among all that bring a message on.

    Those are the nodes in leaf set and routing table that share a prefix with the key at least as
    long as the node's own and are numerically closer to the key.  Where there is none, the root is
    a leaf with a shorter prefix, and the usual next hop.

    Attributes
    ----------
    seed : int
    drawn_by : tuple of str
        Payload columns that key the draw, with the node and the candidate.
    """

    seed: int
    drawn_by: tuple[str, ...]

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """See :meth:`Overlay.next_hop`."""
        usual = super().next_hop(messages)
        underway = usual.where(F.col("next").isNotNull())
        entries = F.filter("table", lambda entry: entry >= 0).cast("array<bigint>")
        known = F.array_union(F.col("leaf.node"), entries)
        here = self.state.select("node", "id_hi", "id_lo", F.explode(known).alias("candidate"))
        asked = here.join(underway.hint("shuffle_hash"), "node", "inner")
        there = self.state.select(
            F.col("node").alias("candidate"),
            F.col("id_hi").alias("c_hi"),
            F.col("id_lo").alias("c_lo"),
        )
        named = asked.join(there.hint("shuffle_hash"), "candidate", "inner")
        own = F.col("key_hi"), F.col("key_lo")
        mine = ids.prefix_digits(*own, F.col("id_hi"), F.col("id_lo"), self.b)
        theirs = ids.prefix_digits(*own, F.col("c_hi"), F.col("c_lo"), self.b)
        closer = _only_closer(named.where(theirs >= mine))
        draw = draws.bits(self.seed, "randomised hop", *self.drawn_by, "node", "candidate")
        columns = [*messages.columns, "router", "candidate"]
        drawn = closer.select(*columns, F.struct(draw, "candidate").alias("turn"))
        nobody = F.lit(None).cast(drawn.schema["turn"].dataType).alias("turn")
        either = drawn.unionByName(
            underway.withColumnRenamed("next", "candidate").select(*columns, nobody)
        )
        # NULL comes last: the usual next hop has its turn where nobody else has
        first = F.min_by("candidate", F.struct(F.col("turn").isNull(), "turn")).alias("next")
        chosen = either.groupBy(*messages.columns, "router").agg(first)
        return chosen.unionByName(usual.where(F.col("next").isNull())).repartition("node")


def randomised(overlay: Overlay, seed: int, *drawn_by: str) -> Randomised:
    """`overlay` with randomised routing."""
    return Randomised(overlay.state, overlay.underlay, overlay.b, seed, drawn_by)


def _only_closer(frame: DataFrame) -> DataFrame:
    """Rows whose candidate is numerically closer to the key than the node (ties: smaller id)."""

    def choose(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            halves = zip(*[batch.column(name).to_pylist() for name in _HALVES], strict=True)
            keep = [_rank(c, d, k, m) < _rank(a, b, k, m) for a, b, c, d, k, m in halves]
            yield batch.filter(pa.array(keep, pa.bool_()))

    return frame.mapInArrow(choose, frame.schema)


_HALVES = ["id_hi", "id_lo", "c_hi", "c_lo", "key_hi", "key_lo"]


def _rank(hi: int, lo: int, key_hi: int, key_lo: int) -> tuple[int, int]:
    """How far an id is from a key on the ring, then the id."""
    one, key = ((high % 2**64) << 64 | low % 2**64 for high, low in ((hi, lo), (key_hi, key_lo)))
    away = (one - key) % 2**ids.BITS
    return min(away, 2**ids.BITS - away), one
