"""Flooding over Pastry against its oracle: copies, state and the cost of building, in process."""

from collections import Counter

import flooding_played
import pytest
import worlds
from oracle.flooding.flood import announcements, deliveries, flood, random_flooding, state
from seeds import PLAYS

SLOW = pytest.mark.slow


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
        kept, messages = Counter(), Counter()
        if case.over == "overlay" and rings:
            kept = Counter({(None, *key): n for key, n in state(overlay).items()})
            kept_by_overlays += kept.total()
        elif case.over == "group":
            for group, ring in rings.items():
                kept.update({(group, *key): n for key, n in state(ring).items()})
                messages.update({(group, *ends): n for ends, n in announcements(ring).items()})
        check(
            flooding_played.flood(case, buckets),
            worlds.world(case.case).base,
            copies,
            came,
            kept,
            messages,
        )
        told += messages.total()
        sent += len(copies)
    assert min(sent, told, kept_by_overlays) > 2_000


def check(found, base: int, copies: list, came: list, kept: Counter, messages: Counter) -> None:
    """Compare the tables of a run with the oracle's rows, whose nodes begin at 0."""
    kinds = tuple(found.system.state)
    ours = found.rows("copies", "group", "sender", "to", "hops", "sent_us")
    assert [(g, a - base, b - base, *rest) for g, a, b, *rest in ours] == sorted(copies)
    ours = found.rows("deliveries", "group", "node", "hops", "delay_us")
    assert [(g, node - base, *rest) for g, node, *rest in ours] == sorted(came)
    ours = found.rows("state", "group", "node", "kind", "entries")
    assert kept == Counter({(g, node - base, kinds[kind]): n for g, node, kind, n in ours if n})
    ours = found.control().items()
    assert messages == Counter({(g, a - base, b - base, kind): n for (g, a, b, kind), n in ours})
