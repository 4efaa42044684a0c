"""Where the routes of two members meet, against a walk up the tree."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest

from scribe_spark.measures.convergence import member_pairs

MEMBERS = ("group", "node")
EDGES = ("group", "parent", "child", "parent_router", "child_router", "delay_us")


def table(rows: list[tuple], names: tuple[str, ...]) -> pa.Table:
    columns = np.array(rows, dtype=np.int64).reshape(-1, len(names)).T
    return pa.table(dict(zip(names, columns, strict=True)))


def paired(members: pa.Table, edges: pa.Table, seed: int) -> list[tuple[int, int, int]]:
    delays = edges.column("delay_us").to_numpy()
    found = member_pairs(members, edges.drop_columns("delay_us"), delays, seed)
    return list(zip(*(column.tolist() for column in found), strict=True))


def random_tree(group: int, rng: random.Random) -> tuple[list[tuple], dict]:
    """Edges of a tree of some nodes; node -> (parent, delay)."""
    nodes = rng.sample(range(100), rng.randint(1, 12))
    edges, up = [], {nodes[0]: None}
    for place, node in enumerate(nodes[1:], 1):
        parent, delay = rng.choice(nodes[:place]), rng.randint(1, 50)
        up[node] = parent, delay
        edges.append((group, parent, node, 1000 + parent, 1000 + node, delay))
    return edges, up


def travelled(up: dict, a: int, b: int) -> int:
    """By both, to the first node that is on both ways to the root."""

    def way(node: int) -> dict[int, int]:
        far, there = 0, {node: 0}
        while up[node] is not None:
            node, delay = up[node]
            far += delay
            there[node] = far
        return there

    one, other = way(a), way(b)
    meeting = next(node for node in one if node in other)
    return one[meeting] + other[meeting]


@pytest.fixture(scope="module")
def case():
    rng = random.Random(7)
    edges, members, ups = [], [], {}
    for group in range(40):
        # node numbers, and so routers, of a group are its own: pairs tell their group
        some, up = random_tree(group, rng)
        shift = 200 * group
        up = {
            node + shift: None if above is None else (above[0] + shift, above[1])
            for node, above in up.items()
        }
        edges += [
            (g, p + shift, c + shift, pr + shift, cr + shift, d) for g, p, c, pr, cr, d in some
        ]
        chosen = [node for node in up if rng.random() < 0.7]
        if len(up) > 1:
            members += [(group, node) for node in chosen]
        ups[group] = up
    return table(members, MEMBERS), table(edges, EDGES), ups


def test_pairs_meet_where_their_ways_to_the_root_do(case):
    members, edges, ups = case
    pairs = paired(members, edges, seed=1)
    of = defaultdict(list)
    for row in members.to_pylist():
        of[row["group"]].append(row["node"])
    found = defaultdict(list)
    for a_router, b_router, travelled_us in pairs:
        a, b = a_router - 1000, b_router - 1000
        group = a // 200
        assert travelled_us == travelled(ups[group], a, b)
        found[group] += [a, b]
    for group, nodes in of.items():
        assert len(found[group]) == len(nodes) // 2 * 2
        assert len(set(found[group])) == len(found[group])
        assert set(found[group]) <= set(nodes)
    assert sum(map(len, found.values())) > 100


def test_pairs_depend_on_the_seed_only(case):
    members, edges, _ = case
    once, again, other = (
        sorted(paired(members.take(order.permutation(len(members))), edges, seed))
        for order, seed in ((np.random.default_rng(n), s) for n, s in ((3, 1), (5, 1), (3, 2)))
    )
    assert once == again
    assert once != other


def test_no_pairs_without_members(case):
    _, edges, _ = case
    assert paired(table([], MEMBERS), edges, 1) == []
    assert paired(table([(1, 2)], MEMBERS), table([], EDGES), 1) == []


def test_members_that_are_not_in_the_tree_are_left_out(case):
    """Of a run with rounds, whose messages need not come to all."""
    members, edges, *_ = case
    others = table([(group, 10**6 + node) for group in range(40) for node in range(3)], MEMBERS)
    both = pa.concat_tables([members, others])
    nobody = edges.slice(0, 0)
    assert paired(both, edges, 3) == paired(members, edges, 3) != []
    assert paired(both, nobody, 3) == []
