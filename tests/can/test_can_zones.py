"""Zones and neighbours, beside CANs that are built one node after the other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from scribe_spark.can.neighbours import across_faces, opposite
from scribe_spark.can.space import Space
from scribe_spark.can.zones import split_zones
from scribe_spark.config.can import most_bits
from scribe_spark.errors import InputError
from tests.can.plain import box, drawn_points, neighbours, one_by_one, zones_of

CASES = list(itertools.product(range(8), (1, 2, 3, 6)))


def _case(seed: int, dimensions: int):
    rng = np.random.default_rng(seed)
    space = Space(dimensions, most_bits(dimensions))
    sizes = [1, 2, 3, *rng.integers(4, 60, 3)]
    return space, sizes, *drawn_points(rng, sizes, space.bits)


@pytest.mark.parametrize(("seed", "dimensions"), CASES)
def test_zones_are_those_of_joining_one_by_one(seed, dimensions):
    space, sizes, can, point = _case(seed, dimensions)
    corner, depth = split_zones(space, can, point)
    expected = [
        one
        for number in range(len(sizes))
        for one in one_by_one(point[can == number].tolist(), space.bits)
    ]
    first_bits = corner >> (space.bits - depth)
    assert list(zip(depth.tolist(), first_bits.tolist(), strict=True)) == expected
    # they tile the space
    for number in range(len(sizes)):
        assert sum(2.0 ** -depth[can == number]) == 1


@pytest.mark.parametrize(("seed", "dimensions"), CASES)
def test_neighbours_are_those_of_all_pairs(seed, dimensions):
    space, sizes, can, point = _case(seed, dimensions)
    zones = zones_of(space, can, point)
    here, there, face = across_faces(zones, np.arange(len(zones)))
    back = zones.depth[there] < zones.depth[here]
    pairs = list(zip(here, there, face, strict=True)) + list(
        zip(there[back], here[back], opposite(zones, here, face)[back], strict=True)
    )
    assert len(set(pairs)) == len(pairs)
    boxes = [
        box(space, int(k), int(bits >> (space.bits - int(k))))
        for k, bits in zip(zones.depth, zones.corner, strict=True)
    ]
    for zone, intervals in enumerate(boxes):
        assert zones.low[:, zone].tolist() == [low for low, _ in intervals]
        side = zones.side(np.array([zone]))[:, 0].tolist()
        assert side == [high - low for low, high in intervals]
    expected = set()
    for number in range(len(sizes)):
        mine = np.flatnonzero(zones.can == number)
        expected |= {
            (mine[x], mine[y], f) for x, y, f in neighbours(space, [boxes[one] for one in mine])
        }
    assert set(pairs) == expected
    assert {(y, x) for x, y, _ in expected} == {(x, y) for x, y, _ in expected}


def test_a_zone_that_cannot_be_halved_again_is_refused():
    space = Space(2, 3)
    with pytest.raises(InputError, match="can_bits = 3: leaves a zone with 2 nodes"):
        split_zones(space, np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64))
    _, depth = split_zones(space, np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64))
    assert sorted(depth) == [1, 2, 3, 3]


def test_look_ups_of_points_and_nodes():
    rng = np.random.default_rng(5)
    space = Space(3, most_bits(3))
    zones = zones_of(space, *drawn_points(rng, [40, 1, 17], space.bits))
    every = np.arange(len(zones))
    assert (zones.of_node(zones.can, zones.node) == every).all()
    highest = zones.corner + (1 << (space.bits - zones.depth.astype(np.int64))) - 1
    assert (zones.of_point(zones.can, zones.corner) == every).all()
    assert (zones.of_point(zones.can, highest) == every).all()
