"""The oracle of Overcast: what always holds."""

import pytest
from seeds import seeds

from .overcast import Watch, groups_of, play, play_period, random_case

NOTHING = {"join": [], "quit": [], "died": []}


@pytest.mark.parametrize("seed", seeds(range(1, 201), 8))
def test_what_always_holds(seed: int) -> None:
    """See `Watch`; some time after the last event nobody searches, and all have living parents."""
    case = random_case(seed)
    watches = [Watch() for _ in case["group_number"]]
    play(case, watches)
    groups, rest = groups_of(case), 40 + 2 * len(case["node"])
    for t, period in enumerate([*case["periods"], *[NOTHING] * rest]):
        play_period(groups, t, period)
    assert all(len(group.truth()) + 1 == len(group.members) for group in groups if group.members)
