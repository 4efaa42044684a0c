"""Zones and neighbours, beside CANs that are built one node after the other."""

import itertools

import numpy as np
import pytest

from scribe_spark.can.config import most_bits
from scribe_spark.can.zones import Space, Zones, across_faces, opposite, split_zones
from scribe_spark.core.errors import InputError
from tests.oracle.can import zones as plain
from tests.oracle.can.zones import Zone, adjacencies, build

CASES = list(itertools.product(range(8), (1, 2, 3, 6)))


def drawn_points(rng: np.random.Generator, sizes: list[int], bits: int):
    """CANs of some sizes: the CAN and the point of each node."""
    can = np.repeat(np.arange(len(sizes)), sizes)
    return can, rng.integers(0, 1 << bits, len(can))


def zones_of(space: Space, can: np.ndarray, point: np.ndarray) -> Zones:
    """The zones of nodes whose positions are their places in the order of joining."""
    node = np.arange(len(can)) - np.searchsorted(can, can)
    return Zones.of(space, can, node, point, int(node.max()) + 1)


def one_by_one(dimensions: int, can: np.ndarray, point: np.ndarray) -> list[dict[int, Zone]]:
    """The oracle's zones of each CAN, by their numbers among all."""
    space = plain.Space.of(dimensions)
    every = [(number, space.point(one)) for number, one in enumerate(point.tolist())]
    return [
        build([every[at] for at in np.flatnonzero(can == number)], space)
        for number in np.unique(can)
    ]


def _case(seed: int, dimensions: int):
    rng = np.random.default_rng(seed)
    space = Space(dimensions, most_bits(dimensions))
    sizes = [1, 2, 3, *rng.integers(4, 60, 3)]
    return space, *drawn_points(rng, sizes, space.bits)


@pytest.mark.parametrize(("seed", "dimensions"), CASES)
def test_zones_are_those_of_joining_one_by_one(seed, dimensions):
    space, can, point = _case(seed, dimensions)
    corner, depth = split_zones(space, can, point)
    first_bits = corner >> (space.bits - depth)
    expected = one_by_one(dimensions, can, point)
    every = {at: zone for zones in expected for at, zone in zones.items()}
    found = dict(enumerate(zip(depth.tolist(), first_bits.tolist(), strict=True)))
    assert found == {at: (zone.depth, zone.prefix) for at, zone in every.items()}
    # they tile the space
    for number in range(len(expected)):
        assert sum(2.0 ** -depth[can == number]) == 1


@pytest.mark.parametrize(("seed", "dimensions"), CASES)
def test_neighbours_are_those_of_all_pairs(seed, dimensions):
    space, can, point = _case(seed, dimensions)
    zones = zones_of(space, can, point)
    here, there, face = across_faces(zones, np.arange(len(zones)))
    back = zones.depth[there] < zones.depth[here]
    pairs = list(zip(here, there, face, strict=True)) + list(
        zip(there[back], here[back], opposite(zones, here, face)[back], strict=True)
    )
    assert len(set(pairs)) == len(pairs)
    place = zones.of_node(can, np.arange(len(can)) - np.searchsorted(can, can))
    assert sorted(place) == list(range(len(zones)))
    expected = set()
    for one in one_by_one(dimensions, can, point):
        for at, zone in one.items():
            assert tuple(zones.low[:, place[at]].tolist()) == zone.low
            assert tuple(zones.side(place[[at]])[:, 0].tolist()) == zone.side
        expected |= {
            (place[x], place[y], 2 * dimension + (direction > 0))
            for x, y, dimension, direction in adjacencies(one, plain.Space.of(dimensions))
        }
    assert set(pairs) == expected
    assert {(y, x) for x, y, _ in expected} == {(x, y) for x, y, _ in expected}


def test_a_zone_that_cannot_be_halved_again_is_refused():
    space = Space(2, 3)
    with pytest.raises(InputError, match="can_bits = 3: leaves a zone with 2 nodes"):
        split_zones(space, np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64))
    _, depth = split_zones(space, np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64))
    assert sorted(depth) == [1, 2, 3, 3]
