"""Kernels of the reference tree on seeded random cases, against the definitions."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

import numpy as np
import pytest
from oracle.reference_tree.tree import (
    Dht,
    Keyset,
    explicit_tree,
    find_neighbours,
    reference_tree,
    topmost_by_definition,
)
from seeds import seeds

from scribe_spark.core import u128
from scribe_spark.reference_tree.hash_table import ASSIGNMENTS, Rings
from scribe_spark.reference_tree.search import branches_from, climb, climbs_from, explore
from scribe_spark.reference_tree.tree import ReferenceTree, topmost_keys


@pytest.fixture(params=["uint64", "128 bits"])
def width(request, monkeypatch):
    """Small keys as one number, and as two halves like long ones."""
    if request.param == "128 bits":
        monkeypatch.setattr(u128, "NARROW_BITS", 3)


def low_halves(numbers) -> list[int]:
    return u128.halves_of(numbers)[1].tolist()


@dataclass(frozen=True)
class Place:
    """What a host finds; hosts are their ids, the root has no parent."""

    topmost: int
    parent: int | None
    parent_lookups: int
    children: frozenset[int]
    child_lookups: int


@functools.cache
def expected_places(bits: int, children: int, assignment: str, ids: tuple[int, ...]) -> list[Place]:
    """The oracle's, of every host."""
    dht = Dht(reference_tree(bits, children), ids, assignment)
    found = {host: find_neighbours(dht, host) for host in ids}
    return [
        Place(
            dht.topmost[host],
            one.parent,
            len(one.parent_asked),
            one.children,
            len(one.child_asked),
        )
        for host, one in found.items()
    ]


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


@pytest.mark.parametrize("seed", seeds(range(160), 50))
def test_places_on_several_rings_at_once(width, seed):
    rng = random.Random(seed)
    bits, children = rng.choice([4, 5, 6, 7, 8]), rng.choice([2, 2, 3, 4, 5, 7, 15, 16])
    assignment = rng.choice(ASSIGNMENTS)
    rings = [rng.sample(range(2**bits), rng.randint(1, min(2**bits, 60))) for _ in range(3)]
    tree = ReferenceTree(bits, children)
    ids = [key for ring in rings for key in ring]
    numbers = u128.number(np.array(ids), tree.root)
    ring = np.repeat(np.arange(len(rings)), [len(one) for one in rings])
    known = Rings.of(tree, assignment, numbers, ring, np.arange(len(ids)), len(rings))

    rows = np.arange(len(known))
    parents, _ = climb(tree, known, climbs_from(tree, known, rows))
    found, _ = explore(tree, known, branches_from(tree, known, rows))

    asked = np.bincount(found.lookups, minlength=len(ids))
    topmost = dict(zip(known.node.tolist(), low_halves(known.topmost), strict=True))
    children_of: dict[int, list[int]] = {node: [] for node in range(len(ids))}
    for asker, child in zip(found.asker.tolist(), found.child.tolist(), strict=True):
        children_of[asker].append(ids[child])
    places = {}
    for node, parent, lookups in zip(
        parents.asker.tolist(), parents.parent.tolist(), parents.lookups.tolist(), strict=True
    ):
        assert len(set(children_of[node])) == len(children_of[node])
        places[node] = Place(
            topmost[node],
            ids[parent] if parent >= 0 else None,
            lookups,
            frozenset(children_of[node]),
            int(asked[node]),
        )
    nodes = iter(range(len(ids)))
    for one in rings:
        expected = expected_places(bits, children, assignment, tuple(one))
        assert [places[next(nodes)] for _ in one] == expected
