"""Bits, points and landmarks (rules C1 to C3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

Point = tuple[int, ...]
#: draw(purpose, *numbers) -> 64 bits, unsigned.
Draw = Callable[..., int]

ALL_NODES = -1  # the group of the CAN of all nodes


@dataclass(frozen=True)
class Space:
    """The torus: `dimensions` (d), each of ``2**width`` places; a zone is halved `bits` times."""

    dimensions: int
    bits: int

    @staticmethod
    def of(dimensions: int, bits: int | None = None) -> Space:
        """Return the space of a config: at most 40 bits, 30 a dimension (C1)."""
        most = min(40, 30 * dimensions)
        return Space(dimensions, most if bits is None else min(bits, most))

    @property
    def width(self) -> int:
        """Return c: U = 2^c."""
        return -(-self.bits // self.dimensions)

    @property
    def places(self) -> int:
        """Return U."""
        return 1 << self.width

    def point(self, bits: int) -> Point:
        """Return the coordinates of `bits` bits, which the dimensions take in turns (C1)."""
        coordinates = [0] * self.dimensions
        taken = [0] * self.dimensions
        for k in range(self.bits):
            at = k % self.dimensions
            taken[at] += 1
            bit = bits >> (self.bits - 1 - k) & 1
            coordinates[at] |= bit << (self.width - taken[at])
        return tuple(coordinates)

    def first_bits(self, number: int, length: int) -> Point:
        """Return the point that is the first bits of a number of `length` bits."""
        return self.point(number >> (length - self.bits))


def place_of_order(delays: Sequence[int]) -> int:
    """Return the place of an order of landmarks (delays by router id) among all orders (C3)."""
    order = sorted(range(len(delays)), key=lambda landmark: (delays[landmark], landmark))
    return list(permutations(range(len(delays)))).index(tuple(order))


@dataclass(frozen=True)
class Points:
    """Where nodes join: `landmarks` are routers, none for uniform points (C2, C3)."""

    space: Space
    draw: Draw
    router: Mapping[int, int]
    delay: Mapping[int, Mapping[int, int]]
    landmarks: tuple[int, ...] = ()

    def __call__(self, group: int, node: int) -> Point:
        """Return the point of (group, node)."""
        drawn = self.draw("can point", group, node)
        if self.landmarks:
            near = [self.delay[self.router[node]][one] for one in sorted(self.landmarks)]
            orders = len(list(permutations(near)))
            portion = 2**64 // orders
            drawn = place_of_order(near) * portion + drawn % portion
        return self.space.first_bits(drawn, 64)
