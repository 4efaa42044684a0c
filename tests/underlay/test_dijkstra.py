"""Routes from blocks of sources, against the oracle; numpy only."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import worlds
from oracle.random_cases import random_case

from scribe_spark.errors import InputError
from scribe_spark.underlay import dijkstra as routes
from scribe_spark.underlay.dijkstra import TOO_LONG, LinkArrays, bounded_delay, route_block


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


def test_routes_of_some_sources_are_rows_of_those_of_all():
    for one in worlds.worlds():
        case = one.case
        arrays = LinkArrays.of(np.array(case.routers), worlds.link_frame(case), "delay", 1)
        some = np.array(random.Random(case.seed).sample(case.routers, len(case.routers) // 2 + 1))
        for part, everything in zip(
            route_block(arrays, some), worlds.route_matrices(case), strict=True
        ):
            assert np.array_equal(part, everything[some])


def test_order_of_links_and_names_of_routers_do_not_matter():
    for one in worlds.worlds()[:60]:
        case = one.case
        ids = np.array([17 + 5 * r for r in case.routers])
        links = worlds.link_frame(case).sample(frac=1, random_state=case.seed)
        links = links.assign(src=17 + 5 * links["src"], dst=17 + 5 * links["dst"])
        arrays = LinkArrays.of(ids[::-1], links, "delay", 1)
        assert np.array_equal(arrays.routers, ids)
        renamed = route_block(arrays, np.arange(len(ids)))
        assert all(
            np.array_equal(*pair) for pair in zip(renamed, worlds.route_matrices(case), strict=True)
        )


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


def test_one_router_and_no_link():
    case = replace(random_case(0), routers=(0,), links={})
    delay_us, pred = worlds.route_matrices(case)
    assert delay_us.tolist() == [[0]]
    assert pred.tolist() == [[-1]]


def test_whole_weights_are_the_smallest_in_proportion():
    assert routes._whole_numbers(np.array([0.5, 1.5, 2.0])).tolist() == [1, 3, 4]
    assert routes._whole_numbers(np.array([7.0, 7.0])).tolist() == [1, 1]
