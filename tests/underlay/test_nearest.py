"""The nearest of a set of routers, against a plain search; numpy only."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import worlds

from scribe_spark.underlay.nearest import nearest


def test_nearest_is_the_first_of_the_least():
    for one in worlds.worlds():
        rng = random.Random(one.case.seed)
        delay_us = worlds.route_matrices(one.case)[0]
        candidates = rng.choices(one.case.routers, k=12)
        starts = sorted({0, *rng.sample(range(12), 3)})
        found = nearest(
            delay_us, np.array(one.case.routers), np.array(candidates), np.array(starts)
        )
        for query in one.case.routers:
            for k, (start, end) in enumerate(pairwise([*starts, 12])):
                best = min(range(start, end), key=lambda at: (delay_us[query, candidates[at]], at))
                assert found[query, k] == best


def test_nearest_in_many_blocks_of_queries():
    rng = np.random.default_rng(2)
    delay_us = rng.integers(0, 50, (40, 40), dtype=np.int32)
    queries, candidates = rng.integers(0, 40, 300), rng.integers(0, 40, 2**18 // 64)
    starts = np.array([0, 1000])
    found = nearest(delay_us, queries, candidates, starts)
    seen = delay_us[queries][:, candidates]
    assert np.array_equal(found[:, 0], seen[:, :1000].argmin(axis=1))
    assert np.array_equal(found[:, 1], 1000 + seen[:, 1000:].argmin(axis=1))
