"""Routing tables, leaf sets and gaps: the kernels, a case at a time, against the oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import worlds
from oracle.pastry import RING, closest, digits
from oracle.random_cases import random_case

from scribe_spark.pastry import build_state, routing_table, tables

GAPS_LOOKED_AT = 3  # per node; there are thousands with b = 8


def check_state(one: worlds.World, state: pa.Table) -> int:
    """Compare every column of the state with the oracle; how many gaps were looked at."""
    rows = state.to_pylist()
    assert sorted(row["node"] for row in rows) == [one.base + node for node in sorted(one.case.ids)]
    return sum(check_row(one, row) for row in rows)


def check_row(one: worlds.World, row: dict) -> int:
    case, overlay, base = one.case, one.overlay, one.base
    node = row["node"] - base
    assert worlds.whole(row["id_hi"], row["id_lo"]) == case.ids[node]
    assert row["router"] - base == case.router[node]
    check_leaves(one, node, row)
    # the table: every entry, nothing after the last row with one, NULL under the own digits
    expected = overlay.routing_table(node)
    width, own = 2**case.b, digits(case.ids[node], case.b)
    depth = 1 + max((r for r, _ in expected), default=-1)
    cells = {divmod(cell, width): entry for cell, entry in enumerate(row["table"])}
    assert len(cells) == depth * width
    entries = {at: e - base for at, e in cells.items() if e is not None and e >= 0}
    assert entries == expected
    assert {at for at, e in cells.items() if e is None} == {(r, own[r]) for r in range(depth)}
    missing = {at: row["gaps"][-1 - e] for at, e in cells.items() if e is not None and e < 0}
    rng = random.Random(node)
    looked_at = rng.sample(sorted(missing), min(GAPS_LOOKED_AT, len(missing)))
    return sum(check_gap(one, node, at, missing[at]) for at in looked_at)


def check_leaves(one: worlds.World, node: int, row: dict) -> None:
    case, overlay, base = one.case, one.overlay, one.base
    assert row["whole"] == overlay.knows_whole_ring()
    known = overlay.leaf_set(node) | {node}
    arcs = [(worlds.flipped(a["u_hi"], a["u_lo"]), a["node"] - base) for a in row["leaf"]]
    assert sorted(leaf for _, leaf in arcs) == sorted(known)
    # each leaf has the last key that it is closest to, in the order of these keys
    assert arcs == sorted(arcs)
    near = [case.ids[leaf] for leaf in known]
    following = [*arcs[1:], arcs[0]]
    for (last, leaf), (_, after) in zip(arcs, following, strict=True):
        assert overlay.node_of[closest(near, last)] == leaf
        assert overlay.node_of[closest(near, (last + 1) % RING)] == after
    if not row["whole"]:
        half = case.leaf_set_size // 2
        clockwise = overlay._others_clockwise(node)
        ends = [worlds.whole(row[f"{end}_hi"], row[f"{end}_lo"]) for end in ("low", "high")]
        assert ends == [case.ids[clockwise[-half]], case.ids[clockwise[half - 1]]]


def check_gap(one: worlds.World, node: int, at: tuple[int, int], gap: dict) -> int:
    """Keys of a gap, outside the leaf set's span, go to the node of the fourth rule."""
    case, overlay = one.case, one.overlay
    shift = 128 - case.b * (at[0] + 1)
    prefix = (case.ids[node] >> shift + case.b << case.b | at[1]) << shift
    first, last = prefix, prefix + 2**shift - 1
    split = worlds.flipped(gap["u_hi"], gap["u_lo"])
    keys = {first, last, (first + last) // 2, split, split + 1}
    outside = [k for k in keys if first <= k <= last and not overlay.in_leaf_span(node, k)]
    for key in outside:
        side = gap["below"] if key <= split else gap["above"]
        assert side - one.base == overlay._closer_node(node, key)
    return len(outside)


def test_state_equals_the_oracle():
    gaps = sum(check_state(one, one.state) for one in worlds.worlds())
    assert gaps > 20_000


def test_classes_solved_router_by_router_give_the_same_state(monkeypatch):
    expected = [one.state for one in worlds.worlds()]
    monkeypatch.setattr(worlds.Kernel, "small", 1)
    for one, state in zip(worlds.worlds(), expected, strict=True):
        assert one.make_state().equals(state)


def test_both_ways_to_fill_a_table_agree_on_many_classes(monkeypatch):
    """More pairs in a row than are taken at once."""
    monkeypatch.setattr(tables, "_PAIRS", 1000)
    rng = np.random.default_rng(1)
    n, routers = 20_000, 7
    delay_us = 1000 * rng.integers(1, 4, (routers, routers), dtype=np.int32)
    kernel = worlds.Kernel(delay_us, delay_us, np.arange(routers))
    hi, lo = rng.integers(0, 2**62, (2, n))  # all in the bucket of digit 0
    ring = tables.Ring.sorted(hi, lo, np.arange(n), rng.integers(0, routers, n))
    alone = [tables.Bucket(0, n, ring.take(slice(2)), ring.take(np.zeros(routers, dtype=int)))]
    eight_digits = np.unique(ring.hi >> np.uint64(48), return_counts=True)[1]
    assert (eight_digits > 1).sum() > 4096
    small, _ = tables._tables(ring, 0, alone, kernel, 2)
    monkeypatch.setattr(worlds.Kernel, "small", 0)
    assert np.array_equal(small, tables._tables(ring, 0, alone, kernel, 2)[0])


@pytest.mark.parametrize("b", worlds.BS)
def test_routing_table_frame(spark, b):
    overlay = worlds.overlay(spark, b)
    frame = routing_table(overlay.state, b)
    assert frame.dtypes == [("node", "bigint"), ("row", "int"), ("col", "int"), ("entry", "bigint")]
    found = worlds.by_seed(map(tuple, frame.collect()), 0, 3)
    for one in worlds.of_b(b):
        expected = sorted(
            (node, row, col, entry)
            for node in one.case.ids
            for (row, col), entry in one.overlay.routing_table(node).items()
        )
        assert found[one.case.seed] == expected


# --- build_state through Spark --------------------------------------------------------------------


def handful() -> dict[str, worlds.World]:
    """A few cases at the edges."""

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
        "one node": with_ids(spread[:1], 4, 16),
        "two nodes": with_ids(spread[:2], 4, 2),
        "three nodes": with_ids(spread[:3], 1, 2),
        "l is larger than N": with_ids(spread[:10], 2, 16),
        "one bucket": with_ids(crowded, 4, 8),
        "b = 8": with_ids(spread, 8, 4),
    }


@pytest.mark.parametrize("name", handful())
def test_build_state_equals_the_oracle(spark, name):
    one = handful()[name]
    nodes = spark.createDataFrame(one.node_table()).repartition(3)
    state = build_state(nodes, worlds.underlay(spark), one.case.b, one.case.leaf_set_size)
    found = state.toArrow()
    check_state(one, found)
    assert found.sort_by("node").to_pylist() == one.state.sort_by("node").to_pylist()
