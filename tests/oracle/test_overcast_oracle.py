"""The oracle of Overcast: what always holds, and rounds worked by hand."""

import pytest
from seeds import seeds

from .overcast import Watch, groups_of, is_quiet, play, play_period, random_case

NOTHING = {"join": [], "quit": [], "died": []}


@pytest.mark.parametrize("come_back", [True, False])
@pytest.mark.parametrize("seed", seeds(range(1, 201), 4))
def test_what_always_holds(seed: int, come_back: bool) -> None:
    """See `Watch`; some time after the last event nobody searches, and all have living parents."""
    case = random_case(seed, come_back=come_back)
    watches = [Watch() for _ in case["group_number"]]
    play(case, watches)
    groups, rest = groups_of(case), 40 + 2 * len(case["node"])
    for t, period in enumerate([*case["periods"], *[NOTHING] * rest]):
        play_period(groups, t, period)
    assert all(len(group.truth()) + 1 == len(group.members) for group in groups if group.members)


def two_routers(**settings: object) -> dict:
    """Return a case of three nodes: 0 and 1 at one router, 2 at the other one; links of 8, 6."""
    return {
        "seed": 1,
        "settings": {"lease": 6, "evaluation": 4, **settings},
        "group_number": [7],
        "node": [5, 6, 9],
        "router": [0, 0, 1],
        "capacity": [8.0, 6.0],
        "routes": {"0,0": [], "1,1": [], "0,1": [0], "1,0": [1]},
        "periods": [{**NOTHING, "join": [[0, 0]]}, {**NOTHING, "join": [[0, 1], [0, 2]]}],
        "publications": [[0, 2]],
    }


@pytest.mark.parametrize("decide", ["shared", "bottleneck"])
def test_the_first_steps(decide: str) -> None:
    """Two newcomers ask the root at once; then each sees the other one below the root.

    Node 1 would get 6 from node 2, and has no bound at the root; node 2 gets 8 from the root, and
    8 from node 1, because its own flow would go: it goes below node 1.
    """
    [group] = groups_of(two_routers(decide=decide))
    play_period([group], 0, {**NOTHING, "join": [[0, 0]]})
    play_period([group], 1, {**NOTHING, "join": [[0, 1], [0, 2]]})
    assert group.messages == {"probe": [(1, 0), (2, 0)], "adopt": [(1, 0), (2, 0)], "check-in": []}
    assert group.certificates == 2
    assert group.copies(2) == [(0, 1), (2, 0)]
    moved = {}
    for t in range(2, 6):  # each evaluates once
        play_period([group], t, NOTHING)
        moved |= dict(group.messages["adopt"])
    assert moved == {2: 1}
    assert group.truth() == {1: 0, 2: 1}
    assert group.edge(2) == 8


def test_a_silent_death() -> None:
    """Node 1 dies between the root and node 2, which finds the root again; the lease ends."""
    case = two_routers()
    [group] = groups_of(case)
    for t, period in enumerate([*case["periods"], *[NOTHING] * 10, {**NOTHING, "died": [1]}]):
        play_period([group], t, period)
    assert group.truth() == {}
    assert group.view() == {1: 0, 2: 1}
    sent = []
    for t in range(13, 25):
        play_period([group], t, NOTHING)
        sent += [(kind, *ends) for kind, all_ends in group.messages.items() for ends in all_ends]
    assert [one for one in sent if one[0] != "probe"][:2] == [("adopt", 2, 0), ("check-in", 2, 1)]
    assert is_quiet(24, group)
    assert group.view() == group.truth() == {2: 0}
