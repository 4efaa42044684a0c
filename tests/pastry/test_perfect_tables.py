"""Perfect leaf sets and routing tables, a case at a time, against the oracle."""

import random
from dataclasses import replace

import identifiers
import numpy as np
import pytest
import worlds
from oracle.random_cases import random_case
from oracle.ring import RING

from scribe_spark.engine.facts import bucket_bounds
from scribe_spark.pastry import perfect_tables
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.pastry.states import CELLS, LEAVES


def check_knowledge(one: worlds.World, rows: list[dict]) -> None:
    """Compare all that nodes know with the oracle."""
    assert sorted(row["node"] for row in rows) == [one.base + node for node in sorted(one.case.ids)]
    for row in rows:
        check_row(one, row)


def check_row(one: worlds.World, row: dict) -> None:
    case, overlay = one.case, one.overlay
    node = row["node"] - one.base
    check_known(one, {**row, "entry": row["node"]})
    for known in (*row["leaf_set"], *row["routing_table"]):
        check_known(one, known)
    # leaves: clockwise from the farthest smaller to the farthest larger, without the node
    leaves = [known["entry"] - one.base for known in row["leaf_set"]]
    assert row["covers_ring"] == (len(case.ids) - 1 < case.leaf_set_size)
    clockwise = overlay._others_clockwise(node)
    smaller = row["smaller"]
    if overlay.knows_whole_ring():
        assert len(leaves) == len(clockwise)
    else:
        assert (smaller, len(leaves)) == (case.leaf_set_size // 2, case.leaf_set_size)
    assert leaves[smaller:] == clockwise[: len(leaves) - smaller]
    assert leaves[:smaller] == clockwise[len(clockwise) - smaller :]
    # every entry, and no other
    entries = {(e["row"], e["col"]): e["entry"] - one.base for e in row["routing_table"]}
    assert entries == overlay.routing_table(node)
    assert len(entries) == len(row["routing_table"])


def check_known(one: worlds.World, known: dict) -> None:
    """A nodeId and a router are those of the node."""
    node = known["entry"] - one.base
    assert identifiers.whole(known["id_hi"], known["id_lo"]) == one.case.ids[node]
    assert known["router"] - one.base == one.case.router[node]


def rows_of(knowledge) -> list[dict]:
    return knowledge.sort_by("node").to_pylist()


def test_knowledge_equals_the_oracle():
    for one in worlds.worlds():
        check_knowledge(one, rows_of(one.knowledge))


@pytest.mark.parametrize("more", [2, 3, 5])
def test_tables_are_the_same_for_every_size_of_buckets(more):
    for one in worlds.worlds()[more::4]:
        if one.case.b * more <= 16:
            assert rows_of(one.make_knowledge(more)) == rows_of(one.knowledge)


@pytest.mark.parametrize(
    ("of", "name", "value"), [(worlds.Kernel, "all_pairs_limit", 1), (perfect_tables, "_PAIRS", 50)]
)
def test_classes_solved_router_by_router_or_in_blocks_give_the_same(monkeypatch, of, name, value):
    some = worlds.worlds()[::4]
    expected = [rows_of(one.knowledge) for one in some]
    monkeypatch.setattr(of, name, value)
    for one, rows in zip(some, expected, strict=True):
        assert rows_of(one.make_knowledge(1)) == rows


@pytest.mark.parametrize(
    ("b", "nodes", "routers", "cores", "digits"),
    [
        (4, 100_000, 5050, 2, 1),  # 16 buckets are enough for two cores
        (1, 100_000, 5050, 2, 3),
        (1, 1_000_000, 5050, 2, 4),  # 65,536 nodes in a bucket at the most
        (4, 10_000_000, 5050, 2, 2),
        (4, 1_000_000, 5050, 16, 2),
        (1, 1_000, 5050, 2, 1),  # too few nodes to share out
        (4, 10_000_000, 100_000, 2, 1),  # too many routers for 256 summaries
        (8, 100_000, 5050, 2, 1),
    ],
)
def test_there_are_more_buckets_than_first_digits_where_that_helps(
    b, nodes, routers, cores, digits
):
    assert perfect_tables.bucket_digits(b, nodes, routers, cores) == digits


# --- through Spark --------------------------------------------------------------------------------


def handful() -> dict[str, tuple[worlds.World, int]]:
    """A few cases at the edges, and how many digits the nodes of a bucket share."""

    def with_ids(ids: list[int], b: int, leaf_set: int) -> worlds.World:
        case = random_case(3)
        rng = random.Random(len(ids))
        chosen = dict(enumerate(ids))
        router = {node: rng.choice(case.routers) for node in chosen}
        changes = {"ids": chosen, "router": router, "b": b, "leaf_set_size": leaf_set}
        return worlds.world(replace(case, keys={}, members={}, **changes))

    rng = random.Random(1)
    spread = [rng.randrange(RING) for _ in range(40)]
    crowded = [0xA << 124 | rng.randrange(2**124) for _ in range(40)]
    return {
        "one node": (with_ids(spread[:1], 4, 16), 1),
        "two nodes": (with_ids(spread[:2], 4, 2), 2),
        "three nodes": (with_ids(spread[:3], 1, 2), 5),
        "l is larger than N": (with_ids(spread[:10], 2, 16), 2),
        "one bucket": (with_ids(crowded, 4, 8), 1),
        "b = 8": (with_ids(spread, 8, 4), 1),
    }


@pytest.mark.parametrize("name", handful())
def test_perfect_tables_equal_the_oracle(spark, name):
    one, digits = handful()[name]
    nodes = spark.createDataFrame(one.node_table()).repartition(3)
    shape = one.case.b, one.case.leaf_set_size
    overlay = PastryOverlay.perfect(nodes, worlds.underlay(spark), *shape, digits=digits)
    found = overlay.knowledge.toArrow().sort_by("node").to_pylist()
    check_knowledge(one, found)
    assert found == rows_of(one.knowledge)
    overlay.release()


@pytest.mark.parametrize("buckets", [2, 7])
def test_buckets_hold_the_tables_of_the_ring_in_parts(buckets):
    for one in worlds.worlds()[::3]:
        bounds = bucket_bounds(one.ring, buckets, one.case.b)
        ((whole,), parts) = (one.make_tables(np.array([0, len(one.ring)])), one.make_tables(bounds))
        assert np.array_equal(
            np.concatenate([part[LEAVES]["leaves"] for part in parts]), whole[LEAVES]["leaves"]
        )
        for first, part in zip(bounds[:-1], parts, strict=True):
            mine = part[CELLS]["cells"]
            rows = mine.shape[1]
            cells = whole[CELLS]["cells"][first : first + len(mine)]
            assert np.array_equal(mine, cells[:, :rows])
            assert (cells[:, rows:] < 0).all()
