"""Numerical closeness of nodes to keys, in 128-bit arithmetic on uint64 halves.

A node is closer to a key if its distance on the ring is smaller; ties go to the smaller nodeId.

References
----------
JSAC 2002, Section II: "the node with nodeId numerically closest to the key".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core import u128 as ids
from scribe_spark.engine.facts import Keys, Ring
from scribe_spark.pastry.states import NONE


def clockwise(a_hi, a_lo, b_hi, b_lo) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance from a to b clockwise, b - a modulo 2**128, as two halves (uint64)."""
    return b_hi - a_hi - (b_lo < a_lo).astype(np.uint64), b_lo - a_lo


def not_above(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return True where a <= b, for 128-bit numbers as pairs of halves: bool."""
    return ~ids.lt_np(*b, *a)


@dataclass(frozen=True)
class RingDistances:
    """The ring distances of k candidates from each of m keys; they can be compared.

    Of equal distances, the smaller position is closer.
    """

    hi: np.ndarray
    lo: np.ndarray
    position: np.ndarray

    def closer_than(self, other: RingDistances) -> np.ndarray:
        """Return True where a candidate is closer to the key than that of `other`: bool, (m, k)."""
        lower = (self.lo < other.lo) | ((self.lo == other.lo) & (self.position < other.position))
        return (self.hi < other.hi) | ((self.hi == other.hi) & lower)

    def closest(self, among: np.ndarray) -> np.ndarray:
        """Return the column of the closest candidate in each row, or :data:`NONE`.

        `among` (m, k) marks the candidates that count.
        """
        if not among.shape[1]:
            return np.full(len(among), NONE)
        left = among
        for part in (self.hi, self.lo, self.position):
            least = np.where(left, part, np.iinfo(part.dtype).max).min(axis=1)
            left = left & (part == least[:, None])
        return np.where(among.any(axis=1), left.argmax(axis=1), NONE)

    def column(self, column: np.ndarray) -> RingDistances:
        """Return the distances of one candidate of each row, in column `column`: shape (m, 1)."""
        parts = (self.hi, self.lo, self.position)
        return RingDistances(*(np.take_along_axis(part, column[:, None], axis=1) for part in parts))


def distances(known: Ring, keys: Keys, candidates: np.ndarray) -> RingDistances:
    """Return the ring distances of candidates (positions, shape (m, k)) from the m keys."""
    at, key = (known.hi[candidates], known.lo[candidates]), (keys.hi[:, None], keys.lo[:, None])
    one, other = clockwise(*key, *at), clockwise(*at, *key)
    is_one = ids.lt_np(*one, *other)
    hi, lo = (np.where(is_one, a, b) for a, b in zip(one, other, strict=True))
    return RingDistances(hi, lo, candidates)


def roots(known: Ring, live: np.ndarray, keys: Keys) -> np.ndarray:
    """Return the root of each key: the numerically closest of the `live` positions (ascending)."""
    low, high = np.zeros(len(keys), dtype=np.int64), np.full(len(keys), len(live))
    # bisect: the first node whose nodeId is not below the key
    while (searching := low < high).any():
        middle = (low + high) // 2
        at = live[np.minimum(middle, len(live) - 1)]
        below = ids.lt_np(known.hi[at], known.lo[at], keys.hi, keys.lo)
        low = np.where(searching & below, middle + 1, low)
        high = np.where(searching & ~below, middle, high)
    beside = live[np.stack([low - 1, low % len(live)], axis=1)]
    column = distances(known, keys, beside).closest(np.ones(beside.shape, dtype=bool))
    return beside[np.arange(len(beside)), column]
