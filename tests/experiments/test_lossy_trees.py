"""Trees of a run whose network loses packets, beside a walk down the tree."""

import random

import numpy as np
import pyarrow as pa
import pytest
from living_groups import LossyKernel
from withholding import Named

from scribe_spark.core import draws
from scribe_spark.experiments.publishing import _fates


@pytest.mark.parametrize("seed", range(40))
def test_copies_go_down_to_the_first_loss(seed: int) -> None:
    rng = random.Random(f"lossy tree {seed}")
    nodes, group = rng.sample(range(200), rng.randint(2, 60)), rng.randrange(9)
    routers = np.arange(5) + 10
    share = np.array([[rng.choice((0, 0, 0.3, 1)) for _ in routers] for _ in routers])
    silent = set(rng.sample(nodes, len(nodes) // 5 * (seed % 2)))
    kernel = LossyKernel(np.zeros((5, 5)), routers, share, withheld=Named.of(silent))
    source = rng.choice(nodes)
    at = {node: rng.choice(routers.tolist()) for node in nodes}
    above = {node: nodes[rng.randrange(place)] for place, node in enumerate(nodes) if place}

    def arrives(parent: int, child: int) -> bool:
        bits = int(draws.bits_np(seed, "loss", group, 0, parent, child))
        return bits >= share[at[parent] - 10, at[child] - 10] * 2**64

    expected, has = {}, {nodes[0]}  # child -> (sent, arrives)
    for node in nodes[1:]:  # parents come before children
        sends = above[node] in has and above[node] not in silent - {source}
        expected[node] = sends, sends and arrives(above[node], node)
        has |= {node} if expected[node][1] else set()
    rows = list(above.items())
    rng.shuffle(rows)
    columns = {
        "group": [group] * len(rows),
        "parent": [parent for _, parent in rows],
        "child": [child for child, _ in rows],
        "parent_router": [at[parent] for _, parent in rows],
        "child_router": [at[child] for child, _ in rows],
    }
    sources = [np.array([group]), np.array([source])]
    found = _fates(kernel, seed, sources, pa.table(columns)).to_pydict()
    flags = zip(found["sent"], found["arrives"], strict=True)
    assert dict(zip(found["child"], flags, strict=True)) == expected
