"""A run of CAN multicast in buckets, beside the oracle."""

from collections import Counter

import pytest

from tests.can.played import Played, draw_of
from tests.oracle.can.cases import random_can
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(range(200), 30))
def test_every_row_is_the_oracles(seed):
    given = random_can(seed)
    case, draw = given.case, draw_of(given.case.seed)
    played = Played(given, 1)
    ids = () if played.landmarks is None else tuple(played.landmarks.tolist())
    points = given.points(played.routes, draw, ids)
    everybody = given.everybody(points)
    copies, deliveries, control, state = [], [], Counter(), Counter()
    timed = given.clock == "time"
    for group in sorted(case.keys):
        can = given.can(group, points)
        spread = given.published(group, can, played.routes)
        for one in spread.copies:
            sent = (one.sent_us,) if timed else ()
            copies.append((group, one.receiver, one.sender, one.hops, one.first, *sent))
        for one in spread.first.values():
            if one.node in case.members[group] - {given.sources[group]}:
                at = (one.at_us,) if timed else ()
                deliveries.append((group, one.node, one.hops, *at))
        for ends, messages in given.control(group, can, everybody).items():
            control[group, *ends] += messages
        for x, _, _, _ in can.adjacent:
            state[group, x] += 1
    if case.keys:  # without publications, nothing is built
        state.update((None, x) for x, _, _, _ in everybody.adjacent)
    for buckets in (1, 2, 7):
        run = Played(given, buckets).run
        more = ("sent_us",) if timed else ()
        found = run.rows("copies", "group", "to", "sender", "hops", "first", *more)
        assert found == sorted(copies)
        at = ("delay_us",) if timed else ()
        assert run.rows("deliveries", "group", "node", "hops", *at) == sorted(deliveries)
        assert run.control() == control
        assert run.state() == state
