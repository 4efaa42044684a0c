"""Randomised routing: another way to the same root.

References
----------
JSAC 2002, Section IV.E: "it uses Pastry to route a JOIN message towards the group identifier with
randomization".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from scribe_spark import draws
from scribe_spark.core import u128 as ids
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.next_hop import RESERVED_COLUMNS, next_hop
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.underlay.protocol import Underlay

__all__ = ["Randomised", "randomised"]


@dataclass(frozen=True)
class Randomised(Overlay):
    """A network whose nodes draw each next hop among all that bring a message on.

    Those are the nodes in leaf set and routing table that share a prefix with the key at least as
    long as the node's own and are numerically closer to the key.  Where there is none, the root is
    a leaf with a shorter prefix, and the usual next hop.

    Attributes
    ----------
    usual : PastryOverlay
    seed : int
    drawn_by : tuple of str
        Payload columns that key the draw, with the node and the candidate.
    """

    usual: PastryOverlay
    seed: int
    drawn_by: tuple[str, ...]

    reserved_columns = RESERVED_COLUMNS

    @property
    def underlay(self) -> Underlay:  # type: ignore[override]
        """See :class:`Overlay`."""
        return self.usual.underlay

    @property
    def nodes(self) -> DataFrame:  # type: ignore[override]
        """See :class:`Overlay`."""
        return self.usual.nodes

    def routing_table(self) -> DataFrame:
        """See :meth:`Overlay.routing_table`."""
        return self.usual.routing_table()

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """See :meth:`Overlay.next_hop`."""
        nodes, rule = self.usual.nodes, _rule(self.usual.b, self.seed, self.drawn_by)
        usual = next_hop(messages, nodes, self.usual.b, *rule.known)
        kept = [*messages.columns, "router", "next"]
        asked = usual.select(*kept, "n_hi", "n_lo", rule.candidate)
        named = asked.hint("shuffle_hash").join(nodes.select(*rule.there), "candidate", "left")
        turns = _closer(named).select(*kept, "candidate", rule.turn)
        drawn = turns.groupBy(kept).agg(rule.drawn)
        return drawn.select(*messages.columns, "router", rule.next).repartition("node")


@dataclass(frozen=True)
class _Rule:
    """The expressions of a hop; built once, for building them costs more than a small round."""

    known: list[Column]
    candidate: Column
    there: list[Column]
    turn: Column
    drawn: Column
    next: Column


@functools.cache
def _rule(b: int, seed: int, drawn_by: tuple[str, ...]) -> _Rule:
    entries = F.filter("entries", lambda entry: entry >= 0)
    candidates = F.array_union("leaves", entries).cast("array<bigint>")
    key = ids.halves("key")
    mine = ids.prefix_digits(*key, *ids.halves("n"), b)
    theirs = ids.prefix_digits(*key, *ids.halves("c"), b)
    draw = draws.bits(seed, "randomised hop", *drawn_by, "node", "candidate")
    onward = F.col("closer") & (theirs >= mine)
    # all that a node knows, under names that the usual hop has no use for
    known = {"leaf_node": "leaves", "table": "entries", "id_hi": "n_hi", "id_lo": "n_lo"}
    there = {"node": "candidate", "node_state.id_hi": "c_hi", "node_state.id_lo": "c_lo"}
    return _Rule(
        known=[F.col(f"node_state.{name}").alias(new) for name, new in known.items()],
        # a message that has arrived stays as it is
        candidate=F.explode_outer(F.when(F.col("next").isNotNull(), candidates)).alias("candidate"),
        there=[F.col(name).alias(new) for name, new in there.items()],
        turn=F.when(onward, F.struct(draw, "candidate")).alias("turn"),
        # NULLs are passed over; where all are, the usual next hop remains
        drawn=F.min_by("candidate", "turn").alias("drawn"),
        next=F.coalesce("drawn", "next").alias("next"),
    )


def randomised(overlay: Overlay, seed: int, *drawn_by: str) -> Randomised:
    """`overlay` with randomised routing.

    Raises
    ------
    TypeError
        The overlay is no Pastry.
    """
    if not isinstance(overlay, PastryOverlay):
        raise TypeError(f"randomised routing is Pastry's; {type(overlay).__name__} has none")
    return Randomised(overlay, seed, drawn_by)


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
