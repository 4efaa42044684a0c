"""Kernels on the oracle's random cases: places, and the rounds after joins, leaves and failures."""

import random

import numpy as np
import pytest
from oracle.reference_tree.cases import BY_HAND, Case, random_case
from oracle.reference_tree.reconfiguration import reconfigure as reconfigure_plainly
from oracle.reference_tree.tree import (
    Dht,
    find_neighbours,
    reconfiguration_area,
    reference_tree,
    tree_from_nothing,
)
from seeds import seeds

from scribe_spark.core import u128
from scribe_spark.core.arrays import NONE
from scribe_spark.core.u128 import from_halves, halves_of
from scribe_spark.systems.reference_tree.experiment import areas, depths, links_changed
from scribe_spark.systems.reference_tree.hash_table import ASSIGNMENTS, HashTable
from scribe_spark.systems.reference_tree.reconfiguration import (
    HostLinks,
    costs_by_ring,
    first_to_compute,
    reconfigure,
)
from scribe_spark.systems.reference_tree.search import climb, explore
from scribe_spark.systems.reference_tree.tree import ReferenceTree

#: Seeds of the cases: all of them in `make test-slow`, the first ones always.
SEEDS = seeds(range(1, 301), 16)


def keysets(case: Case, hosts: list[int], number: dict[int, int]) -> HashTable:
    """The hash table, where hosts are known by their numbers."""
    hosts = sorted(hosts)
    hi, lo = (
        np.array(half, np.uint64) for half in zip(*[divmod(h, 2**64) for h in hosts], strict=True)
    )
    nodes = np.array([number[host] for host in hosts])
    tree = ReferenceTree(case.bits, case.children)
    ids = from_halves(hi, lo, case.bits)
    return HashTable.of(tree, case.assignment, ids, np.zeros(len(hosts), int), nodes, 1)


def all_hosts(case: Case) -> dict[int, int]:
    """A number for each host that there ever is."""
    later = [event.host for events in case.events for event in events]
    return {host: number for number, host in enumerate(dict.fromkeys([*case.hosts, *later]))}


def check_places(table: HashTable, *networks: tuple[Dht, dict[int, int]]) -> HostLinks:
    """Topmost keys, depths, parents, children and look-ups of all hosts; their links."""
    rows = np.arange(len(table))
    topmost, depth = table.topmost(rows)
    parent, up = climb(table, rows)
    which, child, down = explore(table, rows)
    hi, lo = halves_of(topmost)
    found = {}
    for row, node in enumerate(table.node.tolist()):
        above = None if parent[row] < 0 else parent[row]
        key = int(hi[row]) << 64 | int(lo[row])
        found[node] = [key, depth[row], above, up[row], down[row], frozenset()]
    for node, one in zip(table.node[which].tolist(), child.tolist(), strict=True):
        assert one not in found[node][5]
        found[node][5] |= {one}
    for dht, number in networks:
        expected = tree_from_nothing(dht)
        for host in dht.hosts:
            plain = find_neighbours(dht, host)
            assert found.pop(number[host]) == [
                *(expected.topmost[host], expected.depth[host]),
                *(None if plain.parent is None else number[plain.parent], len(plain.parent_asked)),
                *(len(plain.child_asked), frozenset(number[child] for child in plain.children)),
            ]
    assert not found
    below = parent >= 0
    ends = np.r_[table.node[below], table.node[which]], np.r_[parent[below], child]
    return HostLinks.of(*ends, sum(len(number) for _, number in networks))


def as_sets(links: HostLinks, number: dict[int, int]) -> dict[int, frozenset[int]]:
    host_of = {node: host for host, node in number.items()}
    sets: dict[int, set[int]] = {}
    for host, other in zip(links.host.tolist(), links.neighbour.tolist(), strict=True):
        sets.setdefault(host_of[host], set()).add(host_of[other])
    return {host: frozenset(others) for host, others in sets.items()}


