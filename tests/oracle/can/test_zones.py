"""Zones and neighbours: cases worked by hand, and what holds of every CAN."""

from __future__ import annotations

import random

import pytest
from seeds import seeds

from .zones import (
    NoRoom,
    Points,
    Space,
    Zone,
    adjacencies,
    build,
    join,
    neighbours,
    owner,
    place_of_order,
    symmetric,
    tiles,
)

#: A square of 16 x 16.
SQUARE = Space(2, 8)
#: It is halved along x, its lower half along y, then its upper one.
FOUR = [(10, (1, 1)), (11, (9, 1)), (12, (1, 12)), (13, (15, 3))]


def test_bits_go_to_the_dimensions_in_turns() -> None:
    """Dimension 0 has the bits 1, 1, 0 of 1011 01, and dimension 1 the bits 0, 1, 1."""
    assert Space(2, 6).point(0b101101) == (0b110, 0b011)
    assert Space(2, 5).point(0b10110) == (0b110, 0b010)  # the last bit of dimension 1 is missing
    assert Space(2, 5).first_bits(0b10110111, 8) == (0b110, 0b010)


def test_the_space_of_a_config() -> None:
    assert Space.of(1) == Space(1, 30)
    assert Space.of(6) == Space(6, 40)
    assert (Space.of(6).width, Space.of(1).width, Space.of(2, 7).width) == (7, 30, 4)


def test_each_order_of_landmarks_has_its_portion() -> None:
    assert [place_of_order(d) for d in ((1, 1, 1), (1, 3, 2), (2, 1, 3), (3, 2, 1))] == [0, 1, 2, 5]
    delay = {0: {7: 5, 8: 4}, 1: {7: 4, 8: 4}}
    points = Points(Space(1, 4), lambda *_: 2**64 - 1, {0: 0, 1: 1}, delay, (8, 7))
    assert points(1, 0) == (15,)  # 8 before 7: the upper half
    assert points(1, 1) == (7,)  # equally far: 7 before 8


def test_zones_of_four_joins() -> None:
    """12 takes the upper half of 10's; 13 has its point in the lower half of 11's."""
    assert build(FOUR, SQUARE) == {
        10: Zone((0, 0), (8, 8), 2, 0b00),
        11: Zone((8, 8), (8, 8), 2, 0b11),
        12: Zone((0, 8), (8, 8), 2, 0b01),
        13: Zone((8, 0), (8, 8), 2, 0b10),
    }


def test_the_owner_moves_out_of_the_half_with_the_newcomers_point() -> None:
    """The owner keeps the half without the newcomer's point, though its own was in the other."""
    zones = build([(0, (1,)), (1, (2,))], Space(1, 4))
    assert zones == {0: Zone((8,), (8,), 1, 1), 1: Zone((0,), (8,), 1, 0)}
    assert owner(zones, (1,)) == 1


def test_neighbours_across_both_faces_count_across_the_lower_one() -> None:
    """Each of four squares has the same neighbour on both sides, and none across a corner."""
    adjacent = adjacencies(build(FOUR, SQUARE), SQUARE)
    assert {row for row in adjacent if row[0] == 10} == {(10, 13, 0, -1), (10, 12, 1, -1)}
    assert neighbours(adjacent) == {10: {12, 13}, 11: {12, 13}, 12: {10, 11}, 13: {10, 11}}


def test_a_half_has_two_quarters_across_a_face() -> None:
    zones = build(FOUR[:3], SQUARE)
    assert zones[11] == Zone((8, 0), (8, 16), 1, 1)
    found = {row for row in adjacencies(zones, SQUARE) if row[0] == 11}
    assert found == {(11, 10, 0, -1), (11, 12, 0, -1)}


def test_faces_on_a_line() -> None:
    """Zones of 16, in order: 0 [0, 4), 2 [4, 8), 1 [8, 16)."""
    line = Space(1, 4)
    zones = build([(0, (0,)), (1, (9,)), (2, (5,))], line)
    assert adjacencies(zones, line) == {
        (0, 2, 0, 1),
        (2, 0, 0, -1),
        (2, 1, 0, 1),
        (1, 2, 0, -1),
        (1, 0, 0, 1),
        (0, 1, 0, -1),
    }


def test_a_node_alone_has_no_neighbour() -> None:
    assert adjacencies(build([(3, (5, 5))], SQUARE), SQUARE) == set()


def test_a_zone_of_all_bits_cannot_be_halved() -> None:
    zones = build([(0, (0,)), (1, (1,))], Space(1, 1))
    with pytest.raises(NoRoom, match="node 1 cannot be halved for node 2"):
        join(zones, 2, (1,), Space(1, 1))


@pytest.mark.parametrize("seed", seeds(range(60), 15))
def test_zones_tile_the_torus_and_neighbours_are_symmetric(seed: int) -> None:
    pick = random.Random(seed)
    space = Space.of(pick.randint(1, 6))
    zones: dict[int, Zone] = {}
    for node in range(pick.randint(1, 50)):
        point = space.point(pick.getrandbits(space.bits))
        join(zones, node, point, space)
        assert zones[node].holds(point)
        if node % 10 == 0:
            assert tiles(zones, space)
    assert tiles(zones, space)
    assert symmetric(zones, adjacencies(zones, space), space)
    assert len({(zone.depth, zone.prefix) for zone in zones.values()}) == len(zones)
