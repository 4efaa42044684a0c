"""Searches that go from bucket to bucket, without Spark, against all keysets in one place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from reference_tree.test_places import at_once, random_ids
from scribe_spark.core.u128 import from_halves
from scribe_spark.reference_tree import ReferenceTree
from scribe_spark.reference_tree.bucket_searches import (
    ANSWER,
    CHILDREN,
    KEYSETS,
    PARENTS,
    PLACE,
    first_answers,
)
from scribe_spark.reference_tree.bucket_steps import _answer
from scribe_spark.reference_tree.buckets import (
    Buckets,
    Ends,
    _ends_of_partition,
    bucket_bits,
    bucket_of_key,
)

LETTERS = {
    "what": pa.int32(),
    "bucket": pa.int32(),
    "data": pa.binary(),
    "node": pa.int64(),
}


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

    rows = []
    for one in np.unique(bucket):
        here = bucket == one
        for batch in first_answers(cut, int(one), hi[here], lo[here], np.flatnonzero(here)):
            rows += batch.to_pylist()
    sets = {row["bucket"]: row["data"] for row in rows if row["what"] == KEYSETS}
    answers, letters = rows, [row for row in rows if row["what"] in (PARENTS, CHILDREN)]
    while letters:
        rows = []
        for one in {row["bucket"] for row in letters}:
            there = [row for row in letters if row["bucket"] == one]
            sent = pa.table(
                {
                    name: pa.array([row[name] for row in there], kind)
                    for name, kind in LETTERS.items()
                }
            )
            keysets = pa.table(
                {"keysets": pa.array([sets[one]] if one in sets else [], pa.binary())}
            )
            rows += _answer(cut)(sent, keysets).to_pylist()
        answers = answers + rows
        letters = [row for row in rows if row["what"] in (PARENTS, CHILDREN)]
    return put_together(answers)


def put_together(answers: list[dict]) -> list[tuple]:
    found: dict[int, list] = {}
    for row in answers:
        if row["what"] not in (PLACE, ANSWER):
            continue
        place = found.setdefault(row["node"], [None, None, None, None, 0, 0])
        for column, name in enumerate(("topmost_hi", "topmost_lo", "depth", "parent")):
            place[column] = row[name] if row[name] is not None else place[column]
        for column, name in enumerate(("parent_lookups", "child_lookups"), start=4):
            place[column] += row[name]
    return sorted((node, *place) for node, place in found.items())


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
