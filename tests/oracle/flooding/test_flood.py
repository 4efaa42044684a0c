"""Flooding over Pastry: cases worked by hand, and what holds of every flood."""

import pytest
from seeds import seeds

from ..pastry import Overlay
from .flood import announcements, deliveries, flood, random_flooding, ring_of, state

#: Five nodes on one router; b = 1: nodeIds 000..., 001..., 010..., 100..., 110...
IDS = {1: 0, 2: 1 << 125, 3: 1 << 126, 4: 1 << 127, 5: 3 << 126}


def small(ids: dict[int, int] = IDS) -> Overlay:
    """The five nodes, all 2 ms from each other, with leaf sets of two."""
    return Overlay(ids, dict.fromkeys(ids, 0), {0: {0: 0}}, b=1, leaf_set_size=2)


def rows_of(overlay: Overlay, source: int) -> set[tuple[int, int, int, int]]:
    """(sender, receiver, hop, row) of each copy."""
    return {(copy.sender, copy.receiver, copy.hop, copy.row) for copy in flood(overlay, source)}


def test_each_row_of_the_source_and_then_the_rows_below() -> None:
    """1 has 4 in row 0 (of 4 and 5 the smaller nodeId), 3 in row 1, 2 in row 2."""
    assert rows_of(small(), 1) == {(1, 4, 1, 0), (1, 3, 1, 1), (1, 2, 1, 2), (4, 5, 2, 1)}


def test_a_range_without_an_entry_goes_along_with_the_copy_of_the_least_row() -> None:
    """1 has lost its entry for row 0: 3 (row 1) takes the range on."""
    overlay = small()
    overlay.routing_table(1).pop((0, 1))
    assert rows_of(overlay, 1) == {(1, 3, 1, 1), (1, 2, 1, 2), (3, 4, 2, 0), (4, 5, 3, 1)}


def test_a_range_that_nobody_takes_along_ends() -> None:
    """1 has no entry but the deepest: 2 takes the ranges of the rows above; without it none."""
    overlay = small()
    overlay.routing_table(1).pop((0, 1))
    overlay.routing_table(1).pop((1, 1))
    assert rows_of(overlay, 1) == {(1, 2, 1, 2), (2, 4, 2, 0), (2, 3, 2, 1), (4, 5, 3, 1)}
    overlay.routing_table(1).pop((2, 1))
    assert rows_of(overlay, 1) == set()


def test_the_ring_of_a_group_has_its_members_and_its_source_alone() -> None:
    ring = ring_of(small(), [3, 5], source=1)
    copies = flood(ring, 1)
    assert {(copy.sender, copy.receiver) for copy in copies} == {(1, 5), (1, 3)}
    assert deliveries(copies, [3, 5], 1) == {3: (1, 2000, 1), 5: (1, 2000, 1)}
    assert state(ring)[1, "routing table"] == 2
    assert announcements(ring)[5, 1, "announcement"] == 1


@pytest.mark.parametrize("seed", seeds(range(200), 5))
def test_on_perfect_tables_every_node_gets_one_copy(seed: int) -> None:
    drawn = random_flooding(seed)
    overlay = drawn.overlay()
    for group in drawn.case.keys:
        source = drawn.sources[group]
        ring = drawn.ring(overlay, group)
        copies = flood(ring, source)  # asserts that none is a second one
        if drawn.damage is None:
            assert {source, *(copy.receiver for copy in copies)} == set(ring.ids)
        by_receiver = {copy.receiver: copy for copy in copies}
        for copy in copies:
            assert copy.sent == (0 if copy.hop == 1 else by_receiver[copy.sender].arrives)
