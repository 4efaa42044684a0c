"""Bayeux: cases worked by hand, and what holds of every session."""

from __future__ import annotations

from collections import Counter

import pytest
from seeds import seeds

from ..pastry import Overlay
from ..ring import RING
from .cases import random_bayeux
from .session import (
    PASTRY,
    SURROGATE,
    Options,
    Session,
    partition_keys,
    publish,
    root_of,
    roots,
    surrogate_hop,
)

#: b = 2: nodeIds that begin with the digits 00, 01, 12, 13, 30, 32; distances grow with numbers.
FIRST = {1: 0b0000, 2: 0b0001, 3: 0b0110, 4: 0b0111, 5: 0b1100, 6: 0b1110}


def small() -> Overlay:
    """Six nodes, node i on router i, |i - j| ms apart."""
    ids = {node: bits << 124 for node, bits in FIRST.items()}
    delay = {a: {b: 1000 * abs(a - b) for b in ids} for a in ids}
    return Overlay(ids, {node: node for node in ids}, delay, b=2, leaf_set_size=2)


def test_keys_of_partitions_are_spread_evenly_from_the_group_id_on() -> None:
    quarter = RING // 4
    assert partition_keys(0, 4) == [0, quarter, 2 * quarter, 3 * quarter]
    assert partition_keys(RING - 1, 2) == [RING - 1, RING // 2 - 1]
    assert partition_keys(5, 3)[1] == 5 + RING // 3


def test_the_surrogate_root_has_the_next_digit_upwards_row_by_row() -> None:
    """20...: no digit 2, so 3; of 30 and 32 the 0 fits. 03...: of 00 and 01 the 3 goes on to 0."""
    overlay = small()
    assert root_of(overlay, 0b1000 << 124, SURROGATE) == 5
    assert root_of(overlay, 0b0011 << 124, SURROGATE) == 1
    assert root_of(overlay, 0b0011 << 124, PASTRY) == 2
    assert surrogate_hop(overlay, 1, 0b1000 << 124) == 5
    assert surrogate_hop(overlay, 6, 0b1000 << 124) == 5
    assert surrogate_hop(overlay, 5, 0b1000 << 124) is None


def test_of_partitions_with_one_root_the_first_exists() -> None:
    """The keys begin with 31, 01, 11, 21; the last has the root of the first, 32."""
    assert roots(small(), 0b1101 << 124, 4, SURROGATE) == {0: 6, 1: 2, 2: 3}


def test_lists_of_a_session_by_hand() -> None:
    """Root 1 (00). It knows 2 (01), 3 of the 1s and 5 of the 3s; 4 is behind 3, 6 behind 5."""
    session = Session(small(), 0, Options())
    for member in (1, 2, 4, 6):
        session.join(member)
    assert session.roots == {0: 1}
    assert session.lists == {(0, 1): {2: 2, 4: 3, 6: 5}, (0, 3): {4: 4}, (0, 5): {6: 6}}
    assert session.state() == {1: 3, 3: 1, 5: 1}
    assert session.messages == Counter(
        {
            (2, 1, "JOIN"): 1,
            (4, 2, "JOIN"): 1,
            (6, 1, "JOIN"): 1,
            (1, 2, "TREE"): 1,
            (1, 3, "TREE"): 1,
            (3, 4, "TREE"): 1,
            (1, 5, "TREE"): 1,
            (5, 6, "TREE"): 1,
        }
    ) + Counter({(2, 1, "JOIN"): 1})
    published = publish(session, 1)
    assert published.deliveries == {2: (1, 3000, 1), 4: (2, 7000, 3), 6: (2, 9000, 5)}
    assert published.duplicates == 0
    assert {(c.sender, c.receiver, c.hop, c.sent) for c in published.copies} == {
        (1, 2, 1, 0),
        (1, 3, 1, 0),
        (1, 5, 1, 0),
        (3, 4, 2, 4000),
        (5, 6, 2, 6000),
    }


def test_a_publication_of_another_node_comes_to_the_root_first() -> None:
    session = Session(small(), 0, Options())
    for member in (1, 2, 4):
        session.join(member)
    assert publish(session, 4, "direct").deliveries == {1: (1, 5000, 4), 2: (2, 8000, 1)}
    assert publish(session, 4, "routed").deliveries == {1: (2, 7000, 4), 2: (3, 10000, 1)}


def test_members_join_the_nearest_partition_and_each_gets_its_copy_from_the_first_root() -> None:
    session = Session(small(), 0, Options(partitions=2))
    assert session.roots == {0: 1, 1: 4}
    for member in range(1, 7):
        session.join(member)
    assert session.joined == {1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 1}
    published = publish(session, 1)
    assert published.deliveries[4] == (1, 5000, 1)
    assert published.deliveries[3] == (2, 8000, 4)


@pytest.mark.parametrize("seed", seeds(range(200), 40))
def test_perfect_tables_bring_every_message_to_its_end(seed: int) -> None:
    """Routes to keys end at roots; each member is delivered once; table hops make a tree."""
    drawn = random_bayeux(seed, perfect=True)
    overlay = drawn.overlay()
    sessions = drawn.sessions(overlay)
    for group, published in drawn.publications(sessions).items():
        session, members = sessions[group], drawn.case.members[group]
        source = drawn.sources[group][0]
        assert session.answered == members
        assert published.deliveries.keys() == members - {source}
        if drawn.options.hops == "table":
            into = Counter((copy.partition, copy.receiver) for copy in published.copies)
            assert set(into.values()) <= {1}
            # a route is as long as the digits that it corrects
            assert session.state().total() <= 128 // overlay.b * len(members)
        if session.options.partitions == 1 and drawn.options.hops == "table":
            assert published.duplicates == 0
            root_list = session.lists.get((0, session.roots[0]), {})
            assert root_list.keys() == members - {session.roots[0]}


@pytest.mark.parametrize("seed", seeds(range(100), 15))
def test_with_damaged_tables_those_get_nothing_whose_messages_end_elsewhere(seed: int) -> None:
    drawn = random_bayeux(seed, perfect=False)
    sessions = drawn.sessions(drawn.overlay())
    for group, published in drawn.publications(sessions).items():
        session = sessions[group]
        reached = {node for _, node in published.first}
        assert published.deliveries.keys() <= reached | {session.roots[0]}


def test_the_cases_have_what_can_happen() -> None:
    seen: Counter[object] = Counter()
    for seed in range(150):
        drawn = random_bayeux(seed)
        sessions = drawn.sessions(drawn.overlay())
        for group, published in drawn.publications(sessions).items():
            session = sessions[group]
            seen[drawn.options.hops, "second copies"] += len(published.copies) > len(
                published.first
            )
            seen["unanswered"] += session.answered < session.joined.keys()
            seen["partitions", len(session.roots) > 1] += 1
            seen["duplicates"] += published.duplicates > 0
            seen["missed"] += len(published.deliveries) < len(
                session.joined.keys() - {drawn.sources[group][0]}
            )
            seen[drawn.sources[group][1], session.roots[0] in session.joined] += 1
    assert seen["leaf_set", "second copies"] > 3
    assert all(seen[one] > 5 for one in ("unanswered", "duplicates", "missed"))
    assert seen["partitions", True] > 30
    assert all(seen[way, there] > 10 for way in ("root", "routed", "direct") for there in (0, 1))
