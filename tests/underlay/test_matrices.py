"""The underlay's bulk questions, through Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import worlds
from oracle.random_cases import random_case

from scribe_spark.underlay.all_pairs import compute_routes
from scribe_spark.underlay.matrices import MatrixUnderlay


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
    none = spark.createDataFrame([("s", 4, 4, 3, None)], PACKETS)
    assert underlay.packets(none).collect() == []


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


def test_path_delay_adds_up_the_hops_of_every_path(spark):
    rows, expected = [], {}
    for one in worlds.worlds():
        rng = np.random.default_rng(one.case.seed)
        for length in (1, 2, 2, 5):
            path = rng.integers(0, len(one.case.routers), length).tolist()
            delay = one.routes.delay
            hops = [delay[a][b] + 2000 for a, b in pairwise(path)]
            direct = delay[path[0]][path[-1]] + 2000 if hops else 0
            expected[len(rows)] = (len(hops), sum(hops), direct)
            rows.append((len(rows), [one.base + router for router in path], "kept"))
    schema = "number bigint, path array<bigint>, other string"
    frame = spark.createDataFrame(rows, schema).repartition(3)
    timed = worlds.underlay(spark).path_delay(frame, "path")
    assert timed.columns == ["number", "other", "hops", "delay_us", "direct_us"]
    found = {number: tuple(rest) for number, other, *rest in timed.collect()}
    assert found == expected


PACKETS = "system string, src bigint, dst bigint, packets bigint, tree bigint"


def test_packets_add_up_over_routes_and_merge_within_trees(spark):
    rows, expected = [], Counter()
    for one in worlds.worlds()[:80]:
        rng = np.random.default_rng(one.case.seed)
        routers = len(one.case.routers)
        for a, b, packets in rng.integers(0, [routers, routers, 9], (10, 3)).tolist():
            rows.append(("adds", one.base + a, one.base + b, packets + 1, None))
            for s, d in one.routes.path_links(a, b):
                expected["adds", one.base + s, one.base + d] += packets + 1
        for tree in range(3):
            source, *targets = rng.integers(0, routers, 5).tolist()
            name = one.base + tree
            rows += [("merges", one.base + source, one.base + t, 1, name) for t in targets]
            merged = {link for t in targets for link in one.routes.path_links(source, t)}
            for s, d in merged:
                expected["merges", one.base + s, one.base + d] += 1
    frame = spark.createDataFrame(rows, PACKETS).repartition(4)
    counted = worlds.underlay(spark).packets(frame)
    assert counted.columns == ["system", "src", "dst", "packets"]
    found = {tuple(at): packets for *at, packets in counted.collect()}
    assert found == dict(expected)


def test_trees_of_large_names_are_kept_apart(spark):
    """Groups are a user's numbers: beyond 2**53 a float would take two for one."""
    one = next(w for w in worlds.worlds() if len(w.routes.path_links(0, w.case.routers[-1])) > 0)
    ends = one.base, one.base + one.case.routers[-1]
    rows = [("merges", *ends, 1, 2**60 + n) for n in range(20)]  # some in every partition
    rows += [("adds", *(one.base + r for r in pair), 1, None) for pair in everywhere(one)]
    counted = worlds.underlay(spark).packets(spark.createDataFrame(rows, PACKETS))
    found = {
        (src, dst): packets for system, src, dst, packets in counted.collect() if system[0] == "m"
    }
    links = one.routes.path_links(0, ends[1] - ends[0])
    assert found == {(one.base + s, one.base + d): 20 for s, d in links}


def everywhere(one: worlds.World) -> list[tuple[int, int]]:
    return [(a, b) for a in one.case.routers for b in one.case.routers if a != b]
