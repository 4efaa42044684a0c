"""The space of a CAN: a torus whose points and zones are bit strings (docs/rules.md, C1 and C5).

References
----------
S. Ratnasamy, P. Francis, M. Handley, R. Karp, S. Shenker: A scalable content-addressable network,
SIGCOMM 2001 (recalled).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from scribe_spark import draws
from scribe_spark.engine.ring import Ring
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Space:
    """A torus of `dimensions` dimensions; a point is an integer of `bits` bits.

    Bit k of a point (from the most significant) halves dimension k mod `dimensions`.
    """

    dimensions: int  # At least 1
    bits: int  # At most `config.can.most_bits`

    @property
    def points(self) -> int:
        """The number of points."""
        return 1 << self.bits

    @property
    def places(self) -> int:
        """U, the number of coordinates in each dimension; a power of two."""
        return 1 << -(-self.bits // self.dimensions)

    @functools.cached_property
    def dtype(self) -> type[np.signedinteger]:
        """The smallest integer type for coordinates and squared distances."""
        most = self.dimensions * max(self.places // 2, 2) ** 2
        kinds = (np.int16, np.int32, np.int64)
        return next(kind for kind in kinds if most <= np.iinfo(kind).max)

    def coordinates(self, point: np.ndarray) -> np.ndarray:
        """Return the coordinates of points: `dtype`, shape (dimensions, n)."""
        found = np.zeros((self.dimensions, len(point)), dtype=self.dtype)
        highest = self.places.bit_length() - 2
        for k in range(self.bits):
            turn, dimension = divmod(k, self.dimensions)
            bit = (point >> (self.bits - 1 - k)) & 1
            found[dimension] |= bit.astype(self.dtype) << (highest - turn)
        return found

    @functools.cached_property
    def sides(self) -> np.ndarray:
        """The side lengths of zones by depth: `dtype`, shape (dimensions, bits + 1)."""
        dimension, depth = np.ogrid[: self.dimensions, : self.bits + 1]
        halvings = (depth - dimension + self.dimensions - 1) // self.dimensions
        return (self.places >> halvings.clip(0)).astype(self.dtype)

    def beyond_face(
        self, corner: np.ndarray, depth: np.ndarray, dimension: int, upwards: bool
    ) -> np.ndarray:
        """Return the lower corner of the zone of equal depth across a face of each zone: int64.

        Zones are given by lower corner and depth, which is more than `dimension`.
        """
        mask = self._masks[dimension]
        last = (depth - 1 - dimension) // self.dimensions * self.dimensions + dimension
        side = np.int64(1) << (self.bits - 1 - last)
        moved = (corner | ~mask) + side if upwards else (corner & mask) - side
        return (moved & mask) | (corner & ~mask)

    @functools.cached_property
    def _masks(self) -> list[int]:
        """The bits of a point that belong to each dimension."""
        bits_of = [range(j, self.bits, self.dimensions) for j in range(self.dimensions)]
        return [sum(1 << (self.bits - 1 - k) for k in bits) for bits in bits_of]


# --- the points of nodes


#: The number that stands for the group of all nodes in random draws.
ALL_NODES = -1


@dataclass(frozen=True)
class Placement:
    """The rule that gives nodes their points: uniform, or by landmarks (rules C2 to C4)."""

    space: Space
    seed: int
    #: Routers to which nodes measure their delay (distributed binning): indices, ascending.
    landmarks: np.ndarray | None = None

    def points(
        self, number: np.ndarray | int, position: np.ndarray, ring: Ring, kernel: Kernel
    ) -> np.ndarray:
        """Return the points of nodes (positions) in the CANs of groups (numbers): int64."""
        drawn = draws.bits_np(self.seed, "can point", number, ring.node[position])
        if self.landmarks is not None and len(self.landmarks) > 1:  # one landmark has one order
            order = _bins(self.landmarks, kernel, ring.router)[position]
            width = np.uint64(2**64 // math.factorial(len(self.landmarks)))
            drawn = order.astype(np.uint64) * width + drawn % width
        return (drawn >> np.uint64(64 - self.space.bits)).astype(np.int64)

    def order(
        self, can: np.ndarray, number: np.ndarray, position: np.ndarray, ring: Ring
    ) -> np.ndarray:
        """Return the rows, CAN by CAN, in the order in which nodes join their CANs."""
        drawn = draws.bits_np(self.seed, "can order", number, ring.node[position])
        return np.lexsort((position, drawn, can))


def draw_landmarks(seed: int, count: int, routers: int) -> np.ndarray:
    """Draw landmarks among routers."""
    return draws.distinct_below(routers, count, seed, "can landmarks", 0)


def _bins(landmarks: np.ndarray, kernel: Kernel, router: np.ndarray) -> np.ndarray:
    """Return the bin of each router: its order of the landmarks by delay, as a number: int64.

    The orders (permutations) are numbered from 0, lexicographically.
    """
    asked, of = np.unique(router, return_inverse=True)
    delay = [kernel.delays(asked, np.full(len(asked), one)) for one in landmarks]
    order = np.argsort(np.stack(delay, axis=1), axis=1, kind="stable")
    found = np.zeros(len(asked), dtype=np.int64)
    for place in range(len(landmarks)):
        less = (order[:, place + 1 :] < order[:, [place]]).sum(axis=1)
        found = found * (len(landmarks) - place) + less
    return found[of]
