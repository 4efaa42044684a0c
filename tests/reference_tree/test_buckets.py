"""Searches that go from bucket to bucket, without Spark, against all keysets in one place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from reference_tree.test_places import at_once, random_ids
from scribe_spark.core.arrays import NONE
from scribe_spark.core.u128 import from_halves
from scribe_spark.engine import Tables
from scribe_spark.engine.in_process import play
from scribe_spark.engine.program import AT
from scribe_spark.reference_tree import ReferenceTree
from scribe_spark.reference_tree.bucket_searches import ANSWER, PLACE
from scribe_spark.reference_tree.bucket_steps import HOSTS, Search
from scribe_spark.reference_tree.buckets import (
    Buckets,
    Ends,
    _ends_of_partition,
    bucket_bits,
    bucket_of_key,
)


def by_buckets(ids: list[int], bits: int, children: int, assignment: str, buckets: int) -> list:
    """Rows of `PLACES`, made as the supersteps make them."""
    tree, n = ReferenceTree(bits, children), len(ids)
    hi, lo = (
        np.array(half, np.uint64) for half in zip(*[divmod(k, 2**64) for k in ids], strict=True)
    )
    first_bits = bucket_bits(tree, n, buckets)
    bucket = bucket_of_key(tree, first_bits, from_halves(hi, lo, bits))
    hosts = {"id_hi": hi.view(np.int64), "id_lo": lo.view(np.int64)}
    ends = _ends_of_partition(pa.table({"bucket": bucket, "node": np.arange(n), **hosts}), bits)
    assert not any(ends.column("wrong").to_pylist() + ends.column("again").to_pylist())
    end_hi, end_lo = (ends.column(name).to_numpy().view(np.uint64) for name in hosts)
    order = np.lexsort((end_lo, end_hi))
    node = ends.column("node").to_numpy()
    cut = Buckets(tree, assignment, first_bits, Ends(end_hi[order], end_lo[order], node[order]))

    sent = {AT: bucket.astype(np.int64), "node": np.arange(n), **hosts}
    tables = [Tables() for _ in range(2**first_bits)]
    play(Search(cut), tables, {HOSTS: sent})
    found: dict[int, list] = {}
    for mine in tables:
        for name in (name for name in mine if name.startswith((PLACE, ANSWER))):
            for values in zip(*mine[name].values(), strict=True):
                add(found, dict(zip(mine[name], map(int, values), strict=True)))
    return sorted((node, *place) for node, place in found.items())


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
