"""Places by supersteps, against all keysets in one place and against the plain search."""

from __future__ import annotations

import random

import numpy as np
import pytest
from identifiers import halves, parts, signed

from scribe_spark.core.u128 import from_halves, halves_of
from scribe_spark.errors import InputError
from scribe_spark.reference_tree.climb import climb, climbs_from
from scribe_spark.reference_tree.explore import branches_from, explore
from scribe_spark.reference_tree.places import places
from scribe_spark.reference_tree.rings import Rings
from scribe_spark.reference_tree.tree import ReferenceTree
from scribe_spark.runtime.blocks import release


def table(spark, ids: list[int], partitions: int = 2):
    rows = [(node, *halves(key)) for node, key in enumerate(ids)]
    frame = spark.createDataFrame(rows, "node bigint, id_hi bigint, id_lo bigint")
    return frame.repartition(partitions)


def at_once(ids: list[int], bits: int, children: int, assignment: str) -> list[tuple]:
    """Rows of `PLACES`, made with all keysets at hand."""
    tree, n = ReferenceTree(bits, children), len(ids)
    numbers = from_halves(*parts(ids), bits)
    rings = Rings.of(tree, assignment, numbers, np.zeros(n, int), np.arange(n), 1)
    found, _ = climb(tree, rings, climbs_from(rings, np.arange(n), rings.node))
    children_found, _ = explore(tree, rings, branches_from(tree, rings, np.arange(n), rings.node))
    asked = np.bincount(children_found.lookups, minlength=n)
    high, low = halves_of(rings.topmost)
    rows = []
    for place in range(n):
        node, parent = int(rings.node[place]), int(found.parent[place])
        key = (signed(int(high[place])), signed(int(low[place])))
        counts = (int(found.lookups[place]), int(asked[node]))
        parents = None if parent < 0 else parent
        rows.append((node, *key, int(rings.depth[place]), parents, *counts))
    return sorted(rows)


def random_ids(bits: int, count: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(rng.getrandbits(bits))
    return sorted(chosen, key=lambda key: rng.random())


@pytest.mark.parametrize(
    ("bits", "children", "assignment", "count", "buckets"),
    [
        (128, 2, "chord", 300, 16),
        pytest.param(128, 5, "pastry", 200, 64, marks=pytest.mark.slow),
        (4, 2, "pastry", 16, 16),
    ],
)
def test_buckets_find_what_is_found_with_all_keysets(
    spark, bits, children, assignment, count, buckets
):
    ids = random_ids(bits, count, seed=count)
    frame = table(spark, ids, partitions=1 + count % 3)
    found = places(frame, bits=bits, children=children, assignment=assignment, buckets=buckets)
    assert sorted(map(tuple, found.collect())) == at_once(ids, bits, children, assignment)
    release(found)


@pytest.mark.parametrize(
    ("ids", "bits", "said"),
    [
        ([1, 2, 2], 4, "two hosts"),
        ([1, 16], 4, "must be less than"),
        ([1, 2**70], 70, "must be less than"),
        (range(17), 4, "16"),
        ([1], 3, "bits"),
        ([1], 129, "bits"),
    ],
)
def test_bad_input_is_refused_in_one_line(spark, ids, bits, said):
    with pytest.raises(InputError, match=said) as refused:
        places(table(spark, list(ids)), bits=bits)
    assert "\n" not in str(refused.value)
