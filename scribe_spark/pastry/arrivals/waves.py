"""Waves: how many nodes arrive together, and in which order.

All nodes of a wave see the overlay as it was before the wave.  With one node per wave, this is the
sequential protocol of the papers; larger waves need fewer supersteps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from scribe_spark import draws
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.contacts import planned_contacts
from scribe_spark.underlay.protocol import Kernel

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config.overlay import OverlayConfig


def wave_size(before: int, growth: float) -> int:
    """Return the size of the wave after n nodes, exactly: max(1, floor(n (growth - 1)))."""
    return max(1, int(before * (Fraction(str(growth)) - 1)))


def wave_ends(nodes: int, growth: float) -> np.ndarray:
    """Return the number of nodes after each wave: int64, ascending, from 1 to `nodes`."""
    ends = [min(1, nodes)]
    while ends[-1] < nodes:
        ends.append(min(nodes, ends[-1] + wave_size(ends[-1], growth)))
    return np.array(ends, dtype=np.int64)


@dataclass(frozen=True)
class Plan:
    """The wave and the contact of each node; arrays of shape (K,), sorted by nodeId.

    The plan is made before the first wave: a contact depends on which nodes arrived before, not on
    their tables.
    """

    wave: np.ndarray  # int64
    rank: np.ndarray  # int64, from 0, in the order of arrival, which is drawn
    contact: np.ndarray  # int64, a position; -1 in wave 0

    @classmethod
    def of(cls, known: Ring, rules: OverlayConfig, seed: int, kernel: Kernel) -> Plan:
        """Return the plan for the arrival of all nodes, which are sorted by nodeId."""
        rank = arrival_ranks(known, seed)
        wave = np.searchsorted(wave_ends(len(known), rules.growth), rank, side="right")
        bits = draws.bits_np(seed, "contact", known.node)
        contact = planned_contacts(rules.contact, known, wave, rank, bits, kernel)
        return cls(wave, rank, contact)

    @classmethod
    def of_first(
        cls, known: Ring, initial: int, rules: OverlayConfig, seed: int, kernel: Kernel
    ) -> Plan:
        """Return the plan for the nodes with numbers below `initial`; others have wave -1."""
        first = np.flatnonzero(known.node < initial)
        if len(first) == len(known):
            return cls.of(known, rules, seed, kernel)
        some, none = cls.of(known.take(first), rules, seed, kernel), np.full(len(known), -1)
        wave, rank, contact = none.copy(), none.copy(), none
        wave[first], rank[first] = some.wave, some.rank
        contact[first] = np.append(first, -1)[some.contact]  # index -1 yields -1
        return cls(wave, rank, contact)


def arrival_ranks(known: Ring, seed: int) -> np.ndarray:
    """Return the rank (from 0) of each node in the order of arrival: int64."""
    drawn = draws.bits_np(seed, "arrival order", known.node).view(np.int64)
    order = np.argsort(drawn, kind="stable")
    rank = np.empty(len(known), dtype=np.int64)
    rank[order] = np.arange(len(known))
    return rank
