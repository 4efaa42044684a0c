"""CAN multicast in buckets, beside the oracle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scribe_spark.can.multicast import KINDS, NEIGHBOURS, TAKEN
from scribe_spark.dissemination import ARRIVALS, ARRIVED_COPIES
from scribe_spark.engine.packing import concatenate
from tests.can.played import Played, draw_of
from tests.oracle.can.cases import random_can
from tests.seeds import seeds


def _rows(columns: dict[str, np.ndarray], *names: str) -> list[tuple]:
    return sorted(zip(*(columns[name].tolist() for name in names), strict=True)) if columns else []


@pytest.mark.parametrize("seed", seeds(range(200), 30))
def test_every_row_is_the_oracles(seed):
    given = random_can(seed)
    case, draw = given.case, draw_of(given.case.seed)
    played = Played(given, 1)
    ids = () if played.landmarks is None else tuple(played.landmarks.tolist())
    points = given.points(played.routes, draw, ids)
    everybody = given.everybody(points)
    copies, first, control, state = [], [], Counter(), Counter()
    for group in sorted(case.keys):
        can = given.can(group, points)
        spread = given.published(group, can, played.routes)
        for copy in spread.copies:
            dimension, direction = copy.label
            face = 2 * dimension + (direction > 0)
            copies.append((group, copy.receiver, copy.sender, copy.hops, face))
        for one in spread.first.values():
            at = (one.at_us,) if given.clock == "time" else ()
            first.append((group, one.node, one.sender, one.hops, *at))
        for (sender, receiver, kind), messages in given.control(group, can, everybody).items():
            if kind in KINDS:
                control[group, sender, receiver, kind] += messages
        for x, y, _, _ in can.adjacent:
            state[group, x, y] += 1
    state.update((-1, x, y) for x, y, _, _ in everybody.adjacent)
    for buckets in (1, 2, 7):
        played = Played(given, buckets)
        found = played.rows(ARRIVED_COPIES)
        assert _rows(found, "group", "node", "sender", "hops", "face") == sorted(copies)
        arrivals = played.rows(ARRIVALS)
        at = ("at_us",) if given.clock == "time" else ()
        got = [row for row in _rows(arrivals, "group", "node", "sender", "hops", *at) if row[3]]
        assert got == sorted(row for row in first if row[3])
        assert _control(played) == control
        zones = played.known.zones
        pairs = concatenate([one[NEIGHBOURS] for one in played.tables if NEIGHBOURS in one])
        named = np.append(played.number, -1)[zones.can[pairs["zone"]]].tolist()
        x, y = (played.ring.node[zones.node[pairs[n]]].tolist() for n in ("zone", "neighbour"))
        assert Counter(zip(named, x, y, strict=True)) == state


def _control(played: Played) -> Counter:
    """(group, sender, receiver, kind) -> messages."""
    names = [f"{TAKEN} {superstep}" for superstep in range(played.supersteps)]
    taken = played.rows(*names)
    found: Counter = Counter()
    for group, sender, receiver, kind, messages in _rows(
        taken, "group", "sender", "receiver", "kind", "messages"
    ):
        found[group, sender, receiver, KINDS[kind]] += messages
    return found
