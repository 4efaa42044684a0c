"""Searches that go from bucket to bucket, without Spark, against all keysets in one place."""

from __future__ import annotations

import numpy as np
import pytest

from reference_tree.test_places import at_once, random_ids
from scribe_spark.core.arrays import NONE
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import RingInMemory
from scribe_spark.engine.in_task import play
from scribe_spark.engine.ring import Ring
from scribe_spark.reference_tree import ReferenceTree
from scribe_spark.reference_tree.bucket_searches import ANSWER, PLACE
from scribe_spark.reference_tree.bucket_steps import Search
from scribe_spark.reference_tree.hash_table import HashTable


def by_buckets(ids: list[int], bits: int, children: int, assignment: str, buckets: int) -> list:
    """Rows of `PLACES`, made as the supersteps make them; some buckets may have no hosts."""
    tree, count = ReferenceTree(bits, children), len(ids)
    hi, lo = (
        np.array(half, np.uint64) for half in zip(*[divmod(k, 2**64) for k in ids], strict=True)
    )
    ring = Ring(hi, lo, np.arange(count), np.zeros(count, np.int64)).in_order()
    bounds = np.sort(np.random.default_rng(count).integers(0, count + 1, buckets + 1))
    bounds[[0, -1]] = 0, count
    tables = [Tables() for _ in range(buckets)]
    play(Search(HashTable(RingInMemory(ring), bounds, tree, assignment)), tables)
    found: dict[int, list] = {}
    for mine in tables:
        for name in (name for name in mine if name.startswith((PLACE, ANSWER))):
            for values in zip(*mine[name].values(), strict=True):
                add(found, dict(zip(mine[name], map(int, values), strict=True)))
    number = [*ring.node.tolist(), None]
    return sorted(
        (number[host], *place[:3], number[-1 if place[3] is None else place[3]], *place[4:])
        for host, place in found.items()
    )


def add(found: dict[int, list], row: dict[str, int]) -> None:
    """Add a part of a host's searches to what is known of it."""
    place = found.setdefault(row["node"], [None, None, None, None, 0, 0])
    for column, name in enumerate(("topmost_hi", "topmost_lo", "depth", "parent")):
        if name in row and (name != "parent" or row[name] != NONE):
            place[column] = row[name]
    for column, name in enumerate(("parent_lookups", "child_lookups"), start=4):
        place[column] += row[name]


@pytest.mark.parametrize("assignment", ["chord", "pastry"])
@pytest.mark.parametrize(
    ("bits", "children", "hosts", "buckets"),
    [
        (128, 2, 300, 16),
        (128, 5, 200, 64),
        (66, 3, 60, 16),
        (63, 2, 40, 200),
        (8, 3, 100, 16),
        (4, 2, 16, 16),
        (100, 16, 1, 8),
        (128, 2, 2, 1),
        (70, 7, 3, 16),
        (64, 2, 3000, 32),
    ],
)
def test_buckets_find_what_is_found_with_all_keysets(bits, children, hosts, buckets, assignment):
    ids = random_ids(bits, hosts, seed=hosts)
    found = by_buckets(ids, bits, children, assignment, buckets)
    assert found == at_once(ids, bits, children, assignment)
