"""The tree of hosts, what hosts find by asking, and multicast over it."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from seeds import seeds

from .cases import Case, random_case
from .dht import Dht
from .host_tree import HostTree, tree_from_nothing
from .paths import joining_subtree, multicast_edges
from .search import Rules, find_neighbours
from .tree import explicit_tree, reference_tree

SEEDS = seeds(range(150), 25)


def path_to_root(tree: HostTree, host: int) -> list[int]:
    """The hosts from ``host`` to the root."""
    path = [host]
    while (parent := tree.parent[path[-1]]) is not None:
        path.append(parent)
    return path


def path_between(tree: HostTree, one: int, other: int) -> list[int]:
    """The hosts from ``one`` to ``other``, by their ways to the root."""
    up, down = path_to_root(tree, one), path_to_root(tree, other)
    meet = next(host for host in up if host in down)
    return [*up[: up.index(meet) + 1], *reversed(down[: down.index(meet)])]


@pytest.mark.parametrize("seed", SEEDS)
def test_hosts_find_their_places(seed: int) -> None:
    """Each finds by look-ups the parent and the children that the tree from nothing has."""
    dht = random_case(seed).dht()
    tree = tree_from_nothing(dht)
    for host in dht.hosts:
        found = find_neighbours(dht, host)
        assert found.parent == tree.parent[host]
        assert found.children == tree.children(host)
        assert found.neighbours == tree.neighbours()[host]
        own = dht.keysets[host]
        for asked in (found.parent_asked, found.child_asked):
            assert len(set(asked)) == len(asked)
            assert not any(key in own for key in asked)
        again = find_neighbours(dht, host, Rules(ask_again=True))
        assert (again.parent, again.children) == (found.parent, found.children)
        assert again.parent_asked == found.parent_asked
        assert set(found.child_asked) <= set(again.child_asked)
        owners = [dht.lookup(key).owner for key in found.parent_asked]
        assert len(set(owners)) == len(owners)


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_a_tree(seed: int) -> None:
    """All hosts reach the one root, and the depth of topmost keys grows on the way down."""
    dht = random_case(seed).dht()
    tree = tree_from_nothing(dht)
    roots = [host for host, parent in tree.parent.items() if parent is None]
    assert roots == [dht.lookup(dht.reference.root.node).owner]
    for host in dht.hosts:
        path = path_to_root(tree, host)
        assert path[-1] == roots[0]
        depths = [tree.depth[one] for one in path]
        assert sorted(set(depths), reverse=True) == depths


@pytest.mark.parametrize("seed", SEEDS)
def test_children_by_definition(seed: int) -> None:
    """Few keys: all topmost keys below a host's, with no other topmost key on the path."""
    rng = random.Random(seed)
    bits, children = rng.randint(4, 7), rng.randint(2, 15)
    hosts = rng.sample(range(2**bits), rng.randint(1, min(80, 2**bits)))
    dht = Dht(reference_tree(bits, children), hosts, rng.choice(["chord", "pastry"]))
    explicit = explicit_tree(bits, children)
    host_of = {key: host for host, key in dht.topmost.items()}

    def depth_first(key: int) -> set[int]:
        found: set[int] = set()
        for child in explicit.children[key]:
            found |= {host_of[child]} if child in host_of else depth_first(child)
        return found

    tree = tree_from_nothing(dht)
    for host in dht.hosts:
        assert tree.children(host) == depth_first(dht.topmost[host])


@pytest.mark.parametrize("seed", SEEDS)
def test_degrees_of_binary_trees(seed: int) -> None:
    """No host has more than three neighbours (Section 3.6)."""
    case = random_case(seed)
    for assignment in ("chord", "pastry"):
        dht = Dht(reference_tree(case.bits, 2), case.hosts, assignment)
        sets = tree_from_nothing(dht).neighbours()
        assert max(len(neighbours) for neighbours in sets.values()) <= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_multicasts(seed: int) -> None:
    """A group's edges are those of the paths from its source to its members."""
    case = random_case(seed)
    tree = tree_from_nothing(case.dht())
    for source, members in case.groups:
        edges = multicast_edges(tree.neighbours(), source, members)
        expected = {}
        for member in members:
            path = path_between(tree, source, member)
            for hops, (sender, receiver) in enumerate(pairwise(path), start=1):
                expected[receiver] = (sender, hops)
        assert edges == expected
        assert set(members) <= {source, *edges}


@pytest.mark.parametrize("seed", seeds(range(100), 25))
def test_joining_subtrees(seed: int) -> None:
    """The hosts on the paths between any two of the ends."""
    rng = random.Random(seed)
    case: Case = random_case(seed)
    tree = tree_from_nothing(case.dht())
    ends = rng.sample(case.hosts, rng.randint(1, min(5, len(case.hosts))))
    paths = [path_between(tree, one, other) for one in ends for other in ends]
    assert set(joining_subtree(tree.neighbours(), ends)) == {host for one in paths for host in one}
    assert joining_subtree(tree.neighbours(), []) == {}


def test_lookups_by_hand() -> None:
    """Three children a key: the border of two keysets, and a subtree that an older answer covers.

    h60 has 51 to 60, topmost 53, with the subtrees 33 to 42 (node 36), 43 to 52 (46) and 54 to 63
    (60, its own). 36 is h37's, whose topmost is the root, 32; 46 is the topmost of h50. Below 36,
    33 to 35 are h37's, as is known; 38 is h50's; 39 is known, and so is 37, by the answer for 36;
    41 is asked for, since the answer for 38 was not one above it. Below 60, 62 is h16's.
    """
    dht = Dht(reference_tree(6, 3), [16, 37, 50, 60], "chord")
    assert (dht.topmost[60], dht.topmost[37], dht.topmost[50]) == (53, 32, 46)
    found = find_neighbours(dht, 60)
    assert (found.parent, found.children) == (37, frozenset({50}))
    assert found.child_asked == (36, 46, 38, 41, 62)


def test_asking_again_by_hand() -> None:
    """Two children a key: h17 has 1 to 17, topmost 16; h47 has 18 to 47, topmost 32; h0 the rest.

    h17 asks for 24, then for 20 and 18, which are h47's as is known, then for 0; 17, below 18, is
    its own, as are 8, 4, 2 and 1 above 0.
    """
    dht = Dht(reference_tree(6, 2), [0, 17, 47], "chord")
    found = find_neighbours(dht, 17)
    assert found.parent == 47
    assert found.child_asked == (24, 0)
    assert find_neighbours(dht, 17, Rules(ask_again=True)).child_asked == (24, 20, 18, 0)
