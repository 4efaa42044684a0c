"""The ring of 2^128 nodeIds: digits, distances, roots, and the leaf sets that the ring defines."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache

BITS = 128
RING = 1 << BITS
MASK = RING - 1


def clockwise(a: int, b: int) -> int:
    """How far b lies from a in the direction of larger nodeIds."""
    return (b - a) & MASK


def distance(a: int, b: int) -> int:
    """Least distance of a and b on the ring."""
    d = (b - a) & MASK
    return min(d, RING - d)


def closeness(key: int, ident: int) -> tuple[int, int]:
    """Order of "numerically closest to the key": distance, then the smaller nodeId (rule P1)."""
    return distance(key, ident), ident


def closest(idents: Iterable[int], key: int) -> int:
    """The nodeId that is numerically closest to the key."""
    return min(idents, key=lambda ident: closeness(key, ident))


def on_arc(key: int, first: int, last: int) -> bool:
    """Whether the key is on the closed arc upwards from `first` to `last`."""
    return clockwise(first, key) <= clockwise(first, last)


@cache
def digits(ident: int, bits: int) -> tuple[int, ...]:
    """All digits of a nodeId or key, the highest first."""
    return tuple((ident >> shift) % 2**bits for shift in range(BITS - bits, -1, -bits))


def shared_digits(a: int, b: int, bits: int) -> int:
    """Number of leading digits of `bits` bits that a and b have in common."""
    return (BITS - (a ^ b).bit_length()) // bits


def digit(ident: int, place: int, bits: int) -> int:
    """The digit at a place, 0 being the leading one."""
    return (ident >> (BITS - bits * (place + 1))) & ((1 << bits) - 1)


def root_of(key: int, idents: Mapping[int, int], live: Iterable[int]) -> int:
    """The live node numerically closest to the key, found by looking at all of them."""
    return min(live, key=lambda node: closeness(key, idents[node]))


class SortedRing:
    """The live nodes in ring order, to find roots and true leaf sets quickly."""

    def __init__(self, idents: Mapping[int, int], live: Iterable[int]) -> None:
        self.nodes = sorted(live, key=lambda node: idents[node])
        self.idents = [idents[node] for node in self.nodes]

    def root(self, key: int) -> int:
        """The node numerically closest to the key."""
        place = bisect_left(self.idents, key)
        beside = {(place - 1) % len(self.nodes), place % len(self.nodes)}
        return self.nodes[min(beside, key=lambda at: closeness(key, self.idents[at]))]

    def leaf_sets(self, half: int) -> dict[int, tuple[list[int], list[int]]]:
        """Node -> (next smaller, next larger), at most `half` each, nearest first."""
        count = len(self.nodes)
        reach = min(half, count - 1)
        return {
            node: (
                [self.nodes[(at - step) % count] for step in range(1, reach + 1)],
                [self.nodes[(at + step) % count] for step in range(1, reach + 1)],
            )
            for at, node in enumerate(self.nodes)
        }
