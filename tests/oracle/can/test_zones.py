"""Zones and neighbours: cases worked by hand, and what holds of every CAN."""

from __future__ import annotations

import random

import pytest

from .zones import NoRoom, Zone, adjacencies, build, join, neighbours, owner, symmetric, tiles

#: Four nodes on a square of 16 x 16: halved along x, its lower half along y, then its upper one.
FOUR = [(10, (1, 1)), (11, (9, 1)), (12, (1, 12)), (13, (15, 3))]


def test_zones_of_four_joins() -> None:
    """12 takes the upper half of 10's; 13 has its point in the lower half of 11's."""
    assert build(FOUR, 4) == {
        10: Zone((0, 0), (8, 8), 2, 0b00),
        11: Zone((8, 8), (8, 8), 2, 0b11),
        12: Zone((0, 8), (8, 8), 2, 0b01),
        13: Zone((8, 0), (8, 8), 2, 0b10),
    }


def test_the_owner_moves_out_of_the_half_with_the_newcomers_point() -> None:
    """The owner keeps the half without the newcomer's point, though its own was in the other."""
    zones = build([(0, (1,)), (1, (2,))], 4)
    assert zones == {0: Zone((8,), (8,), 1, 1), 1: Zone((0,), (8,), 1, 0)}
    assert owner(zones, (1,)) == 1


def test_neighbours_of_four_squares() -> None:
    """On a torus each square has the same neighbour on both sides, and none across a corner."""
    adjacent = adjacencies(build(FOUR, 4), 4)
    assert {row for row in adjacent if row[0] == 10} == {
        (10, 13, 0, -1),
        (10, 13, 0, 1),
        (10, 12, 1, -1),
        (10, 12, 1, 1),
    }
    assert neighbours(adjacent) == {10: {12, 13}, 11: {12, 13}, 12: {10, 11}, 13: {10, 11}}


def test_a_half_has_two_quarters_across_a_face() -> None:
    zones = build(FOUR[:3], 4)
    assert zones[11] == Zone((8, 0), (8, 16), 1, 1)
    assert {row for row in adjacencies(zones, 4) if row[0] == 11} == {
        (11, 10, 0, -1),
        (11, 10, 0, 1),
        (11, 12, 0, -1),
        (11, 12, 0, 1),
    }


def test_a_node_alone_has_no_neighbour() -> None:
    assert adjacencies(build([(3, (5, 5, 5))], 4), 4) == set()


def test_zones_of_one_point_cannot_be_halved() -> None:
    zones = build([(0, (0,)), (1, (1,))], 1)
    with pytest.raises(NoRoom, match="node 0 cannot"):
        join(zones, 2, (1,), 1) if zones[0].holds((1,)) else join(zones, 2, (0,), 1)


@pytest.mark.parametrize("seed", range(60))
def test_zones_tile_the_torus_and_neighbours_are_symmetric(seed: int) -> None:
    pick = random.Random(seed)
    dimensions, width = pick.randint(1, 6), 20
    zones: dict[int, Zone] = {}
    for node in range(pick.randint(1, 60)):
        point = tuple(pick.randrange(1 << width) for _ in range(dimensions))
        join(zones, node, point, width)
        assert zones[node].holds(point)
        if node % 10 == 0:
            assert tiles(zones, dimensions, width)
    assert tiles(zones, dimensions, width)
    assert symmetric(adjacencies(zones, width))
    assert len({(zone.depth, zone.prefix) for zone in zones.values()}) == len(zones)