def check_area(before: dict, after: dict, case: Case, number: dict[int, int]) -> None:
    """The area of one event, in the tree that has the host that came or went."""
    parents = [parent_numbers(hosts, case, number) for hosts in (before, after)]
    tree = max(parents, key=lambda parent: np.count_nonzero(parent != NOT_HERE))
    here = tree != NOT_HERE
    old, new, tree = (np.where(of == NOT_HERE, NONE, of) for of in (*parents, tree))
    ends, ring_of = links_changed(old, new).ravel(), np.zeros(len(number), dtype=np.int64)
    area = areas(tree, depths(tree, here), ends, ring_of, 1)
    assert area.tolist() == [len(reconfiguration_area(before, after))]


def parent_numbers(hosts: dict, case: Case, number: dict[int, int]) -> np.ndarray:
    dht = Dht(reference_tree(case.bits, case.children), hosts, case.assignment)
    parent = np.full(len(number), NOT_HERE)
    for host, above in tree_from_nothing(dht).parent.items():
        parent[number[host]] = NONE if above is None else number[above]
    return parent


NOT_HERE = -2


@pytest.mark.parametrize("width", ["uint64", "128 bits"])
@pytest.mark.parametrize("seed", seeds(range(160), 16))
def test_places_on_several_rings_are_the_oracle_s(seed, width, monkeypatch):
    if width == "128 bits":  # small keys as two halves, like long ones
        monkeypatch.setattr(u128, "NARROW_BITS", 3)
    rng = random.Random(seed)
    bits, children = rng.choice([4, 5, 6, 7, 8]), rng.choice([2, 2, 3, 4, 5, 16, 40, 2000])
    assignment, tree = rng.choice(ASSIGNMENTS), ReferenceTree(bits, children)
    networks, ids, ring = [], [], []
    for one in range(3):
        hosts = rng.sample(range(2**bits), rng.randint(1, min(2**bits, 60)))
        dht = Dht(reference_tree(bits, children), hosts, assignment)
        networks.append((dht, {host: len(ids) + at for at, host in enumerate(hosts)}))
        ids += hosts
        ring += [one] * len(hosts)
    order = np.lexsort((ids, ring))
    keys, ring = u128.number(np.array(ids), tree.root)[order], np.array(ring)[order]
    check_places(HashTable.of(tree, assignment, keys, ring, order, 3), *networks)


@pytest.mark.parametrize("seed", [*SEEDS, *BY_HAND])
def test_places_and_rounds_are_the_oracle_s(seed):
    case = BY_HAND[seed] if isinstance(seed, str) else random_case(seed)
    number, dht = all_hosts(case), case.dht()
    table = keysets(case, dht.hosts, number)
    links = check_places(table, (dht, number))
    plain = tree_from_nothing(dht).neighbours()
    assert as_sets(links, number) == {host: of for host, of in plain.items() if of}
    for events in case.events:
        old = plain
        dht, plain, rounds = reconfigure_plainly(dht, old, events)
        if len(events) == 1:
            check_area(old, plain, case, number)
        here = np.isin(np.arange(len(number)), [number[host] for host in dht.hosts])
        before, table = table, keysets(case, dht.hosts, number)
        first = first_to_compute(before, table, links, here)
        done = reconfigure(table, links, first, here)
        links, costs = done.links, costs_by_ring(done, np.zeros(len(number), int), 1)
        everyone = {host for one in rounds for host in one.computed}
        computed = np.unique(done.computed["host"]).tolist()
        assert computed == sorted(number[h] for h in everyone)
        assert {name: of.tolist() for name, of in costs.items()} == {
            "rounds": [len(rounds)],
            "computations": [sum(len(one.computed) for one in rounds)],
            "hosts": [len(everyone)],
            "notices": [sum(len(one.notices) for one in rounds)],
            "parent_lookups": [sum(one.parent_lookups for one in rounds)],
            "child_lookups": [sum(one.child_lookups for one in rounds)],
        }
        nothing = check_places(table, (dht, number))
        assert as_sets(nothing, number) == {host: of for host, of in plain.items() if of}
        assert np.array_equal(nothing.pairs, links.pairs)
