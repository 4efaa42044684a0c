"""Reliable ordered delivery on the upcalls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .joining import common_extra
from .reliable import Reliable
from .upcalls import Ask, Join, Local

G = 1


def test_a_new_forwarder_carries_the_least_of_what_its_children_carry() -> None:
    joins = [Join(G, node, 0, "own", extra) for node, extra in enumerate((None, 7, 5, 9))]
    assert common_extra(Reliable(4), joins) == 5
    assert common_extra(Reliable(4), joins[:1]) is None


def test_a_repairing_join_asks_for_what_a_child_still_needs() -> None:
    reliable = Reliable(4)
    here = Local(3, G, 1, False, 0, 0, frozenset({2}))
    record = reliable.record(here)
    record.last, record.buffer = 5, {5: (0, G, 9)}
    assert list(reliable.join_handler(here, Join(G, 2, 3, "parent failed", 3))) == [Ask(3)]
    assert reliable.fault_handler(here, Join(G, 1, 3, "parent failed")) == 3
    record.buffer[4] = (0, G, 8)
    assert reliable.fault_handler(here, Join(G, 1, 3, "parent failed")) == 5
    (answer,) = reliable.join_handler(here, Join(G, 2, 3, "parent failed", 3))
    assert answer.numbers == (4, 5)


def test_who_has_not_begun_asks_for_the_round_of_the_join() -> None:
    """Node 1 is cut off and has not begun when node 2 joins under it in round 3."""
    reliable = Reliable(8)
    here = Local(3, G, 1, False, 0, -1, frozenset({2, 4}))
    assert list(reliable.join_handler(here, Join(G, 2, 3, "own"))) == []
    later = replace(here, round=5)
    assert reliable.fault_handler(later, Join(G, 1, 5, "parent failed")) == 3 << 32
    # a child that has a number: it does not say whether it comes before round 3
    list(reliable.join_handler(later, Join(G, 4, 5, "parent failed", 17)))
    assert reliable.fault_handler(replace(here, round=6), Join(G, 1, 6, "parent failed")) == 0
    member = Local(5, G, 7, False, 0, 4, frozenset())
    assert reliable.fault_handler(member, Join(G, 7, 5, "parent failed")) == 4 << 32


def test_a_child_is_served_from_the_round_of_its_join() -> None:
    """A later number may be of an earlier publication: 6 was kept by its source."""
    reliable = Reliable(8)
    here = Local(6, G, 1, False, 0, 0, frozenset({2}))
    record = reliable.record(here)
    published = {4: 2, 5: 3, 6: 2, 7: 4, 8: 5}  # number -> round
    record.last, record.buffer = 8, {number: (at, G, 9) for number, at in published.items()}
    record.since = 2
    (answer,) = reliable.join_handler(here, Join(G, 2, 6, "own", 3 << 32))
    assert (answer.start, answer.since, answer.numbers) == (4, 3, (5, 6, 7, 8))
    record.since = 4
    assert list(reliable.join_handler(here, Join(G, 2, 6, "own", 3 << 32))) == [Ask(3 << 32)]


@pytest.mark.parametrize(
    ("had", "extra", "at"),
    [
        (4, 8, 4),  # it waits for 5 to 9, which are not here
        (10, 12, 10),  # all that is here; but the child does not know yet where it begins
        (12, 10, 10),  # more than is here
        (10, 2 << 32, 0),  # the round is not here: all of the epoch
        (1 << 32, 2 << 32, 1 << 32),
        (1 << 32, 8, 0),
    ],
)
def test_a_question_adds_to_what_a_child_waits_for(had: int, extra: int, at: int) -> None:
    """Node 1 lacks 4 to 9; its child has sent its JOIN in round 3, and asks in round 5."""
    reliable = Reliable(8)
    here = Local(3, G, 1, False, 0, 0, frozenset({2}))
    record = reliable.record(here)
    record.last, record.since, record.buffer = 10, 3, {10: (2, G, 9)}
    list(reliable.join_handler(here, Join(G, 2, 3, "own", had)))
    later = replace(here, round=5)
    asked = list(reliable.join_handler(later, Join(G, 2, 3, "ask", extra)))
    assert asked == ([] if at == 10 else [Ask(at)])
    assert record.needs[2].at == at
    assert record.needs[2].since == min(3, had >> 32 or 3, extra >> 32 or 3)
