"""The oracle against what is worked out by hand, and against plain definitions.

The kernels play the same cases (`tests/reference_tree/test_oracle_cases.py`).
"""

import random

import pytest
from seeds import seeds

from .cases import BY_HAND
from .reconfiguration import Round, reconfigure
from .tree import (
    ASSIGNMENTS,
    Dht,
    Keyset,
    explicit_tree,
    find_neighbours,
    multicast_edges,
    owner_by_definition,
    reconfiguration_area,
    reference_tree,
    topmost_by_definition,
    tree_from_nothing,
)

EXAMPLE = BY_HAND["example"]
START = EXAMPLE.dht()
AT_START = tree_from_nothing(START).neighbours()

# --- the tree of keys


def test_figure_1a() -> None:
    """The search tree of 16 keys; key 0 is the left child of key 1."""
    tree = explicit_tree(4, 2)
    assert tree.order == [8, 4, 12, 2, 6, 10, 14, 1, 3, 5, 7, 9, 11, 13, 15, 0]
    assert tree.children[8] == [4, 12]
    assert tree.children[4] == [2, 6]
    assert tree.children[1] == [0]
    assert tree.parent[15] == 14


def test_three_children() -> None:
    """By hand: one subtree away from the parent, two towards it, the root has two below it."""
    tree = explicit_tree(4, 3)
    assert tree.children[8] == [1, 5, 13]
    assert tree.children[1] == [0, 2, 3]
    assert tree.children[5] == [4, 6, 7]
    # 9 to 15: 14 and 15 are on the side away from 8, then 13; 9 and 10, 11 and 12 share the rest,
    # with 13 above them.
    assert tree.children[13] == [10, 12, 14]
    assert sorted(tree.order) == list(range(16))


@pytest.mark.parametrize("bits", range(4, 9))
@pytest.mark.parametrize("children", [*range(2, 17), 40])
def test_arithmetic_equals_the_tree_written_out(bits: int, children: int) -> None:
    """Parent, depth and children of every key; the property of Section 3.2."""
    explicit, tree = explicit_tree(bits, children), reference_tree(bits, children)
    assert sorted(explicit.order) == list(range(2**bits))
    for key in explicit.order:
        found = tree.subtree(key)
        assert found.depth == explicit.depth[key]
        assert found.parent == explicit.parent.get(key)
        assert [one.node for one in tree.subtrees(found)] == explicit.children[key]
        assert len(explicit.children[key]) <= children
        if found.parent is not None:
            low, high = sorted([key, found.parent])
            outside = [child for child in explicit.children[key] if not low < child < high]
            assert len(outside) <= 1
            assert all((child < key) == (key < found.parent) for child in outside)


# --- keysets


@pytest.mark.parametrize("seed", seeds(range(100), 8))
def test_keysets_and_topmost_keys_by_definition(seed: int) -> None:
    """Each key is in the keyset of its owner and in no other; hosts are often close."""
    rng = random.Random(seed)
    bits, children = rng.randint(4, 8), rng.randint(2, 15)
    space = 2 ** rng.choice([bits, rng.randint(2, bits)])
    base = rng.randrange(2**bits)
    count = rng.choice([1, 2, 3, rng.randint(1, space), rng.randint(1, space)])
    hosts = [(base + place) % 2**bits for place in rng.sample(range(space), min(count, space))]
    dht = Dht(reference_tree(bits, children), hosts, rng.choice(ASSIGNMENTS))
    explicit = explicit_tree(bits, children)
    for key in range(2**bits):
        owner = owner_by_definition(dht.hosts, key, dht.assignment, bits)
        assert [host for host in dht.hosts if key in dht.keysets[host]] == [owner]
        assert dht.lookup(key).owner == owner
    for host, keyset in dht.keysets.items():
        assert dht.topmost[host] == topmost_by_definition(explicit, keyset)


# --- the paper's example (Section 3.5): 16 keys, chord, binary tree


def test_start() -> None:
    """Figure 2(a)."""
    tree = tree_from_nothing(START)
    assert tree.topmost == {5: 4, 9: 8, 11: 10, 13: 12, 15: 14}
    assert tree.parent == {5: 9, 9: None, 11: 13, 13: 9, 15: 13}
    assert tree.depth == {5: 1, 9: 0, 11: 2, 13: 1, 15: 2}


