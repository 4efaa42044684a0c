"""Randomised routing: another way to the same root.

References
----------
JSAC 2002, Section IV.E: "it uses Pastry to route a JOIN message towards the group identifier with
randomization".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.core import u128 as ids
from scribe_spark.engine import Tables
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.arrivals.closeness import Keys, distances
from scribe_spark.pastry.bucket_tables import KNOWN, states_of
from scribe_spark.pastry.overlay import PastryNextHop, PastryOverlay

__all__ = ["RandomisedNextHop", "randomised"]


@dataclass(frozen=True)
class RandomisedNextHop:
    """Nodes draw each next hop among all that bring a message on.

    Those are the nodes in leaf set and routing table that share a prefix with the key at least as
    long as the node's own and are numerically closer to the key.  Where there is none, the root is
    a leaf with a shorter prefix, and the usual next hop.

    Attributes
    ----------
    usual : PastryNextHop
    b, seed : int
    drawn_by : tuple of str
        Payload columns that key the draw, with the node and the candidate.
    """

    usual: PastryNextHop
    b: int
    seed: int
    drawn_by: tuple[str, ...]

    def __call__(
        self,
        first: int,
        tables: Tables,
        at: np.ndarray,
        key_hi: np.ndarray,
        key_lo: np.ndarray,
        *drawn_by: np.ndarray,
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.next_hop.NextHop`."""
        onward = self.usual(first, tables, at, key_hi, key_lo)
        message, candidate = self._candidates(first, tables, at, Keys(key_hi, key_lo))
        fits = onward[message] != at[message]  # none where it is at its root
        message, candidate = message[fits], candidate[fits]
        number = self.usual.facts.ring.node
        here, there = number[at[message]], number[candidate]
        by = [column[message] for column in drawn_by]
        draw = draws.bits_np(self.seed, "randomised hop", *by, here, there).view(np.int64)
        order = np.lexsort((there, draw, message))
        drawn, least = np.unique(message[order], return_index=True)
        onward[drawn] = candidate[order[least]]
        return onward

    def _candidates(
        self, first: int, tables: Tables, at: np.ndarray, keys: Keys
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes that each message may go to: message, position."""
        facts = self.usual.facts
        states, ring = states_of(facts, first, tables[KNOWN]), facts.ring
        leaves = states.leaves[at - first]
        cells = states.cells[at - first].reshape(len(at), -1)
        known = np.concatenate([leaves, cells], axis=1).astype(np.int64)
        known.sort(axis=1)
        known[:, 1:][known[:, 1:] == known[:, :-1]] = -1
        message, column = np.nonzero(known >= 0)
        candidate, here, keys = known[message, column], at[message], keys.take(message)
        theirs = ids.shared_digits_np(
            ring.hi[candidate], ring.lo[candidate], keys.hi, keys.lo, self.b
        )
        mine = ids.shared_digits_np(ring.hi[here], ring.lo[here], keys.hi, keys.lo, self.b)
        away = distances(ring, keys, np.stack([candidate, here], axis=1))
        closer = away.column(np.zeros(len(here), dtype=np.int64)).closer_than(
            away.column(np.ones(len(here), dtype=np.int64))
        )[:, 0]
        fits = closer & (theirs >= mine)
        return message[fits], candidate[fits]


def randomised(overlay: Overlay, seed: int, *drawn_by: str) -> RandomisedNextHop:
    """Return an overlay's rule of routing with randomisation.

    Raises
    ------
    TypeError
        The overlay is no Pastry.
    """
    if not isinstance(overlay, PastryOverlay):
        raise TypeError(f"randomised routing is Pastry's; {type(overlay).__name__} has none")
    return RandomisedNextHop(overlay.rule, overlay.b, seed, drawn_by)
