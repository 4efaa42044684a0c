"""Bayeux in a run against its oracle: lists, messages, copies and deliveries of all cases."""

from __future__ import annotations

from collections import Counter

import pytest
from bayeux_played import run_of
from oracle.bayeux.cases import BayeuxCase, random_bayeux
from oracle.bayeux.session import Session, publish
from poisoned import PoisonedTask

from scribe_spark.engine.in_task import InTask

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
        run = run_of(case, buckets, player=PoisonedTask if buckets > 1 else InTask)
        assert run.control() == control_of(sessions), seed
        assert run.state() == state_of(sessions), seed
        deliveries, copies, duplicates = published(case, sessions)
        assert run.rows("deliveries", "group", "node", "hops", "delay_us") == deliveries, seed
        sent = run.rows("copies", "group", "sender", "to", "hops", "sent_us", "first")
        assert [row[:-1] for row in sent] == copies, seed
        edges = run.rows("edges", "group", "sender", "to", "hops", "sent_us", "first")
        assert edges == (sent if run.system.has_trees else [])
        late = [
            to
            for group, _, to, *_, first in sent
            if not first and to in case.case.members[group] - {case.sources[group][0]}
        ]
        assert len(late) == duplicates, seed
        delivered += len(deliveries)
        repeated += duplicates
    assert delivered > 2_000
    assert repeated > 10


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
