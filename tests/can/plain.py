"""CANs one node after the other, zone by zone: what the kernels' parts are compared with."""

from __future__ import annotations

import itertools

import numpy as np

from scribe_spark.can.space import Space
from scribe_spark.can.zones import Zones


def drawn_points(rng: np.random.Generator, sizes: list[int], bits: int):
    """CANs of some sizes: the CAN and the point of each node."""
    can = np.repeat(np.arange(len(sizes)), sizes)
    return can, rng.integers(0, 1 << bits, len(can))


def one_by_one(points: list[int], bits: int) -> list[tuple[int, int]]:
    """The (depth, first bits) of the zone of each node, which join in this order."""
    owner = {(0, 0): 0}
    for node, point in list(enumerate(points))[1:]:
        depth = next(k for k in range(bits + 1) if (k, point >> (bits - k)) in owner)
        first = owner.pop((depth, point >> (bits - depth)))
        half = point >> (bits - depth - 1)
        owner[depth + 1, half], owner[depth + 1, half ^ 1] = node, first
    zone = {node: one for one, node in owner.items()}
    return [zone[node] for node in range(len(points))]


def box(space: Space, depth: int, bits: int) -> list[tuple[int, int]]:
    """The interval of a zone in each dimension: from, up to."""
    intervals = []
    for j in range(space.dimensions):
        mine = [k for k in range(depth) if k % space.dimensions == j]
        low = sum(
            ((bits >> (depth - 1 - k)) & 1) * (space.places >> (n + 1)) for n, k in enumerate(mine)
        )
        intervals.append((low, low + (space.places >> len(mine))))
    return intervals


def neighbours(space: Space, boxes: list[list[tuple[int, int]]]) -> set[tuple[int, int, int]]:
    """(x, y, face of x) of all pairs of neighbours."""
    found = set()
    for x, y in itertools.permutations(range(len(boxes)), 2):
        apart = [
            j
            for j, (mine, theirs) in enumerate(zip(boxes[x], boxes[y], strict=True))
            if mine[1] <= theirs[0] or theirs[1] <= mine[0]
        ]
        if len(apart) == 1:
            (j,) = apart
            mine, theirs = boxes[x][j], boxes[y][j]
            if theirs[1] % space.places == mine[0]:
                found.add((x, y, 2 * j))
            elif mine[1] % space.places == theirs[0]:
                found.add((x, y, 2 * j + 1))
    return found


def zones_of(space: Space, can: np.ndarray, point: np.ndarray) -> Zones:
    """The zones of nodes whose positions are their places in the order of joining."""
    node = np.arange(len(can)) - np.searchsorted(can, can)
    return Zones.of(space, can, node, point, int(node.max()) + 1)
