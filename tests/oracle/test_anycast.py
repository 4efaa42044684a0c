"""The oracle of anycast: walks worked by hand."""

import pytest

from .anycast import Case, walk

#: 0 is the root; 1 and 2 are its children, 3 is below 1, 4 below 3; 5 and 6 are outside.
EDGES = ((0, 1), (0, 2), (1, 3), (3, 4))


def small(origin: int, accepts: set[int], members: set[int], dead: int = -1) -> Case:
    """The tree above, with routes over 6 to 1; all distances are 10 us times the sender."""
    return Case(
        *(1, tuple(range(7)), 9, 0, EDGES, frozenset(members), frozenset(accepts)),
        tuple(x != dead for x in range(7)),
        {5: (5, 6, 1, 0), 3: (3, 0), 4: (4, 0)},
        (origin,),
        tuple(tuple(10 * a for _ in range(7)) for a in range(7)),
    )


@pytest.mark.parametrize(
    ("origin", "accepts", "members", "dead", "path", "accepted", "delay"),
    [
        (5, {1}, {1, 2, 4}, -1, [6, 1], 1, 110),
        (5, {4}, {1, 2, 4}, -1, [6, 1, 3, 4], 4, 150),
        (5, {2}, {2, 4}, -1, [6, 1, 3, 4, 0, 2], 2, 190),  # children first, then up
        (5, set(), {2, 4}, -1, [6, 1, 3, 4, 0, 2], -1, 190),
        (5, {2}, {2, 4}, 3, [6, 1, 0, 2], 2, 120),  # whom 3 has below is not reached
        (5, {2}, {2}, -1, [6, 1, 3, 4, 0, 2], 2, 190),  # 4 has left meanwhile
        (4, {4}, {2, 4}, -1, [3, 1, 0, 2], -1, 80),  # an origin in the tree is not asked
        (3, {4}, {2, 4}, -1, [4], 4, 30),
    ],
)
def test_by_hand(origin, accepts, members, dead, path, accepted, delay) -> None:
    done = walk(small(origin, accepts, members, dead), 0)
    assert (done.path, done.accepted, done.delay_us) == (path, accepted, delay)
