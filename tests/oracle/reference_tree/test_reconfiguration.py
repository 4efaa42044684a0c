"""Hosts join, leave and fail."""

from __future__ import annotations

import random

import pytest
from seeds import seeds

from .cases import random_case
from .dht import Dht
from .host_tree import tree_from_nothing
from .paths import links, reconfiguration_area
from .reconfiguration import KINDS, Event, first_to_compute, reconfigure
from .search import Rules
from .tree import reference_tree

SEEDS = range(320)


@pytest.mark.parametrize("seed", seeds(SEEDS, 40))
def test_equals_the_tree_from_nothing(seed: int) -> None:
    """After all events of a case, each time; and who computes are those who have to."""
    case = random_case(seed)
    dht = case.dht()
    neighbours = tree_from_nothing(dht).neighbours()
    for events in case.events:
        before, old = dht, neighbours
        dht, neighbours, rounds = reconfigure(before, old, events)
        assert neighbours == tree_from_nothing(dht).neighbours()
        first = first_to_compute(before, dht, old, events)
        alive = set(dht.hosts)
        changed = [link for link in links(old) ^ links(neighbours) if link <= alive]
        # Each changed link between two live hosts has both ends tell the other one, once.
        told = sorted(notice for one in rounds for notice in one.notices)
        assert told == sorted(
            (one, other) for link in changed for one in link for other in link - {one}
        )
        computed = {host for one in rounds for host in one.computed}
        assert computed == first | {host for link in changed for host in link}


@pytest.mark.parametrize("seed", seeds(range(100), 40))
def test_built_by_joins(seed: int) -> None:
    """From one host, the others joining one by one or some at once, in any order."""
    rng = random.Random(seed)
    case = random_case(seed)
    first, *others = case.hosts[:25]
    dht = Dht(reference_tree(case.bits, case.children), [first], case.assignment)
    neighbours = tree_from_nothing(dht).neighbours()
    while others:
        size = rng.choice([1, 1, 2, 5])
        now, others = others[:size], others[size:]
        dht, neighbours, _ = reconfigure(dht, neighbours, [Event("join", host) for host in now])
    assert neighbours == tree_from_nothing(dht).neighbours()


UNREACHED = {
    # assignment, bits, children, hosts before, hosts after
    "one join": ("pastry", 4, 3, [4, 8, 9, 12, 14], [0, 4, 8, 9, 12, 14]),
    "one failure": ("pastry", 4, 3, [0, 4, 8, 9, 12, 14], [4, 8, 9, 12, 14]),
    "several, binary": ("pastry", 4, 2, [0, 4, 8, 9, 11, 13, 14, 15], [9, 11, 13, 14, 15]),
    "several, chord": (
        "chord",
        6,
        15,
        [0, 2, 3, 7, 12, 15, 17, 20, 21, 32, 33, 34, 40, 46, 53, 56, 60, 62],
        [0, 1, 2, 3, 7, 17, 19, 20, 21, 29, 32, 33, 34, 40, 46, 53, 56, 60],
    ),
}


@pytest.mark.parametrize("name", UNREACHED)
def test_those_whose_topmost_key_changed_have_to_compute(name: str) -> None:
    """Otherwise some hosts are not reached (rule T1)."""
    assignment, bits, children, before, after = UNREACHED[name]
    dht = Dht(reference_tree(bits, children), before, assignment)
    old = tree_from_nothing(dht).neighbours()
    events = [Event("join", host) for host in after if host not in before]
    events += [Event("failure", host) for host in before if host not in after]
    _, wrong, _ = reconfigure(dht, old, events, Rules(topmost_changed=False))
    settled, right, _ = reconfigure(dht, old, events)
    assert settled.hosts == after
    assert right == tree_from_nothing(settled).neighbours()
    assert wrong != right


@pytest.mark.parametrize("seed", seeds(range(150), 40))
def test_chord_reaches_all_for_one_event(seed: int) -> None:
    """The rule without them is enough there, as the paper has it."""
    rng = random.Random(seed)
    bits, children = rng.randint(4, 10), rng.randint(2, 15)
    hosts = rng.sample(range(2**bits), rng.randint(2, min(40, 2**bits - 1)))
    last = hosts.pop()
    dht = Dht(reference_tree(bits, children), hosts, "chord")
    neighbours = tree_from_nothing(dht).neighbours()
    for kind in ("join", "failure"):
        dht, neighbours, _ = reconfigure(
            dht, neighbours, [Event(kind, last)], Rules(topmost_changed=False)
        )
        assert neighbours == tree_from_nothing(dht).neighbours()


@pytest.mark.parametrize("seed", seeds(range(100), 40))
def test_areas(seed: int) -> None:
    """A connection and the disconnection that takes it back have the same area, in one piece."""
    case = random_case(seed)
    host, *others = case.hosts
    if not others:
        return
    reference = reference_tree(case.bits, case.children)
    with_host = tree_from_nothing(Dht(reference, case.hosts, case.assignment)).neighbours()
    without = tree_from_nothing(Dht(reference, others, case.assignment)).neighbours()
    area = reconfiguration_area(without, with_host)
    assert area == reconfiguration_area(with_host, without)
    assert {host} | with_host[host] <= area
    assert sum(len(with_host[one] & area) for one in area) == 2 * (len(area) - 1)


def test_area_of_nothing() -> None:
    """No link changes where the first host comes."""
    assert reconfiguration_area({}, {5: frozenset()}) == frozenset()


def test_cases_have_all_there_is() -> None:
    """Sizes, trees, assignments and events of the cases."""
    cases = [random_case(seed) for seed in SEEDS]
    assert cases[:20] == [random_case(seed) for seed in range(20)]
    assert {case.assignment for case in cases} == {"chord", "pastry"}
    assert {case.children for case in cases} == set(range(2, 16))
    assert {4, 128} <= {case.bits for case in cases}
    sizes = [len(case.hosts) for case in cases]
    assert min(sizes) == 1
    assert max(sizes) > 75
    for case in cases:
        assert len(set(case.hosts)) == len(case.hosts)
        assert all(0 <= host < 2**case.bits for host in case.hosts)
        assert all(case.events)
        assert all({source, *members} <= set(case.hosts) for source, members in case.groups)
    times = [events for case in cases for events in case.events]
    assert {event.kind for events in times for event in events} == set(KINDS)
    assert {len(events) for events in times} >= {1, 2, 3, 4}
    assert max(len(events) for events in times) > 12
    assert any(len({event.kind for event in events}) == 3 for events in times)
