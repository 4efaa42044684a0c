"""Pruned trees against the oracle: the union of the paths from the source to the members."""

import random

import numpy as np
import pytest
from oracle.reference_tree.tree import multicast_edges
from seeds import seeds

from scribe_spark.core.arrays import depths
from scribe_spark.systems.reference_tree.multicast import pruned_trees

SEEDS = seeds(range(300), 100)


def random_tree(rng: random.Random, hosts: int) -> list[int]:
    """Each host's parent, -1 for the root; numbers in any order."""
    names = list(range(hosts))
    rng.shuffle(names)
    parent = [-1] * hosts
    near = rng.choice([1, 3, hosts])  # long chains, slim trees, bushy ones
    for place in range(1, hosts):
        parent[names[place]] = names[rng.randrange(max(0, place - near), place)]
    return parent


def case(seed: int):
    rng = random.Random(seed)
    hosts = rng.randint(1, 40)
    parent = random_tree(rng, hosts)
    members = {
        7 * group: rng.sample(range(hosts), rng.randint(1, hosts))
        for group in range(rng.randint(1, 4))
    }
    sources = {group: rng.randrange(hosts) for group in members}
    return parent, members, sources, rng


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_go_over_the_paths_from_the_source_to_the_members(seed):
    parent, members, sources, rng = case(seed)
    rows = [(group, node, False) for group, nodes in members.items() for node in nodes]
    rows += [(group, node, True) for group, node in sources.items()]
    rng.shuffle(rows)
    above, (group, node, is_source) = np.array(parent), np.array(rows, dtype=np.int64).T
    found = pruned_trees(above, depths(above), group, node, is_source > 0)
    found = sorted(zip(*(found[name].tolist() for name in found), strict=True))
    neighbours: dict[int, set[int]] = {host: set() for host in range(len(parent))}
    for host, above in enumerate(parent):
        if above >= 0:
            neighbours[host].add(above)
            neighbours[above].add(host)
    edges = {g: multicast_edges(neighbours, sources[g], nodes) for g, nodes in members.items()}
    assert found == sorted((g, a, b) for g, of in edges.items() for b, (a, _) in of.items())


def test_depths():
    assert depths(np.array([-1, 0, 1, 0, -1])).tolist() == [0, 1, 2, 1, 0]
    with pytest.raises(RuntimeError, match="are no forest"):
        depths(np.array([1, 2, 0]))
    assert depths(np.array([1, 2, 0, 0, -1, 4]), circles=True).tolist() == [-1, -1, -1, -1, 0, 1]
