"""Flooding over Pastry against its oracle: copies, state and the cost of building, in process."""

from __future__ import annotations

from collections import Counter

import flooding_played
import pytest
from oracle.flooding.flood import announcements, flood, random_flooding, state

SLOW = pytest.mark.slow

#: Buckets and cases: one bucket for all nodes, two, and many of few nodes.
PLAYS = [
    (7, range(50)),
    pytest.param(1, range(220), marks=SLOW),
    pytest.param(2, range(220), marks=SLOW),
    pytest.param(7, range(50, 220), marks=SLOW),
]


@pytest.mark.parametrize(("buckets", "seeds"), PLAYS)
def test_copies_state_and_announcements_equal_the_oracle(buckets, seeds):
    sent = told = 0
    for seed in seeds:
        case = random_flooding(seed)
        overlay, expected = case.overlay(), []
        rings = {group: case.ring(overlay, group) for group in case.case.keys}
        for group, ring in rings.items():
            expected += [
                (group, c.sender, c.receiver, c.hop, c.sent, c.arrives)
                for c in flood(ring, case.sources[group])
            ]
        if case.over == "overlay":
            assert flooding_played.flood_overlay(case, buckets) == sorted(expected), seed
        else:
            found = flooding_played.flood_groups(case, buckets)
            assert found.copies == sorted(expected), seed
            kept, messages = Counter(), Counter()
            for group, ring in rings.items():
                kept.update({(group, *key): n for key, n in state(ring).items()})
                messages.update({(group, *ends[:2]): n for ends, n in announcements(ring).items()})
            assert found.state == kept, seed
            assert found.announcements == messages, seed
            told += messages.total()
        sent += len(expected)
    assert sent > 2_000
    assert told > 2_000
