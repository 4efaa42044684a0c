"""Routes, their links, nearest routers and pendant components, against the oracle; numpy only."""

import random
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import worlds

from scribe_spark.core.errors import InputError
from scribe_spark.underlay import matrices as module
from scribe_spark.underlay.dijkstra import TOO_LONG, LinkArrays, bounded_delay, route_block
from scribe_spark.underlay.matrices import bridges, nearest, pendant_components, pendant_exits


def path(pred: np.ndarray, source: int, target: int) -> list[int]:
    back = [target]
    while back[-1] != source:
        back.append(int(pred[source, back[-1]]))
        assert len(back) <= len(pred)
    return back[::-1]


def test_delay_and_predecessor_equal_the_oracle():
    assert len(worlds.worlds()) >= 200
    for one in worlds.worlds():
        delay_us, pred = worlds.route_matrices(one.case)
        for s in one.case.routers:
            assert dict(enumerate(delay_us[s])) == one.routes.delay[s]
            before = {v: None if p < 0 else p for v, p in enumerate(pred[s])}
            assert before == one.routes.pred[s], one.case.seed


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_the_seeded_tie_chooses_paths_of_least_weight(every):
    other = 0
    for one in worlds.worlds()[::every]:
        case = one.case
        delay_us, pred = worlds.route_matrices(case, "seeded", 1)
        for s in case.routers:
            for v in case.routers:
                links = list(pairwise(path(pred, s, v)))
                assert sum(case.links[link][0] for link in links) == one.routes.weight[s][v]
                assert sum(case.links[link][1] for link in links) == delay_us[s, v]
        assert np.array_equal(pred, worlds.route_matrices(case, "seeded", 1)[1])
        other += not np.array_equal(pred, worlds.route_matrices(case, "seeded", 2)[1])
    assert other > 50 / every  # another seed breaks ties another way


def test_weights_and_delays_of_any_scale_give_the_same_routes():
    """Only proportions of weights matter, and delays down to a microsecond."""
    for one in worlds.worlds()[:100]:
        links = worlds.link_frame(one.case)
        routers = np.array(one.case.routers)
        scaled = links.assign(weight=links["weight"] * 0.25, delay_ms=links["delay_ms"] * 0.001)
        delay_us, pred = route_block(LinkArrays.of(routers, scaled, "delay", 1), routers)
        expected_delay, expected_pred = worlds.route_matrices(one.case)
        assert np.array_equal(delay_us * 1000, expected_delay)
        assert np.array_equal(pred, expected_pred)


def test_weights_too_far_apart_are_refused():
    ends = {"src": [0, 1, 1, 2], "dst": [1, 0, 2, 1]}
    links = pd.DataFrame({**ends, "delay_ms": 1.001, "weight": [1e10, 1e10, 1e-6, 1e-6]})
    with pytest.raises(InputError, match="weight"):
        LinkArrays.of(np.arange(3), links, "delay", 1)


def test_a_route_of_more_than_half_an_hour_is_exact_here_and_too_long_for_the_matrices():
    links = pd.DataFrame({"src": [0, 1], "dst": [1, 0], "delay_ms": 2_147_484.0, "weight": 1.0})
    arrays = LinkArrays.of(np.arange(2), links, "delay", 1)
    delay_us, _ = route_block(arrays, np.arange(2))
    assert delay_us.tolist() == [[0, 2_147_484_000], [2_147_484_000, 0]]
    assert bounded_delay(delay_us).tolist() == [[0, TOO_LONG], [TOO_LONG, 0]]


# --- the nearest of a set of routers --------------------------------------------------------------


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


# --- pendant components, their routes and bridges -------------------------------------------------


def reached(start: int, links, without: tuple[int, int]) -> set[int]:
    """The routers to which links lead when one undirected link is taken away."""
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for src, dst in links:
            if src == here and dst not in seen and {src, dst} != set(without):
                seen.add(dst)
                todo.append(dst)
    return seen


def bridges_of(links) -> list[tuple[int, int]]:
    return [(a, b) for a, b in links if b not in reached(a, links, (a, b))]


def test_bridges_are_the_links_that_hold_the_network_together():
    seen = 0
    for one in worlds.worlds():
        arrays = LinkArrays.of(np.array(one.case.routers), worlds.link_frame(one.case), "delay", 1)
        links = list(zip(arrays.src.tolist(), arrays.dst.tolist(), strict=True))
        marked = bridges(len(arrays.routers), arrays.src, arrays.dst).tolist()
        assert [link for link, is_one in zip(links, marked, strict=True) if is_one] == bridges_of(
            links
        )
        seen += len(links) - sum(marked)
    assert seen > 200
