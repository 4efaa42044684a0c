"""Randomised routing: another way to the same root.

References
----------
JSAC 2002, Section IV.E: "it uses Pastry to route a JOIN message towards the group identifier with
randomization".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType

from scribe_spark import draws
from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import list_array, offsets_of
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Facts
from scribe_spark.overlay import Overlay
from scribe_spark.overlay.next_hop import next_hops
from scribe_spark.pastry.arrivals.closeness import Keys, distances
from scribe_spark.pastry.bucket_tables import KNOWN, states_of
from scribe_spark.pastry.overlay import PastryNextHop, PastryOverlay

__all__ = ["Randomised", "randomised"]


class Randomised(Overlay):
    """A network whose nodes draw each next hop among all that bring a message on.

    Those are the nodes in leaf set and routing table that share a prefix with the key at least as
    long as the node's own and are numerically closer to the key.  Where there is none, the root is
    a leaf with a shorter prefix, and the usual next hop.

    Parameters
    ----------
    usual : PastryOverlay
    seed : int
    drawn_by : tuple of str
        Payload columns that key the draw, with the node and the candidate.
    """

    def __init__(self, usual: PastryOverlay, seed: int, drawn_by: tuple[str, ...]) -> None:
        self.nodes, self.underlay = usual.nodes, usual.underlay
        self.ring, self.known = usual.ring, usual.known
        self._usual, self._seed, self._drawn_by = usual, seed, drawn_by

    @property
    def rule(self) -> PastryNextHop:
        """The usual rule, where there is no candidate."""
        return self._usual.rule

    def routing_table(self) -> DataFrame:
        """See :meth:`Overlay.routing_table`."""
        return self._usual.routing_table()

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """See :meth:`Overlay.next_hop`."""
        facts, b = self.ring.facts, self._usual.b

        def more(first: int, tables: Tables, *hop: np.ndarray) -> Mapping[str, pa.Array]:
            return {"candidates": _candidates(facts, b, first, tables, *hop)}

        asked = next_hops(
            *(self.ring, self.known, messages, self.rule, self.underlay.kernel, more),
            {"candidates": ArrayType(LongType())},
        )
        # the least draw; an array's draws are compared as (draw, candidate)
        usual = F.col("next")
        named = asked.select("*", F.explode_outer("candidates").alias("candidate"))
        draw = draws.bits(self._seed, "randomised hop", *self._drawn_by, "node", "candidate")
        turn = F.when(F.col("candidate").isNotNull(), F.struct(draw, "candidate"))
        kept = [*messages.columns, "router", "next"]
        drawn = named.groupBy(kept).agg(F.min_by("candidate", turn).alias("drawn"))
        return drawn.select(*messages.columns, "router", F.coalesce("drawn", usual).alias("next"))


def _candidates(
    facts: Facts,
    b: int,
    first: int,
    tables: Tables,
    at: np.ndarray,
    key_hi: np.ndarray,
    key_lo: np.ndarray,
    onward: np.ndarray,
) -> pa.Array:
    """The numbers of the nodes that each message may go to; none where it is at its root."""
    states, ring = states_of(facts, first, tables[KNOWN]), facts.ring
    leaves = states.leaves[at - first]
    cells = states.cells[at - first].reshape(len(at), -1)
    known = np.concatenate([leaves, cells], axis=1).astype(np.int64)
    known[onward == at] = -1
    known.sort(axis=1)
    known[:, 1:][known[:, 1:] == known[:, :-1]] = -1
    message, column = np.nonzero(known >= 0)
    candidate, here, keys = known[message, column], at[message], Keys(key_hi, key_lo).take(message)
    theirs = ids.shared_digits_np(ring.hi[candidate], ring.lo[candidate], keys.hi, keys.lo, b)
    mine = ids.shared_digits_np(ring.hi[here], ring.lo[here], keys.hi, keys.lo, b)
    away = distances(ring, keys, np.stack([candidate, here], axis=1))
    closer = away.column(np.zeros(len(here), dtype=np.int64)).closer_than(
        away.column(np.ones(len(here), dtype=np.int64))
    )[:, 0]
    fits = closer & (theirs >= mine)
    lengths = np.bincount(message[fits], minlength=len(at))
    return list_array(offsets_of(lengths), ring.node[candidate[fits]])


def randomised(overlay: Overlay, seed: int, *drawn_by: str) -> Randomised:
    """Return `overlay` with randomised routing.

    Raises
    ------
    TypeError
        The overlay is no Pastry.
    """
    if not isinstance(overlay, PastryOverlay):
        raise TypeError(f"randomised routing is Pastry's; {type(overlay).__name__} has none")
    return Randomised(overlay, seed, drawn_by)
