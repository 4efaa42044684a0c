"""Hops and delays down trees of any depth: `multicast.Multicast.of_tree`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from scribe_spark.multicast import _down_tree

#: Parent, child and delay of each edge; the source is 0 -> (hops, delay) of each node reached.
TREES = {
    "no edge": ([], {}),
    "one edge": ([(0, 9, 5)], {9: (1, 5)}),
    "a chain": ([(3, 4, 1), (0, 2, 10), (2, 3, 100)], {2: (1, 10), 3: (2, 110), 4: (3, 111)}),
    "two branches": ([(0, 1, 1), (0, 2, 2), (2, 7, 3)], {1: (1, 1), 2: (1, 2), 7: (2, 5)}),
    "not joined to the source": ([(0, 1, 1), (5, 6, 1), (6, 7, 1)], {1: (1, 1)}),
    "a cycle": ([(0, 1, 1), (5, 6, 1), (6, 5, 1), (5, 8, 1)], {1: (1, 1)}),
}


def reached(edges: list[tuple[int, int, int]], source: int = 0) -> dict[int, tuple[int, int]]:
    parent, child, delay = np.array(edges, dtype=np.int64).reshape(-1, 3).T
    same = np.zeros(len(child), dtype=np.int64)
    columns = {"group": same + 4, "parent": parent, "child": child, "delay_us": delay}
    found = _down_tree(pa.table(columns | {"source": same + source})).to_pydict()
    assert set(found["group"]) <= {4}
    values = zip(found["hops"], found["delay_us"], strict=True)
    return dict(zip(found["node"], values, strict=True))


@pytest.mark.parametrize("name", TREES)
def test_hops_and_delays_are_summed_from_the_source(name):
    edges, expected = TREES[name]
    assert reached(edges) == expected


@pytest.mark.parametrize("seed", range(20))
def test_any_tree_in_any_order(seed):
    draw = np.random.default_rng(seed)
    nodes = draw.permutation(200)[:60].tolist()
    expected, edges = {nodes[0]: (0, 0)}, []
    for place, child in enumerate(nodes[1:], 1):
        above = nodes[draw.integers(max(0, place - 3), place)]  # long ways
        delay = int(draw.integers(1, 1000))
        edges.append((above, child, delay))
        hops, before = expected[above]
        expected[child] = (hops + 1, before + delay)
    del expected[nodes[0]]
    draw.shuffle(edges)
    assert reached(edges, nodes[0]) == expected
