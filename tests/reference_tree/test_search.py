"""Paths and topmost keys of the reference tree on seeded random cases, against the definitions."""

import random

import numpy as np
import pytest
from oracle.reference_tree.tree import Keyset, explicit_tree, topmost_by_definition

from scribe_spark.core import u128
from scribe_spark.systems.reference_tree.tree import ReferenceTree, topmost_keys


@pytest.fixture(params=["uint64", "128 bits"])
def width(request, monkeypatch):
    """Small keys as one number, and as two halves like long ones."""
    if request.param == "128 bits":
        monkeypatch.setattr(u128, "NARROW_BITS", 3)


def low_halves(numbers) -> list[int]:
    return u128.halves_of(numbers)[1].tolist()


@pytest.mark.parametrize("children", [2, 3, 4, 5, 7, 15, 16, 40, 2000])
@pytest.mark.parametrize("bits", [4, 5, 8, 10])
def test_paths_and_topmost_keys(width, bits, children):
    plain, tree, size = explicit_tree(bits, children), ReferenceTree(bits, children), 2**bits
    keys = tree.rows(0, size) + u128.number(np.arange(size), tree.root)
    paths, depth = tree.paths(keys)
    assert depth.tolist() == [plain.depth[key] for key in range(size)]
    levels = np.array(low_halves(paths)).reshape(-1, size)
    for key in range(size):
        parent = levels[depth[key] - 1, key] if depth[key] else None
        assert (levels[depth[key], key], parent) == (key, plain.parent.get(key))
    rng = random.Random(bits * children)
    ends = [(rng.randrange(size), rng.randrange(size)) for _ in range(300)]
    first, last = (u128.number(np.array(end), tree.root) for end in zip(*ends, strict=True))
    found = topmost_keys(tree, first, last)
    for (start, end), key in zip(ends, low_halves(found.key), strict=True):
        assert key == topmost_by_definition(plain, Keyset(start, end, bits))
    assert low_halves(tree.node(found.subtree)) == low_halves(found.key)
