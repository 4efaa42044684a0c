"""Nodes: their ids and their routers."""

import hashlib

import identifiers
import numpy as np

from scribe_spark import schemas
from scribe_spark.config import RunConfig
from scribe_spark.pastry.overlay import draw_nodes

ROUTERS = np.array([10, 20, 35])

#: Nodes 0 to 3 of seed 1: nodeId, and router of :data:`ROUTERS`.
GOLDEN = [
    ("5c5cffd0dee6e0f301728001333c929d", 10),
    ("249feb5cd8f7145a6a34d45fe3e58eb2", 20),
    ("451f3629b0fd271de6f8dca5cf86afaa", 35),
    ("e71e4a86d9dd9c577019e355ebf8a92e", 35),
]


def made(spark, routers=ROUTERS, **fields) -> list[tuple[int, int, int]]:
    """(node, nodeId, router) in order."""
    frame = draw_nodes(spark, RunConfig(**{"groups": 0} | fields), routers).frame
    assert [(f.name, f.dataType) for f in frame.schema] == [
        (f.name, f.dataType) for f in schemas.NODES
    ]
    return sorted((n, identifiers.whole(hi, lo), router) for n, hi, lo, router in frame.collect())


def test_golden_nodes_of_seed_1(spark):
    found = made(spark, nodes=4, seed=1)
    assert [(f"{identifier:032x}", router) for _, identifier, router in found] == GOLDEN
    assert made(spark, nodes=40, seed=1)[:4] == found  # more nodes change none


def test_sha1_ids_are_the_first_128_bits_of_the_names_hash(spark):
    found = made(spark, nodes=50, node_ids="sha1", seed=7)
    for node, identifier, _ in found:
        digest = hashlib.sha1(f"node-{node}".encode()).digest()
        assert identifier == int.from_bytes(digest[:16], "big")
    by_draw = made(spark, nodes=50, seed=7)
    assert [r for *_, r in found] == [r for *_, r in by_draw]  # ids and places are apart
