"""Searches by hops, against plain Python and against the underlay that looks routes up."""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import worlds

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments import stages
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.topology.kinds import power_law
from scribe_spark.underlay import hops, protocol
from scribe_spark.underlay.hops import HopGraph, HopKernel, HopUnderlay
from scribe_spark.underlay.matrices import MatrixUnderlay, compute_routes

LAN_US = 700


@pytest.fixture(scope="module")
def both(spark):
    """A graph with routers 7, 10, 13, ..., under both."""
    graph = power_law(150, 210, 2)
    routers = graph.vertices["id"].to_numpy() * 3 + 7
    links = graph.edges.assign(delay_ms=2.5, **{e: graph.edges[e] * 3 + 7 for e in ("src", "dst")})
    routes = compute_routes(spark, routers, links, "delay", 1)
    return (
        HopUnderlay.of(spark, routers, links, LAN_US),
        MatrixUnderlay.of(spark, routes, len(links), LAN_US),
    )


def drawn_routers(underlay, size: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).choice(underlay.routers, size).tolist()


def rows(frame) -> list[tuple]:
    return sorted(map(tuple, frame.collect()), key=repr)


def test_delay(spark, both):
    ends = zip(drawn_routers(both[0], 400, 1), drawn_routers(both[0], 400, 2), strict=True)
    given = [(n, a if n % 9 else None, b if n % 7 else None) for n, (a, b) in enumerate(ends)]
    frame = spark.createDataFrame(given, "n int, a bigint, b bigint").repartition(3)
    ours, theirs = (one.delay(frame, "a", "b", "d") for one in both)
    assert ours.columns == ["n", "a", "b", "d"]
    assert rows(ours) == rows(theirs)


def test_packets_on_links(both):
    """Of routes, and of the merged routes of trees, against ways along predecessors."""
    drawn = [both[0].kernel.index(np.array(drawn_routers(both[0], 900, seed))) for seed in (3, 4)]
    tree = np.random.default_rng(7).integers(0, 40, 900) * 5
    a, b, packets = drawn[0][tree], drawn[1], tree % 4 + 1  # a source a tree, some the same
    _, pred, _ = both[1].kernel.open()
    expected, merged = Counter(), defaultdict(set)
    for of, source, here, number in zip(*(c.tolist() for c in (tree, a, b, packets)), strict=True):
        while here != source:
            before = int(pred[source, here])
            expected[before, here] += number
            merged[before, here].add(of)
            here = before
    assert max(map(len, merged.values())) > 5
    for kernel in (one.kernel for one in both):
        for ask, given, wanted in (
            (kernel.link_packets, (a, b, packets), expected),
            (kernel.merged_packets, (tree, a, b), {k: len(v) for k, v in merged.items()}),
        ):
            sender, receiver, found = ask(*given)
            assert dict(zip(zip(sender, receiver, strict=True), found, strict=True)) == wanted
            assert [len(part) for part in ask(*(one[:0] for one in given))] == [0] * 3


def alike(one: worlds.World) -> worlds.World:
    """A case with links that are all alike."""
    return worlds.world(replace(one.case, links=dict.fromkeys(one.case.links, (1, 3000))))


@pytest.mark.parametrize("every", [6, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("limit", [1, 1024])
def test_routing_state_is_the_same(monkeypatch, limit, every):
    arrays: dict[str, np.ndarray] = {}
    for module in (hops, protocol):
        monkeypatch.setattr(module, "open_array", arrays.__getitem__)
    monkeypatch.setattr(HopKernel, "all_pairs_limit", limit)
    for one in map(alike, worlds.worlds()[::every]):
        expected = one.knowledge
        name = f"{limit} {one.base}"
        arrays[f"routers {name}"] = one.kernel.routers
        ends = list(one.case.links)
        arrays[f"links {name}"] = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        one.__dict__["kernel"] = HopKernel(f"routers {name}", f"links {name}", 3000)
        for computed in ("knowledge", "ring"):
            del one.__dict__[computed]
        assert one.knowledge.equals(expected)


def test_a_network_that_neither_can_is_refused(spark, monkeypatch):
    config = RunConfig(nodes=10, groups=1, transit_domains=1, transit_size=2, stub_size=3)
    monkeypatch.setattr(stages, "MOST_ROUTERS", 20)
    with pytest.raises(InputError, match="every link must have the same weight"):
        _ = Simulation(spark, config).underlay


# --- searches -------------------------------------------------------------------------------------


def test_searches_equal_the_routes_of_the_oracle():
    """Hops, and the nearest of some routers."""
    for one in map(alike, worlds.worlds()[::2]):
        rng, routers = np.random.default_rng(one.case.seed), len(one.case.routers)
        ends = np.array(list(one.case.links), dtype=np.int64).reshape(-1, 2).T
        graph = HopGraph.of(routers, *ends)
        a, b = np.divmod(rng.permutation(routers**2), routers)
        pairs = list(zip(a.tolist(), b.tolist(), strict=True))
        delays = [one.routes.delay[s][t] for s, t in pairs]
        assert (hops.hops(graph, a, b) * 3000).tolist() == delays
        candidates, starts = rng.integers(0, routers, 12), np.array([0, 3, 4])
        found = hops.nearest(graph, np.arange(routers), candidates, starts)
        for query in range(routers):
            away = np.array([one.routes.delay[query][to] for to in candidates.tolist()])
            first = [int(some.argmin()) for some in np.split(away, starts[1:])]
            assert (found[query] - starts).tolist() == first


def test_a_line_of_several_words():
    here, there = np.arange(139), np.arange(1, 140)
    graph = HopGraph.of(140, np.r_[here, there], np.r_[there, here])
    a, b = np.divmod(np.arange(140**2), 140)
    assert (hops.hops(graph, a, b) == abs(a - b)).all()
