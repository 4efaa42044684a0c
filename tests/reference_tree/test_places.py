"""Places by supersteps, in process and on Spark, against all keysets in one place."""

import random

import numpy as np
import pytest
from identifiers import halves, parts

from scribe_spark.core.arrays import NONE
from scribe_spark.core.errors import InputError
from scribe_spark.core.u128 import from_halves, halves_of
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.in_task import play
from scribe_spark.runtime.blocks import release
from scribe_spark.systems.reference_tree.hash_table import HashTable, Rings
from scribe_spark.systems.reference_tree.places import FindPlaces, places
from scribe_spark.systems.reference_tree.search import branches_from, climb, climbs_from, explore
from scribe_spark.systems.reference_tree.tree import ReferenceTree


def table(spark, ids: list[int], partitions: int = 2):
    rows = [(node, *halves(key)) for node, key in enumerate(ids)]
    frame = spark.createDataFrame(rows, "node bigint, id_hi bigint, id_lo bigint")
    return frame.repartition(partitions)


def at_once(ids: list[int], bits: int, children: int, assignment: str) -> list[tuple]:
    """Rows of `PLACES`, made with all keysets at hand."""
    tree, n = ReferenceTree(bits, children), len(ids)
    numbers = from_halves(*parts(ids), bits)
    rings = Rings.of(tree, assignment, numbers, np.zeros(n, int), np.arange(n), 1)
    up, _ = climb(tree, rings, climbs_from(tree, rings, np.arange(n)))
    down, _ = explore(tree, rings, branches_from(tree, rings, np.arange(n)))
    asked = np.zeros(n, dtype=np.int64)
    np.add.at(asked, down["host"], down["lookups"])
    high, low = (half.view(np.int64).tolist() for half in halves_of(rings.topmost))
    parent = [None if one < 0 else one for one in up["neighbour"].tolist()]
    columns = rings.depth.tolist(), parent, up["lookups"].tolist(), asked[rings.node].tolist()
    return sorted(zip(rings.node.tolist(), high, low, *columns, strict=True))


def random_ids(bits: int, count: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    chosen: set[int] = set()
    while len(chosen) < count:
        chosen.add(rng.getrandbits(bits))
    return sorted(chosen, key=lambda key: rng.random())


def in_process(ids: list[int], bits: int, children: int, assignment: str, buckets: int) -> list:
    """Rows of `PLACES`, made by supersteps without Spark; some buckets may have no hosts."""
    tree, count = ReferenceTree(bits, children), len(ids)
    ring = Ring(*parts(ids), np.arange(count), np.zeros(count, np.int64)).in_order()
    bounds = np.sort(np.random.default_rng(count).integers(0, count + 1, buckets + 1))
    bounds[[0, -1]] = 0, count
    tables = [Tables() for _ in range(buckets)]
    play(FindPlaces(HashTable(RingInMemory(ring), bounds, tree, assignment)), tables)
    rows = []
    for of in (of["places"] for of in tables if "places" in of):
        parent = [None if at == NONE else int(ring.node[at]) for at in of["parent"]]
        columns = {**of, "node": ring.node[of["node"]], "parent": parent}
        rows += zip(*(columns[name] for name in COLUMNS), strict=True)
    return sorted(rows)


COLUMNS = ("node", "topmost_hi", "topmost_lo", "depth", "parent", "parent_lookups", "child_lookups")


@pytest.mark.parametrize("assignment", ["chord", "pastry"])
@pytest.mark.parametrize(
    ("bits", "children", "hosts", "buckets"),
    [
        (128, 5, 100, 64),
        (66, 3, 60, 16),
        (63, 2, 40, 200),
        (8, 3, 100, 16),
        (4, 2, 16, 16),
        (100, 16, 1, 8),
        (128, 2, 2, 1),
        (70, 7, 3, 16),
        (64, 2, 600, 32),
    ],
)
def test_buckets_in_process_find_what_is_found_with_all_keysets(
    bits, children, hosts, buckets, assignment
):
    ids = random_ids(bits, hosts, seed=hosts)
    found = in_process(ids, bits, children, assignment, buckets)
    assert found == at_once(ids, bits, children, assignment)


def test_buckets_on_spark_find_what_is_found_with_all_keysets(spark):
    ids = random_ids(4, 16, seed=16)
    found = places(table(spark, ids), ReferenceTree(4, 2), "pastry", buckets=16)
    assert sorted(map(tuple, found.collect())) == at_once(ids, 4, 2, "pastry")
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
        places(table(spark, list(ids)), ReferenceTree(bits, 2))
    assert "\n" not in str(refused.value)
