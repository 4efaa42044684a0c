"""The reference tree of keys."""

from __future__ import annotations

import random
from itertools import chain, pairwise

import pytest

from .tree import dealt, explicit_tree, reference_tree, shared

SMALL = [(bits, children) for bits in range(4, 9) for children in range(2, 17)]
LARGE = [(bits, children) for bits in (31, 64, 65, 127, 128) for children in (2, 3, 4, 5, 15, 16)]


def random_keys(bits: int, count: int = 20) -> list[int]:
    """Keys everywhere, at the ends, and near the root."""
    rng = random.Random(bits)
    root = 1 << (bits - 1)
    keys = [rng.getrandbits(rng.randint(1, bits)) for _ in range(count)]
    return [*keys, 0, 1, 2 * root - 1, root - 1, root, root + 1]


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


@pytest.mark.parametrize(("bits", "children"), [*SMALL, (10, 2), (10, 3), (10, 40)])
def test_arithmetic_equals_the_tree_written_out(bits: int, children: int) -> None:
    """Parent, depth and children of every key."""
    explicit, tree = explicit_tree(bits, children), reference_tree(bits, children)
    assert sorted(explicit.order) == list(range(2**bits))
    for key in explicit.order:
        found = tree.subtree(key)
        assert found.depth == explicit.depth[key]
        assert found.parent == explicit.parent.get(key)
        assert [one.node for one in tree.subtrees(found)] == explicit.children[key]


@pytest.mark.parametrize(("bits", "children"), SMALL)
def test_property_of_section_3_2(bits: int, children: int) -> None:
    """At most one child is not between a key and its parent, and it is on the other side."""
    tree = explicit_tree(bits, children)
    for key, parent in tree.parent.items():
        assert len(tree.children[key]) <= children
        low, high = sorted([key, parent])
        outside = [child for child in tree.children[key] if not low < child < high]
        assert len(outside) <= 1
        assert all((child < key) == (key < parent) for child in outside)
    assert len(tree.children[tree.order[0]]) <= children


@pytest.mark.parametrize(("bits", "children"), LARGE)
def test_large_trees(bits: int, children: int) -> None:
    """Subtrees, nodes and the keys of a range are disjoint and complete; the property holds."""
    tree = reference_tree(bits, children)
    for key in random_keys(bits):
        for one in tree.path(key):
            inner = tree.subtrees(one)
            assert len(inner) <= children
            ranges = sorted([(one.node, one.node), *((part.low, part.high) for part in inner)])
            assert ranges[0][0] == one.low
            assert ranges[-1][1] == one.high
            assert all(before[1] + 1 == after[0] for before, after in pairwise(ranges))
            if one.parent is not None:
                low, high = sorted([one.node, one.parent])
                outside = [part.node for part in inner if not low < part.node < high]
                assert len(outside) <= 1
                assert all((node < one.node) == (one.node < one.parent) for node in outside)


@pytest.mark.parametrize("bits", [4, 8, 64, 128])
def test_binary_tree_by_bits(bits: int) -> None:
    """With two children a key's last one-bit says where it is: depth and parent follow."""
    tree = reference_tree(bits, 2)
    for key in range(16) if bits == 4 else random_keys(bits, 100):
        place = (key & -key).bit_length() - 1 if key else -1
        found = tree.subtree(key)
        assert found.depth == bits - 1 - place
        if found.parent is not None:
            above = 1 << (place + 1)
            expected = ((key & ~(above >> 1)) | above) if key else 1
            assert found.parent == expected


@pytest.mark.parametrize("parts", range(1, 9))
def test_sharing(parts: int) -> None:
    """Both ways to share keys agree."""
    for count in range(25):
        ranges = shared(100, 100 + count, parts)
        lists = dealt(list(range(100, 100 + count)), parts)
        assert [list(range(start, stop)) for start, stop in ranges] == lists
        assert list(chain(*lists)) == list(range(100, 100 + count))
