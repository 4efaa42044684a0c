"""The oracle of Narada: cases worked by hand, what always holds, what holds when it is quiet."""

import pytest
from seeds import seeds

from .narada import (
    Case,
    Events,
    Settings,
    copied,
    groups_of,
    is_quiet,
    play,
    played,
    quiet_violations,
    random_case,
    violations,
)


def two(periods: int, died_in: int = 1000) -> Case:
    """Two members, 5 us one way and 8 us back, that join at once; 1 dies in a period."""
    join = Events(joins=((7, 0), (7, 1)), alive=(True, True))
    events = [join, *[Events(alive=(True, t < died_in)) for t in range(1, periods)]]
    if died_in < periods:
        events[died_in] = Events(died=(1,), alive=(True, False))
    sources = {t: ((7, 0),) for t in range(periods)}
    return Case(
        *(3, (10, 11), (7,), Settings(join_periods=1), ((0, 5), (8, 0))), tuple(events), sources
    )


def test_two_members_know_each_other_a_period_after_the_link() -> None:
    first, second, third = play(two(3))
    own = [(0, 0, 0, 0, 0, 0), (1, 1, 0, 0, 0, 1)]
    assert first.groups[7] == {"in": [0, 1], "waiting": [], "links": [(0, 1, 0)], "cells": own}
    assert first.messages["link"] == [(7, 1, 0)]
    assert first.messages["vector"] == [(7, 0, 1), (7, 1, 0)]
    assert (first.sizes[7], second.sizes[7]) == (2 * 48, 2 * 68)
    assert second.groups[7]["cells"][1] == (0, 1, 1, 0, 6, 1)
    assert third.groups[7]["cells"][2] == (1, 0, 2, 1, 6, 0)
    assert [one.copies[7, 0] for one in (first, second)] == [[], [(0, 1)]]


def test_a_silent_neighbour_is_dropped_after_six_periods_and_then_forgotten() -> None:
    """The last number of 1 arrives in period 4: the link ends in 10, each probe has chance 1/2."""
    after = play(two(40, died_in=4))
    assert [t for t, one in enumerate(after) if one.groups[7]["links"]] == list(range(10))
    assert after[9].groups[7]["cells"][1] == (0, 1, 4, 3, 6, 1)
    assert after[9].copies[7, 0] == [(0, 1)]
    probes = [t for t, one in enumerate(after) if one.messages["probe"]]
    assert len(probes) == 1
    assert probes[0] >= 10
    assert len(after[probes[0]].groups[7]["cells"]) == 1
    assert not any(one.messages["answer"] or one.messages["unlink"] for one in after)


@pytest.mark.parametrize("seed", seeds(range(200), 2))
def test_invariants(seed: int) -> None:
    """Links, cells, costs and messages are right after each period; nobody gets a first twice."""
    case = random_case(seed)
    before = [None] * len(case.groups)
    for t, groups in groups_of(case):
        wrong = [
            (t, group.number, one)
            for group, last in zip(groups, before, strict=True)
            for one in violations(group, t, last)
        ]
        assert not wrong
        for (_, source), copies in played(case, t, groups).copies.items():
            got = [j for _, j in copies if j != source]
            assert len(got) == len(set(got))
        before = [copied(group) for group in groups]


@pytest.mark.parametrize("seed", seeds(range(3, 200, 8), 1))
def test_when_quiet_each_member_gets_each_publication_once(seed: int) -> None:
    case = random_case(seed)
    before = None
    for t, (group,) in groups_of(case):
        if before is not None and is_quiet(group, t, before):
            assert not list(quiet_violations(group, t))
        before = copied(group)
