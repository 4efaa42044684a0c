"""CAN, CAN multicast and CAN as the overlay: cases worked by hand."""

import pytest
from keyed import draw_of

from .flood import (
    CORNER,
    DIRECTED,
    OPTIMAL,
    contacts,
    control,
    duplicates,
    first_apart,
    flood,
    joins,
    parent,
    state,
)
from .zones import (
    Can,
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


def test_a_zone_of_all_bits_cannot_be_halved() -> None:
    zones = build([(0, (0,)), (1, (1,))], Space(1, 1))
    with pytest.raises(NoRoom, match="node 1 cannot be halved for node 2"):
        join(zones, 2, (1,), Space(1, 1))


# --- multicast ------------------------------------------------------------------------------------


def given(points: dict[int, tuple[int, ...]], space: Space) -> Can:
    """A CAN of nodes that join at given points in the order given; nodeIds are the numbers."""

    class Given(Points):
        def __call__(self, group: int, node: int) -> tuple[int, ...]:
            return points[node]

    order = list(points)
    return Can(order, {node: node for node in order}, Given(space, draw_of(0), {}, {}), 1)


#: A line of 16 places in eight equal zones: node i has [2 i, 2 i + 2).
EIGHT = given(
    {0: (0,), 4: (8,), 2: (4,), 6: (12,), 1: (2,), 3: (6,), 5: (10,), 7: (14,)}, Space(1, 4)
)


def sent(can: Can, source: int, flooding: str) -> set[tuple[int, int, int]]:
    """(sender, receiver, hop) of each copy, by hops."""
    return {(c.sender, c.receiver, c.hops) for c in flood(can, source, flooding).copies}


def test_a_copy_goes_half_way_round_and_no_further() -> None:
    """From the middle 1: upper faces at 2, 4, 6, 8; lower ones at 0, 14, 12, 10: both reach 4."""
    upward = {(0, 1, 1), (1, 2, 2), (2, 3, 3), (3, 4, 4)}
    downward = {(0, 7, 1), (7, 6, 2), (6, 5, 3), (5, 4, 4)}
    assert sent(EIGHT, 0, DIRECTED) == upward | downward
    # 4 begins at 8: (8 - 1) mod 16 is less than half of 16, so its parent is below it
    assert sent(EIGHT, 0, OPTIMAL) == (upward | downward) - {(5, 4, 4)}
    turned = {((a + 3) % 8, (b + 3) % 8, hop) for a, b, hop in upward | downward}
    assert sent(EIGHT, 3, CORNER) == turned


def test_flooding_by_hand() -> None:
    """0 has the lower left quarter, 2 the upper left one, 1 the right half.

    A square of 4 x 4: 0 [0, 2) x [0, 2), 2 [0, 2) x [2, 4), 1 [2, 4) x [0, 4); all are across lower
    faces of each other. From 1, whose middle is (3, 2): across its lower face at x = 2 to 0 and 2,
    (3 - 2) < 2. These have got theirs along dimension 0, and may send along it, downwards: to 1,
    across the lower face at x = 0, (3 - 0) mod 4 is beyond half way; along dimension 1 not at all.
    """
    space = Space(2, 4)
    can = given({0: (0, 0), 1: (2, 0), 2: (0, 2)}, space)
    assert {node: (zone.low, zone.side) for node, zone in can.zones.items()} == {
        0: ((0, 0), (2, 2)),
        1: ((2, 0), (2, 4)),
        2: ((0, 2), (2, 2)),
    }
    for flooding in (DIRECTED, CORNER, OPTIMAL):
        assert sent(can, 1, flooding) == {(1, 0, 1), (1, 2, 1)}
    assert parent(can, 1, 2) == parent(can, 1, 0) == 1
    # From 0, whose middle is (1, 1): 1 along x, 2 along y; 2 goes on to 1 along x, downwards: a
    # duplicate, which rule 5 leaves out (1's corner (2, 0) is not at 2's y).
    assert sent(can, 0, DIRECTED) == {(0, 1, 1), (0, 2, 1), (2, 1, 2)}
    assert sent(can, 0, CORNER) == {(0, 1, 1), (0, 2, 1)}
    assert sent(can, 0, OPTIMAL) == {(0, 1, 1), (0, 2, 1)}
    assert duplicates(flood(can, 0, DIRECTED), [0, 1, 2], 0) == 1
    assert (first_apart(can, 0, 1), first_apart(can, 0, 2), first_apart(can, 0, 0)) == (0, 1, None)


def test_messages_of_joining_by_hand() -> None:
    """On the line of eight: 4 is opposite the contact 0."""
    assert state(EIGHT) == dict.fromkeys(range(8), 2)
    assert EIGHT.route(0, (9,)) == [0, 7, 6, 5, 4]  # 3 hops up to 3, 4 down: 9 is nearer from 7
    found = joins(EIGHT)
    assert found[4, 0, "JOIN"] == 1
    assert found.total() == 7 + sum([0, 1, 2, 3, 2, 1, 0])
    to_three = contacts(EIGHT, EIGHT, 0b0110 << 124)
    assert to_three.total() == sum([3, 2, 1, 0, 1, 2, 3, 4])
    assert control(EIGHT, EIGHT, 0b0110 << 124).total() == 7 + 9 + 16
