"""What a failure costs, against trees made plainly and against all hosts at once."""

import random
from collections import defaultdict

import numpy as np
import pytest
from oracle.reference_tree.tree import parents_of_hosts

from scribe_spark.core.u128 import from_halves
from scribe_spark.systems.reference_tree.reconfiguration import failures_by_depth
from scribe_spark.systems.reference_tree.tree import ReferenceTree
from scribe_spark.systems.scribe.trees import costs_of_rejoining


def links(parent: dict[int, int | None]) -> set[frozenset[int]]:
    return {frozenset((a, b)) for a, b in parent.items() if b is not None}


def depth_of(parent: dict[int, int | None], host: int) -> int:
    above = parent[host]
    return 0 if above is None else 1 + depth_of(parent, above)


def after(ids: list[int], host: int, bits: int, c: int, assignment: str) -> tuple[int, int]:
    """Links that change, and hosts at the ends of those that do or that lost a link."""
    rest = [i for i in ids if i != host]
    old = links(parents_of_hosts(ids, bits, c, assignment))
    changed = old ^ links(parents_of_hosts(rest, bits, c, assignment))
    return len(changed), len({end for link in changed for end in link} - {host})


@pytest.mark.parametrize("assignment", ["chord", "pastry"])
@pytest.mark.parametrize(("bits", "c", "count"), [(8, 2, 40), (8, 3, 25), (128, 2, 30), (6, 2, 2)])
def test_links_and_hosts_are_those_of_trees_made_plainly(bits, c, count, assignment):
    rng = random.Random(f"{bits} {c} {count} {assignment}")
    ids = sorted(rng.sample(range(2**bits), count) if bits < 64 else
                 [rng.getrandbits(bits) for _ in range(count)])  # fmt: skip
    hi, lo = (np.array(half, dtype=np.uint64) for half in zip(*(divmod(i, 2**64) for i in ids),
                                                              strict=True))  # fmt: skip
    found = failures_by_depth(
        ReferenceTree(bits, c), assignment, from_halves(hi, lo, bits), count, 1
    )
    parent = parents_of_hosts(ids, bits, c, assignment)
    expected = sorted(
        (depth_of(parent, host), *after(ids, host, bits, c, assignment)) for host in ids
    )
    assert len(found) == count
    # (a host may compute without a link that changes; that is rare, and never the other way round)
    assert sorted(found[:, :2].tolist()) == sorted([d, n] for d, n, _ in expected)
    assert found[:, 2].sum() >= sum(ends for _, _, ends in expected)
    assert count == 2 or (found[:, 3] >= found[:, 2]).all()  # who is left alone asks nobody


def test_a_single_host():
    ids = from_halves(np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.uint64), 128)
    assert failures_by_depth(ReferenceTree(128, 2), "chord", ids, 3, 1).shape == (0, 4)


def test_rejoining_is_counted_by_depth(spark):
    # group 1: 0 -> 1, 2; 1 -> 3.  Group 2: 5 -> 0.
    rows = [(1, 0, 1), (1, 0, 2), (1, 1, 3), (2, 5, 0)]
    edges = spark.createDataFrame(rows, "group bigint, parent bigint, child bigint")
    found = {row["depth"]: tuple(row)[1:] for row in costs_of_rejoining(edges).collect()}
    expected = defaultdict(lambda: np.zeros(4, dtype=int))
    for depth, children in ((0, 2), (1, 1), (1, 0), (2, 0), (0, 1), (1, 0)):
        up = int(depth > 0)
        expected[depth] += np.array([1, 2 * children + up, children + up, children])
    assert found == {depth: tuple(sums.tolist()) for depth, sums in expected.items()}
