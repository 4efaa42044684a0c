"""The reference tree of live nodes on buckets: the oracle's rounds, whatever buckets there are."""

import random

import numpy as np
import pytest
from live_hosts import Hosts, SmallTree, ring_of
from oracle.reference_tree.cases import Case, random_case
from oracle.reference_tree.reconfiguration import reconfigure
from oracle.reference_tree.tree import Dht, tree_from_nothing
from seeds import seeds

from scribe_spark.systems.reference_tree import live
from scribe_spark.systems.reference_tree.live import LIVE_TREE_MEASURES

#: Seeds of the cases: all of them in `make test-slow`, the first ones always.
SEEDS = seeds(range(1, 301), 6)

BUCKETS = (1, 2, 7)


def links_of(neighbours) -> set[frozenset[int]]:
    return {frozenset((host, other)) for host, of in neighbours.items() for other in of}


def expected_measures(before, after: Dht, now, rounds) -> dict[str, float]:
    """What the oracle's reconfiguration has cost, and the tree afterwards."""
    tree = tree_from_nothing(after)
    depth = dict.fromkeys(after.hosts, 0)
    for host in after.hosts:
        above = tree.parent[host]
        while above is not None:
            depth[host], above = depth[host] + 1, tree.parent[above]
    return {
        "reference_tree.hosts": len({h for one in rounds for h in one.computed}),
        "reference_tree.links.removed": len(links_of(before) - links_of(now)),
        "reference_tree.links.created": len(links_of(now) - links_of(before)),
        "reference_tree.parent_lookups": sum(one.parent_lookups for one in rounds),
        "reference_tree.child_lookups": sum(one.child_lookups for one in rounds),
        "reference_tree.notices": sum(len(one.notices) for one in rounds),
        "reference_tree.rounds": len(rounds),
        "reference_tree.degree.largest": max(map(len, now.values())),
        "reference_tree.depth.largest": max(depth.values()),
        "reference_tree.depth.mean": sum(depth.values()) / len(depth),
        "reference_tree.faults": 0,
    }


def bounds_of(rng: random.Random, nodes: int, buckets: int) -> list[int]:
    """Where buckets begin; some may have no nodes."""
    return [0, *sorted(rng.randint(0, nodes) for _ in range(buckets - 1)), nodes]


def check(case: Case, buckets: int, rng: random.Random) -> None:
    """Rounds of a case: measures, what hosts know, and a world that has been resumed."""
    ids = sorted({*case.hosts, *(one.host for now in case.events for one in now)})
    kept = SmallTree(case.children, case.assignment, case.bits)

    def is_there(hosts) -> np.ndarray:
        return np.isin(np.arange(len(ids)), [at for at, one in enumerate(ids) if one in hosts])

    dht = case.dht()
    plain = tree_from_nothing(dht).neighbours()
    hosts, resumed = (
        Hosts(kept, ring_of(ids), is_there(dht.hosts), bounds_of(rng, len(ids), buckets))
        for _ in range(2)
    )
    for now in case.events:
        before = plain
        dht, plain, rounds = reconfigure(dht, before, now)
        expected = expected_measures(before, dht, plain, rounds)
        assert set(expected) == set(LIVE_TREE_MEASURES)
        resumed.forget()
        for one in (hosts, resumed):
            assert one.change(is_there(dht.hosts)) == expected
            known = {ids[at]: {ids[o] for o in of} for at, of in one.neighbours().items()}
            assert known == {host: set(of) for host, of in plain.items() if of}


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_are_the_oracle_s(seed):
    case = random_case(seed)
    check(case, BUCKETS[seed % 3], random.Random(f"buckets of {seed}"))


@pytest.mark.parametrize("buckets", [1, 7])
def test_a_wrong_tree_is_a_fault(monkeypatch, buckets):
    """Where nobody computes, somebody keeps old neighbours."""

    def nobody(*given):
        return first_to_compute(*given)[:0]

    first_to_compute = live.first_to_compute
    rng = random.Random(9)
    known = ring_of(sorted(rng.getrandbits(128) for _ in range(40)))
    was, now = np.arange(40) < 36, np.arange(40) > 3
    bounds = bounds_of(rng, 40, buckets)
    right = Hosts(SmallTree(), known, was, bounds).change(now)
    monkeypatch.setattr(live, "first_to_compute", nobody)
    wrong = Hosts(SmallTree(), known, was, bounds).change(now)
    assert (right["reference_tree.faults"], wrong["reference_tree.faults"]) == (0, 1)
