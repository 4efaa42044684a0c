"""CAN beside an independent check: neighbours and duplicates of CANs of a known size.

The numbers are those of another program, by another hand, from five messages each: sequential
uniform joins, dimensions halved in turn, the clock of hops.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from round_0 import Round0

from scribe_spark.can.config import most_bits
from scribe_spark.can.multicast import CORNER, DIRECTED, OPTIMAL, LiveCan
from scribe_spark.can.zones import Space
from scribe_spark.engine.facts import Ring
from scribe_spark.multicast import HOPS, TIME
from scribe_spark.underlay import protocol

MESSAGES = 15

#: (n, d) -> mean number of neighbours, duplicates a member by rules 1 to 4, and with rule 5.
CHECKED = {
    (1024, 2): (4.6, 0.18, 0.04),
    (1024, 4): (9.8, 0.49, 0.20),
    (8192, 2): (4.6, 0.16, 0.015),
    (8192, 6): (15.1, 0.52, 0.35),
    (8192, 10): (17.3, 0.81, 0.47),
}
CASES = [
    pytest.param(*case, id="-".join(map(str, case)), marks=[pytest.mark.slow] * (case[0] > 1024))
    for case in CHECKED
]


@dataclass(frozen=True)
class DrawnDelays(protocol.Kernel):
    """Any two routers have a delay of their own, up to a second."""

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        low, high = np.minimum(a, b).astype(np.uint64), np.maximum(a, b).astype(np.uint64)
        mixed = (low * np.uint64(2654435761) + high) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(44)).astype(np.int64)

    withheld = None

    def losses(self, a: np.ndarray, b: np.ndarray) -> None:
        """No packet is lost."""


@cache
def measured(n: int, d: int, flooding: str, clock: str) -> tuple[float, float, int]:
    """Neighbours of a zone, duplicates a member, and how many get nothing."""
    every = np.arange(n)
    ring = Ring(every.astype(np.uint64), every.astype(np.uint64), every, every)
    keys = {group: group << 64 for group in range(MESSAGES)}
    joins = np.stack([np.repeat(np.arange(MESSAGES), n), np.tile(every, MESSAGES)], axis=1)
    publish = [(group, group * (n // MESSAGES), 0, 0) for group in keys]
    system = LiveCan(Space(d, most_bits(d)), 1, flooding, clock)
    given = {"kernel": DrawnDelays(), "lan_us": 1000, "seed": 1, "routers": n}
    run = Round0(system, ring, np.array([0, n]), keys, joins, publish, given).tables
    copies, got = (len(run[name]["group"]) for name in ("copies", "deliveries"))
    missed = MESSAGES * (n - 1) - got
    zones = (MESSAGES + 1) * n  # also those of the CAN of all nodes
    return run["state"]["entries"].sum() / zones, (copies - got) / (MESSAGES * n), missed


@pytest.mark.parametrize(("n", "d"), CASES)
def test_neighbours_and_duplicates_are_those_of_the_independent_check(n, d):
    neighbours, directed, corner = CHECKED[n, d]
    found = [measured(n, d, flooding, HOPS) for flooding in (DIRECTED, CORNER)]
    assert found[0][0] == pytest.approx(neighbours, rel=0.02)
    assert found[0][1] == pytest.approx(directed, rel=0.1)
    assert found[1][1] == pytest.approx(corner, rel=0.1, abs=0.01)


@pytest.mark.parametrize(("n", "d"), CASES)
def test_nobody_is_missed_whatever_the_delays(n, d):
    for flooding in (DIRECTED, CORNER, OPTIMAL):
        for clock in (HOPS, TIME):
            _, duplicates, missed = measured(n, d, flooding, clock)
            assert missed == 0
            assert (duplicates == 0) == (flooding == OPTIMAL)