@pytest.mark.parametrize(
    ("name", "host", "parent", "children", "parent_asked", "child_asked"),
    [
        # h9 asks for 4 and 12; h5 asks for 8, and for 6, which is in the keyset of h9, as is 7
        ("example", 9, None, {5, 13}, (), (4, 12)),
        ("example", 5, 9, set(), (8,), (6,)),
        ("example", 13, 9, {11, 15}, (8,), (10, 14)),
        ("example", 11, 13, set(), (12,), (9,)),
        # h60 has 51 to 60, topmost 53, with the subtrees 33 to 42 (node 36), 43 to 52 (46) and 54
        # to 63 (60, its own). 36 is h37's, whose topmost is the root, 32; 46 is the topmost of h50.
        # Below 36, 33 to 35 are h37's, as is known; 38 is h50's; 39 is known, and so is 37, by the
        # answer for 36; 41 is asked for, since the answer for 38 was not one above it. Below 60, 62
        # is h16's.
        ("covered by an older answer", 60, 37, {50}, (32,), (36, 46, 38, 41, 62)),
        # h17 has 1 to 17, topmost 16; h47 has 18 to 47, topmost 32; h0 the rest. h17 asks for 24,
        # not for 20 and 18, which are h47's as is known, then for 0; 17, below 18, is its own, as
        # are 8, 4, 2 and 1 above 0.
        ("known owners", 17, 47, set(), (32,), (24, 0)),
    ],
)
def test_look_ups(name, host, parent, children, parent_asked, child_asked) -> None:
    found = find_neighbours(BY_HAND[name].dht(), host)
    assert (found.parent, found.children) == (parent, children)
    assert (found.parent_asked, found.child_asked) == (parent_asked, child_asked)


def test_h4_joins() -> None:
    """Figure 2(b). Two slips of the paper: h5's topmost key is then 5, and h4 has key 0, too."""
    dht, neighbours, rounds = reconfigure(START, AT_START, EXAMPLE.events[0])
    assert dht.keysets[4] == Keyset(0, 4, 4)
    assert dht.keysets[5] == Keyset(5, 5, 4)
    assert (dht.topmost[4], dht.topmost[5]) == (4, 5)
    assert neighbours == {4: {5, 9}, 5: {4}, 9: {4, 13}, 11: {13}, 13: {9, 11, 15}, 15: {13}}
    # h11, h13 and h15 have nothing to do.
    assert {host for one in rounds for host in one.computed} == {4, 5, 9}
    assert reconfiguration_area(AT_START, neighbours) == {4, 5, 9}
    # h4 asks for 8, then for 6 and 5; h5 for 6, 4 (its parent; 6 is h9's, 7 with it).
    assert find_neighbours(dht, 4).child_asked == (6, 5)
    assert find_neighbours(dht, 5).parent_asked == (6, 4)


def test_rounds_when_h4_joins() -> None:
    """h4 and, since its topmost key changed, h5 compute; then those that they tell."""
    _, _, rounds = reconfigure(START, AT_START, EXAMPLE.events[0])
    assert rounds == [
        Round((4, 5), ((4, 5), (4, 9), (5, 4), (5, 9)), 3, 2),
        Round((4, 5, 9), ((9, 4), (9, 5)), 3, 4),
        Round((4, 5), (), 3, 2),
    ]


def test_h13_fails() -> None:
    """Figure 2(c)."""
    dht, before, _ = reconfigure(START, AT_START, EXAMPLE.events[0])
    dht, after, rounds = reconfigure(dht, before, EXAMPLE.events[1])
    assert dht.topmost[15] == 12
    assert after == {4: {5, 9}, 5: {4}, 9: {4, 15}, 11: {15}, 15: {9, 11}}
    assert reconfiguration_area(before, after) == {9, 11, 13, 15}
    # h9 asks for 4 and 12, h11 for 12 and 9, h15 for 8 and 10.
    assert rounds == [
        Round((9, 11, 15), ((9, 15), (11, 15), (15, 9), (15, 11)), 2, 4),
        Round((9, 11, 15), (), 2, 4),
    ]


def test_multicast() -> None:
    """From h11 to h5 and h15: over h13 and h9."""
    edges, none = (multicast_edges(AT_START, *group) for group in EXAMPLE.groups)
    assert edges == {13: (11, 1), 9: (13, 2), 15: (13, 2), 5: (9, 3)}
    assert none == {}
