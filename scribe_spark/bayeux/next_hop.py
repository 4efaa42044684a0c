"""Bayeux's routing rules: to a node by routing tables alone, and surrogate routing to a key.

References
----------
docs/rules.md, B3 and B5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.core.arrays import whole_numbers
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import KnowsRing
from scribe_spark.overlay.next_hop import NextHop
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.next_hop import Met, hop, table_entry
from scribe_spark.pastry.states import CELLS, IsAlive, States


class Hop(Protocol):
    """A routing rule for Bayeux's messages; picklable."""

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, keys: Keys
    ) -> tuple[np.ndarray, Met]:
        """Return the next hops of messages in a bucket, and the dead nodes that they met.

        The rule is called like `next_hop.hop`, with the position of the bucket's first node and the
        bucket's tables.
        """
        ...


def table_hop(
    states: States, is_alive: IsAlive, at: np.ndarray, keys: Keys
) -> tuple[np.ndarray, Met]:
    """Return next hops by routing tables alone, and the dead nodes that messages met.

    If the cell is empty or its node is dead, the message takes Pastry's next hop.  That may try the
    same node again, which is then reported twice.  The arguments are those of `next_hop.hop`.
    """
    onward, _ = table_entry(states, at, keys)
    dead = np.flatnonzero((onward >= 0) & ~is_alive(onward))
    met = onward[dead]
    rest = np.flatnonzero(~is_alive(onward))
    onward[rest], more = hop(states, is_alive, at[rest], keys.take(rest))
    return onward, Met(np.r_[dead, rest[more.message]], np.r_[met, more.dead])


@dataclass(frozen=True)
class ByKnowledge:
    """Routing by the leaf sets and routing tables in a bucket, around dead nodes (`Hop`)."""

    facts: KnowsRing
    is_alive: IsAlive
    #: Either `next_hop.hop` or :func:`table_hop`; with perfect tables, the latter resolves one
    #: digit per hop.
    rule: Callable[[States, IsAlive, np.ndarray, Keys], tuple[np.ndarray, Met]]

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, keys: Keys
    ) -> tuple[np.ndarray, Met]:
        """See `Hop`."""
        return self.rule(States.of_tables(self.facts.ring, first, tables), self.is_alive, at, keys)


@dataclass(frozen=True)
class Settled:
    """Routing by an overlay's rule, when no node has died (`Hop`)."""

    rule: NextHop

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, keys: Keys
    ) -> tuple[np.ndarray, Met]:
        """See `Hop`."""
        met = Met(whole_numbers(), whole_numbers())
        return self.rule(first, tables, at, keys.hi, keys.lo), met


@dataclass(frozen=True)
class SurrogateNextHop:
    """Surrogate routing to a key.

    In each row, the next digit is the first one with an entry, starting at the key's digit,
    cyclically.
    """

    facts: KnowsRing

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.next_hop.NextHop`."""
        ring, cells = self.facts.ring, tables[CELLS]["cells"]
        base, b = cells.shape[2], cells.shape[2].bit_length() - 1
        onward = at.copy()
        searching = np.arange(len(at))
        for row in range(cells.shape[1]):
            here = at[searching]
            own = ids.digit_np(ring.hi[here], ring.lo[here], row, b)
            wanted = ids.digit_np(key_hi[searching], key_lo[searching], row, b)
            entries = cells[here - first, row]
            # the entries of the row, beginning with the wanted digit
            order = (wanted[:, None] + np.arange(base)) % base
            filled = np.take_along_axis(entries, order, axis=1) >= 0
            filled |= order == own[:, None]
            place = filled.argmax(axis=1)
            digit = (wanted + place) % base
            goes = digit != own
            onward[searching[goes]] = entries[goes, digit[goes]]
            searching = searching[~goes]
        return onward
