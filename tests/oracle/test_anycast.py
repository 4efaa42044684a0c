"""The oracle of anycast: walks worked by hand, and what holds of every walk."""

from collections import Counter

import pytest
from seeds import seeds

from .anycast import Case, random_case, violations, walk

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


@pytest.mark.parametrize("seed", seeds(range(200), 5))
def test_invariants(seed: int) -> None:
    """One that accepts is found, else each node of the tree is visited once."""
    case = random_case(seed)
    assert not [one for query in range(len(case.queries)) for one in violations(case, query)]


@pytest.mark.slow
def test_the_cases_have_what_can_happen() -> None:
    found = Counter()
    for seed in range(100):
        case = random_case(seed)
        for query, origin in enumerate(case.queries):
            done = walk(case, query)
            found["accepted"] += done.accepted >= 0
            found["failed"] += done.accepted < 0
            found["inside"] += case.is_in_tree(origin)
            found["no group"] += case.root < 0
            found["left"] += any(not case.is_in_tree(x) for x in done.visited)
            found["long"] += done.messages > 20
            found["dead"] += not all(case.alive[x] for x, _ in case.edges)
    assert min(found.values()) > 10
