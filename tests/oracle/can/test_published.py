"""Sizes at which the oracle can be played beside an independent check of the same rules.

References
----------
No text of CAN multicast was to be had, so nothing published stands here. What is compared with is a
check by other hands: sequential uniform joins, halvings in turn, 5 messages by hops:

=========  ===================  ====================================  ========
n, d       neighbours, maximum  duplicates a member, rule 5 left out  hops max
=========  ===================  ====================================  ========
1,024, 2   4.6, 10              .18, .04 with rule 5                  31
1,024, 4   9.8, 30              .49, .20 with rule 5                  11
=========  ===================  ====================================  ========
"""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from .can import Can, join_order
from .flood import CORNER, DIRECTED, flood
from .space import Points, Space
from .test_multicast import draw_of


@pytest.mark.parametrize(
    ("count", "dimensions", "neighbours", "most", "duplicates", "with_rule_5", "hops"),
    [
        pytest.param(1024, 2, 4.6, 10, 0.18, 0.04, 31, marks=pytest.mark.slow),
        pytest.param(1024, 4, 9.8, 30, 0.49, 0.20, 11, marks=pytest.mark.slow),
    ],
)
def test_numbers_of_an_independent_check(
    count: int,
    dimensions: int,
    neighbours: float,
    most: int,
    duplicates: float,
    with_rule_5: float,
    hops: int,
) -> None:
    can = one_group(count, dimensions, seed=1)
    degrees = [len(across) for across in can.across.values()]
    assert fmean(degrees) == pytest.approx(neighbours, rel=0.03)
    assert max(degrees) == pytest.approx(most, rel=0.2)
    for flooding, share in ((DIRECTED, duplicates), (CORNER, with_rule_5)):
        found = [flood(can, source, flooding) for source in can.order[:10]]
        twice = fmean(len(one.copies) / (len(one.first) - 1) - 1 for one in found)
        assert twice == pytest.approx(share, rel=0.1, abs=0.01)
        longest = max(first.hops for one in found for first in one.first.values())
        assert longest == pytest.approx(hops, rel=0.15)


def one_group(count: int, dimensions: int, seed: int) -> Can:
    """A CAN of uniform points."""
    rng = random.Random(seed)
    idents = {node: rng.getrandbits(128) for node in range(count)}
    points = Points(Space.of(dimensions), draw_of(seed), {}, {})
    return Can(join_order(idents, 0, idents, points.draw, 1), idents, points, 1)
