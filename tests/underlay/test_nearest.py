"""The nearest of a set of routers, against a plain search; numpy only."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import worlds

from scribe_spark.underlay import matrices as module
from scribe_spark.underlay.dijkstra import LinkArrays
from scribe_spark.underlay.matrices import nearest
from scribe_spark.underlay.pendant import pendant_components, pendant_exits


def test_nearest_is_the_first_of_the_least(monkeypatch):
    monkeypatch.setattr(module, "_PAIRS", 16)
    inside = outside = 0
    for one in worlds.worlds():
        case, rng = one.case, random.Random(one.case.seed)
        delay_us = worlds.route_matrices(case)[0]
        routers = np.array(case.routers)
        links = LinkArrays.of(routers, worlds.link_frame(case), "delay", 1)
        components = pendant_components(links)
        component = pendant_exits(len(routers), components)[0]
        candidates = rng.choices(case.routers, k=12)
        starts = sorted({0, *rng.sample(range(12), 3)})
        for exits in (components, []):
            found = nearest(
                *(delay_us, pendant_exits(len(routers), exits)),
                *(routers, np.array(candidates), np.array(starts)),
            )
            for query in case.routers:
                for k, (start, end) in enumerate(pairwise([*starts, 12])):
                    best = min(
                        range(start, end), key=lambda at: (delay_us[query, candidates[at]], at)
                    )
                    assert found[query, k] == best
                    same = component[query] == component[candidates[best]] != -1
                    inside, outside = inside + same, outside + (component[query] >= 0 and not same)
    assert inside > 100
    assert outside > 100


def test_nearest_in_many_blocks_of_queries():
    rng = np.random.default_rng(2)
    delay_us = rng.integers(0, 50, (40, 40), dtype=np.int32)
    queries, candidates = rng.integers(0, 40, 300), rng.integers(0, 40, 2**18 // 8)
    starts = np.array([0, 1000])
    found = nearest(delay_us, pendant_exits(40, []), queries, candidates, starts)
    seen = delay_us[queries][:, candidates]
    assert np.array_equal(found[:, 0], seen[:, :1000].argmin(axis=1))
    assert np.array_equal(found[:, 1], 1000 + seen[:, 1000:].argmin(axis=1))


def test_the_nearest_router_may_be_beyond_a_slow_way_inside():
    """Routes go by weight: those inside a stub may take longer than those that leave the stub."""
    # 0 is in the core, 1 to 3 are a stub behind its gateway 1, 4 is in the core
    delay_us = np.array(
        [[0, 1, 2, 2, 5], [1, 0, 1, 1, 6], [2, 1, 0, 99, 7], [2, 1, 99, 0, 7], [5, 6, 7, 7, 0]],
        np.int32,
    )
    exits = np.array([[-1, 0, 0, 0, -1], [0, 0, 0, 0, 4]], np.int32)
    candidates = np.array([3, 4])
    found = nearest(delay_us, exits, np.arange(5), candidates, np.array([0]))
    assert candidates[found[:, 0]].tolist() == [3, 3, 4, 3, 4]
