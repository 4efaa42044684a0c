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
from pyspark.sql.types import BooleanType, StructField, StructType

from scribe_spark import draws, ids
from scribe_spark.pastry.routing import Overlay, next_hop

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
        # all that a node knows: handed on under names that a hop has no use for
        known = {"leaves": "leaf", "entries": "table", "n_hi": "id_hi", "n_lo": "id_lo"}
        state = self.state.withColumns({new: F.col(name) for new, name in known.items()})
        usual = next_hop(messages, state, self.b, *known)
        entries = F.filter("entries", lambda entry: entry >= 0).cast("array<bigint>")
        candidates = F.array_union(F.col("leaves.node"), entries)
        rest = [c for c in usual.columns if c not in ("leaves", "entries")]
        # one that has arrived, or knows nobody, stays as it is
        asked = usual.select(
            *rest, F.explode_outer(F.when(F.col("next").isNotNull(), candidates)).alias("candidate")
        )
        there = self.state.select(
            F.col("node").alias("candidate"),
            F.col("id_hi").alias("c_hi"),
            F.col("id_lo").alias("c_lo"),
        )
        named = asked.repartition("candidate").hint("shuffle_hash").join(there, "candidate", "left")
        own = F.col("key_hi"), F.col("key_lo")
        mine = ids.prefix_digits(*own, F.col("n_hi"), F.col("n_lo"), self.b)
        theirs = ids.prefix_digits(*own, F.col("c_hi"), F.col("c_lo"), self.b)
        draw = draws.bits(self.seed, "randomised hop", *self.drawn_by, "node", "candidate")
        onward = F.when(F.col("closer") & (theirs >= mine), F.struct(draw, "candidate"))
        columns = [*messages.columns, "router", "next"]
        chosen = _closer(named).select(*columns, "candidate", onward.alias("turn"))
        # (NULLs are passed over; where all are, the usual next hop stands)
        first = F.min_by("candidate", "turn").alias("drawn")
        hops = chosen.groupBy(columns).agg(first)
        turned = F.coalesce("drawn", "next").alias("next")
        return hops.select(*messages.columns, "router", turned).repartition("node")


def randomised(overlay: Overlay, seed: int, *drawn_by: str) -> Randomised:
    """`overlay` with randomised routing."""
    return Randomised(overlay.state, overlay.underlay, overlay.b, seed, drawn_by)


def _closer(frame: DataFrame) -> DataFrame:
    """`frame` and whether the candidate is numerically ``closer`` to the key than the node is.

    Of two as close the smaller id is the closer.  False where there is no candidate.
    """

    def compare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            halves = zip(*[batch.column(name).to_pylist() for name in _HALVES], strict=True)
            closer = [
                c is not None and _rank(c, d, k, m) < _rank(a, b, k, m)
                for a, b, c, d, k, m in halves
            ]
            yield batch.append_column("closer", pa.array(closer, pa.bool_()))

    return frame.mapInArrow(compare, StructType([*frame.schema.fields, _CLOSER]))


_HALVES = ["n_hi", "n_lo", "c_hi", "c_lo", "key_hi", "key_lo"]
_CLOSER = StructField("closer", BooleanType())


def _rank(hi: int, lo: int, key_hi: int, key_lo: int) -> tuple[int, int]:
    """How far an id is from a key on the ring, then the id."""
    one, key = ((high % 2**64) << 64 | low % 2**64 for high, low in ((hi, lo), (key_hi, key_lo)))
    away = (one - key) % 2**ids.BITS
    return min(away, 2**ids.BITS - away), one
