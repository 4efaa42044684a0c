"""Flooding over Pastry against its oracle: copies, state and the cost of building, in process."""

from __future__ import annotations

from collections import Counter

import flooding_played
import pytest
from oracle.flooding.flood import announcements, deliveries, flood, random_flooding, state

SLOW = pytest.mark.slow

#: Buckets and cases: one bucket for all nodes, two, and many of few nodes.
PLAYS = [
    (7, range(50)),
    pytest.param(1, range(220), marks=SLOW),
    pytest.param(2, range(220), marks=SLOW),
    pytest.param(7, range(50, 220), marks=SLOW),
]


@pytest.mark.parametrize(("buckets", "seeds"), PLAYS)
def test_round_0_of_a_run_equals_the_oracle(buckets, seeds):
    sent = told = kept_by_overlays = 0
    for seed in seeds:
        case = random_flooding(seed)
        overlay, copies, came = case.overlay(), [], []
        rings = {group: case.ring(overlay, group) for group in case.case.keys}
        for group, ring in rings.items():
            flooded = flood(ring, case.sources[group])
            copies += [(group, c.sender, c.receiver, c.hop, c.sent) for c in flooded]
            of_members = deliveries(flooded, case.case.members[group], case.sources[group])
            came += [(group, node, *row[:2]) for node, row in of_members.items()]
        found = flooding_played.flood(case, buckets)
        assert found.copies == sorted(copies), seed
        assert found.deliveries == sorted(came), seed
        kept, messages = Counter(), Counter()
        if case.over == "overlay" and rings:
            kept = Counter({(None, *key): n for key, n in state(overlay).items()})
            kept_by_overlays += kept.total()
        else:
            for group, ring in rings.items():
                kept.update({(group, *key): n for key, n in state(ring).items()})
                messages.update({(group, *ends[:2]): n for ends, n in announcements(ring).items()})
        assert found.state == kept, seed
        assert found.announcements == messages, seed
        told += messages.total()
        sent += len(copies)
    assert min(sent, told, kept_by_overlays) > 2_000
