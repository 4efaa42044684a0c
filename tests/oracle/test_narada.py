"""The oracle of Narada: what always holds, and what holds when it is quiet."""

import pytest
from seeds import seeds

from .narada import (
    copied,
    groups_of,
    is_quiet,
    played,
    quiet_violations,
    random_case,
    violations,
)


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
