"""The underlay's bulk questions, through Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import worlds
from oracle.random_cases import random_case

from scribe_spark.underlay.matrices import MatrixUnderlay, compute_routes


def test_matrices_are_those_of_the_routes(spark):
    one = worlds.worlds()[2]
    ids, links = np.array(one.case.routers), worlds.link_frame(one.case)
    routes = compute_routes(spark, ids, links, "delay", 1)
    underlay = MatrixUnderlay.of(spark, routes, len(links), 500)
    delay_us, pred, routers = underlay.kernel.open()
    assert (underlay.links, underlay.lan_us) == (len(links), 500)
    assert np.array_equal(delay_us, one.kernel.delay_us)
    assert np.array_equal(pred, one.kernel.pred)
    assert routers.tolist() == underlay.routers.tolist() == list(one.case.routers)


def test_one_router_no_link(spark):
    case = replace(random_case(0), routers=(0,), links={})
    routes = compute_routes(spark, np.array([4]), worlds.link_frame(case), "delay", 1)
    underlay = MatrixUnderlay.of(spark, routes, 0, 1000)
    both = spark.createDataFrame([(4, 4)], "a bigint, b bigint")
    assert underlay.delay(both, "a", "b").first()["delay_us"] == 2000
    here, three = np.array([0]), np.array([3])
    assert [len(part) for part in underlay.kernel.link_packets(here, here, three)] == [0] * 3
    assert [len(part) for part in underlay.kernel.merged_packets(three, here, here)] == [0] * 3


def test_delay_between_all_routers_of_every_case(spark):
    rows = [
        (one.base + a, one.base + b, one.routes.delay[a][b] + 2 * worlds.LAN_US)
        for one in worlds.worlds()
        for a, b in product(one.case.routers, repeat=2)
    ]
    frame = spark.createDataFrame(rows, "a bigint, b bigint, expected bigint").repartition(3)
    timed = worlds.underlay(spark).delay(frame, "a", "b", "d")
    assert timed.columns == ["a", "b", "expected", "d"]
    assert timed.where("d = expected").count() == len(rows)


def test_no_hop_takes_no_time(spark):
    frame = spark.createDataFrame(
        [(1, 0, None), (2, None, 0), (3, None, None)], "n int, a bigint, b bigint"
    )
    assert {r["delay_us"] for r in worlds.underlay(spark).delay(frame, "a", "b").collect()} == {0}


def test_packets_add_up_over_routes_and_merge_within_trees(spark):
    adds, merges, expected = [], [], {"adds": Counter(), "merges": Counter()}
    for one in worlds.worlds()[:80]:
        rng = np.random.default_rng(one.case.seed)
        routers = len(one.case.routers)
        for a, b, packets in rng.integers(0, [routers, routers, 9], (10, 3)).tolist():
            adds.append((one.base + a, one.base + b, packets + 1))
            for s, d in one.routes.path_links(a, b):
                expected["adds"][one.base + s, one.base + d] += packets + 1
        for tree in range(3):
            source, *targets = rng.integers(0, routers, 5).tolist()
            # a user's numbers of groups may be beyond 2**53
            name = 2**60 + one.base + tree
            merges += [(name, one.base + source, one.base + t) for t in targets]
            merged = {link for t in targets for link in one.routes.path_links(source, t)}
            for s, d in merged:
                expected["merges"][one.base + s, one.base + d] += 1
    kernel = worlds.underlay(spark).kernel
    a, b, packets = np.array(adds, dtype=np.int64).T
    assert counted(kernel, *kernel.link_packets(kernel.index(a), kernel.index(b), packets)) == dict(
        expected["adds"]
    )
    tree, a, b = np.array(merges, dtype=np.int64).T
    found = counted(kernel, *kernel.merged_packets(tree, kernel.index(a), kernel.index(b)))
    assert found == dict(expected["merges"])
    assert max(found.values()) > 1


def counted(kernel, src: np.ndarray, dst: np.ndarray, packets: np.ndarray) -> dict:
    links = zip(kernel.ids(src).tolist(), kernel.ids(dst).tolist(), strict=True)
    return dict(zip(links, packets.tolist(), strict=True))


def test_losses_of_routes_are_handed_out(spark):
    one = worlds.worlds()[2]
    ids, links = np.array(one.case.routers), worlds.link_frame(one.case)
    routes = compute_routes(spark, ids, links, "delay", 1)
    loss = np.random.default_rng(1).random((len(ids), len(ids)))
    underlay = MatrixUnderlay.of(spark, routes, len(links), 500, loss)
    a = np.arange(len(ids))
    b = a[::-1]
    assert np.array_equal(underlay.kernel.losses(a, b), loss[a, b])
    underlay.release()
    assert MatrixUnderlay.of(spark, routes, len(links), 500).kernel.losses(a, b) is None
