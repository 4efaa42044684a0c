"""Places on Spark, in parts of the ring, against the oracle."""

import random

import pytest
from identifiers import halves
from oracle.reference_tree.tree import Dht, find_neighbours, reference_tree, tree_from_nothing

from scribe_spark.core.errors import InputError
from scribe_spark.runtime.blocks import release
from scribe_spark.systems.reference_tree.places import places
from scribe_spark.systems.reference_tree.tree import ReferenceTree


def table(spark, ids: list[int], partitions: int = 2):
    rows = [(node, *halves(key)) for node, key in enumerate(ids)]
    frame = spark.createDataFrame(rows, "node bigint, id_hi bigint, id_lo bigint")
    return frame.repartition(partitions)


@pytest.mark.parametrize(("bits", "children", "hosts", "parts"), [(4, 2, 16, 16), (128, 5, 90, 7)])
def test_places_in_parts_are_the_oracle_s(spark, bits, children, hosts, parts):
    rng = random.Random(hosts)
    ids = (
        rng.sample(range(2**bits), hosts)
        if bits < 63
        else [rng.getrandbits(bits) for _ in range(hosts)]
    )
    dht = Dht(reference_tree(bits, children), ids, "pastry")
    plain = tree_from_nothing(dht)
    expected = []
    for node, key in enumerate(ids):
        asked, parent = find_neighbours(dht, key), plain.parent[key]
        above = None if parent is None else ids.index(parent)
        counts = len(asked.parent_asked), len(asked.child_asked)
        expected.append((node, *halves(plain.topmost[key]), plain.depth[key], above, *counts))
    found = places(table(spark, ids), ReferenceTree(bits, children), "pastry", parts)
    assert sorted(map(tuple, found.collect())) == expected
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
