"""The space of a CAN: a torus whose points and zones are bits (docs/rules.md, C1 and C5).

References
----------
S. Ratnasamy, P. Francis, M. Handley, R. Karp, S. Shenker: A scalable content-addressable network,
SIGCOMM 2001 (recalled).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

__all__ = ["Space"]


@dataclass(frozen=True)
class Space:
    """The torus of `dimensions` dimensions; a point is a number of `bits` bits.

    Bit k of a point, from the highest, halves dimension k mod `dimensions`.

    Attributes
    ----------
    dimensions : int
        At least 1.
    bits : int
        At most `config.can.most_bits`.
    """

    dimensions: int
    bits: int

    @property
    def places(self) -> int:
        """How many places each dimension has, U; a power of two."""
        return 1 << -(-self.bits // self.dimensions)

    def coordinates(self, point: np.ndarray) -> np.ndarray:
        """Return the coordinates of points: int64, shape (n, dimensions)."""
        found = np.zeros((len(point), self.dimensions), dtype=np.int64)
        highest = self.places.bit_length() - 2
        for k in range(self.bits):
            turn, dimension = divmod(k, self.dimensions)
            found[:, dimension] |= ((point >> (self.bits - 1 - k)) & 1) << (highest - turn)
        return found

    @functools.cached_property
    def sides(self) -> np.ndarray:
        """The sides of a zone of each depth: int64, shape (bits + 1, dimensions)."""
        depth, dimension = np.ogrid[: self.bits + 1, : self.dimensions]
        halvings = (depth - dimension + self.dimensions - 1) // self.dimensions
        return self.places >> halvings.clip(0)

    def beyond_face(
        self, corner: np.ndarray, depth: np.ndarray, dimension: int, upwards: bool
    ) -> np.ndarray:
        """Return the lower corner of the zone of the same depth across a face of each zone: int64.

        Parameters
        ----------
        corner : ndarray of int64, shape (n,)
            Lower corners of zones, as points.
        depth : ndarray of int, shape (n,)
            More than `dimension`.
        dimension : int
        upwards : bool
            Across the upper face, or the lower one.
        """
        mask = self._masks[dimension]
        last = (depth - 1 - dimension) // self.dimensions * self.dimensions + dimension
        side = np.int64(1) << (self.bits - 1 - last)
        moved = (corner | ~mask) + side if upwards else (corner & mask) - side
        return (moved & mask) | (corner & ~mask)

    @functools.cached_property
    def _masks(self) -> list[int]:
        """The bits of a point that belong to each dimension."""
        mine = [range(j, self.bits, self.dimensions) for j in range(self.dimensions)]
        return [sum(1 << (self.bits - 1 - k) for k in bits) for bits in mine]
