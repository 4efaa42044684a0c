"""Bayeux against its oracle: lists, messages, copies and deliveries of all cases, in process."""

from __future__ import annotations

from collections import Counter

import bayeux_played
import pytest
from oracle.bayeux.cases import BayeuxCase, random_bayeux
from oracle.bayeux.session import Session, publish, way_to_root

SLOW = pytest.mark.slow

#: Buckets and cases: one bucket for all nodes, two, and many of few nodes.
PLAYS = [
    (7, range(50)),
    pytest.param(1, range(220), marks=SLOW),
    pytest.param(2, range(220), marks=SLOW),
    pytest.param(7, range(50, 220), marks=SLOW),
]


@pytest.mark.parametrize(("buckets", "seeds"), PLAYS)
def test_lists_messages_copies_and_deliveries_equal_the_oracle(buckets, seeds):
    delivered = repeated = 0
    for seed in seeds:
        case = random_bayeux(seed)
        sessions = case.sessions(case.overlay())
        played = bayeux_played.join_all(case, buckets, poisoned=buckets > 1)
        assert played.roots() == roots_of(sessions), seed
        assert played.control() == control_of(sessions), seed
        assert played.state() == state_of(sessions), seed
        assert played.edges() == edges_of(sessions), seed
        found = bayeux_played.publish(played, ways_of(case, sessions))
        deliveries, copies, duplicates = published(case, sessions)
        assert found.deliveries == deliveries, seed
        assert [row[:-1] for row in found.copies] == copies, seed
        late = [
            receiver
            for group, _, receiver, *_, first in found.copies
            if not first and receiver in case.case.members[group] - {case.sources[group][0]}
        ]
        assert len(late) == duplicates, seed
        delivered += len(deliveries)
        repeated += duplicates
    assert delivered > 2_000
    assert repeated > 10


def roots_of(sessions: dict[int, Session]) -> dict[tuple[int, int], int]:
    """(group, partition) -> root by the oracle."""
    return {(group, i): root for group, one in sessions.items() for i, root in one.roots.items()}


def control_of(sessions: dict[int, Session]) -> Counter:
    """(group, sender, receiver, kind) -> messages by the oracle."""
    return Counter(
        {(group, *sent): n for group, one in sessions.items() for sent, n in one.messages.items()}
    )


def state_of(sessions: dict[int, Session]) -> Counter:
    """(group, node) -> entries of its member lists by the oracle."""
    return Counter(
        {(group, node): n for group, one in sessions.items() for node, n in one.state().items()}
    )


def edges_of(sessions: dict[int, Session]) -> list[tuple[int, int, int, int]]:
    """(group, partition, node, next hop) by the oracle, sorted."""
    return sorted(
        {
            (group, partition, node, following)
            for group, one in sessions.items()
            for (partition, node), members in one.lists.items()
            for following in members.values()
        }
    )


def ways_of(case: BayeuxCase, sessions: dict[int, Session]) -> dict[int, tuple[int, int, int]]:
    """Group -> source, and its message's hops and delay to the root of partition 0."""
    return {
        group: (source, *(way_to_root(sessions[group], source, way) or (-1, 0)))
        for group, (source, way) in case.sources.items()
    }


def published(
    case: BayeuxCase, sessions: dict[int, Session]
) -> tuple[list[tuple], list[tuple], int]:
    """Deliveries, copies and the number of duplicates by the oracle."""
    deliveries, copies, duplicates = [], [], 0
    for group, session in sessions.items():
        found = publish(session, *case.sources[group])
        deliveries += [(group, node, *got[:2]) for node, got in found.deliveries.items()]
        copies += [(group, c.sender, c.receiver, c.hop, c.sent) for c in found.copies]
        duplicates += found.duplicates
    return sorted(deliveries), sorted(copies), duplicates
