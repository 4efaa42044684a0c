"""Searches by hops, against plain Python and against the underlay that looks routes up."""

import functools
import random
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import worlds

from scribe_spark.config import RunConfig
from scribe_spark.core.errors import InputError
from scribe_spark.experiments.phases import TABLE_PHASES
from scribe_spark.experiments.scope import Scope
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.topology.kinds import power_law
from scribe_spark.underlay import hops, protocol
from scribe_spark.underlay import hops as breadth_first
from scribe_spark.underlay.hops import HopGraph, HopKernel, HopUnderlay, Search, nearest
from scribe_spark.underlay.matrices import MatrixUnderlay, compute_routes
from scribe_spark.underlay.paths import merged_links, path_links

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


def test_link_packets(both):
    a, b = (both[0].kernel.index(np.array(drawn_routers(both[0], 3000, seed))) for seed in (3, 4))
    packets = np.random.default_rng(6).integers(1, 5, len(a))
    _, pred, _ = both[1].kernel.open()
    expected: Counter = Counter()
    for source, here, number in zip(a.tolist(), b.tolist(), packets.tolist(), strict=True):
        while here != source:
            before = int(pred[source, here])
            expected[before, here] += number
            here = before
    for one in both:
        sender, receiver, found = one.kernel.link_packets(a, b, packets)
        assert dict(zip(zip(sender, receiver, strict=True), found, strict=True)) == expected
        assert [len(part) for part in one.kernel.link_packets(a[:0], b[:0], packets[:0])] == [0] * 3


def test_merged_packets(both):
    kernel = both[0].kernel
    tree = np.random.default_rng(7).integers(0, 40, 900) * 5
    b = kernel.index(np.array(drawn_routers(both[0], len(tree), 8)))
    a = kernel.index(np.array(drawn_routers(both[0], 200, 9)))[
        tree
    ]  # a source a tree, some the same
    _, pred, _ = both[1].kernel.open()
    expected: dict[tuple[int, int], set[int]] = {}
    for of, source, here in zip(tree.tolist(), a.tolist(), b.tolist(), strict=True):
        while here != source:
            before = int(pred[source, here])
            expected.setdefault((before, here), set()).add(of)
            here = before
    assert max(map(len, expected.values())) > 5
    for one in both:
        sender, receiver, found = one.kernel.merged_packets(tree, a, b)
        links = zip(sender, receiver, strict=True)
        assert dict(zip(links, found, strict=True)) == {k: len(v) for k, v in expected.items()}
        assert [len(part) for part in one.kernel.merged_packets(tree[:0], a[:0], b[:0])] == [0] * 3


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
        expected = one.knowledge.to_arrow()
        name = f"{limit} {one.base}"
        arrays[f"routers {name}"] = one.kernel.routers
        ends = list(one.case.links)
        arrays[f"links {name}"] = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        one.__dict__["kernel"] = HopKernel(f"routers {name}", f"links {name}", 3000)
        for computed in ("knowledge", "ring"):
            del one.__dict__[computed]
        assert one.knowledge.to_arrow().equals(expected)


def tables(simulation: Simulation) -> dict[str, pa.Table]:
    """Every table of a run, its rows sorted."""
    made = {}
    for phase in TABLE_PHASES.values():
        with Scope() as scope:
            for name, frame in phase.tables(simulation, scope):
                found = frame.toArrow()
                simulation.saved[name] = simulation.spark.createDataFrame(found)
                made[name] = found.sort_by([(c, "ascending") for c in found.column_names])
    return made


@pytest.mark.slow
def test_a_run_is_the_same_whoever_answers(spark):
    config = RunConfig(
        nodes=100,
        overlay="perfect",
        groups=4,
        topology="power-law",
        power_law_routers=90,
        power_law_links=125,
        write_routing_table=True,
    )
    searching = Simulation(spark, config, most_routers=0)
    looking_up = Simulation(spark, config)
    found, expected = tables(searching), tables(looking_up)
    assert isinstance(searching.underlay, HopUnderlay)
    assert isinstance(looking_up.underlay, MatrixUnderlay)
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert table.num_rows, name
        assert found[name].equals(table), name
    texts = TABLE_PHASES["measures"].texts
    assert texts(searching) == texts(looking_up)


def test_a_network_that_neither_can_is_refused(spark):
    config = RunConfig(nodes=10, groups=1, transit_domains=1, transit_size=2, stub_size=3)
    with pytest.raises(InputError, match="every link must have the same weight"):
        _ = Simulation(spark, config, most_routers=20).underlay


# --- searches -------------------------------------------------------------------------------------


SEEDS = range(240)


@dataclass(frozen=True)
class Oracle:
    """A connected graph: neighbours of each router; and what plain searches say of it."""

    neighbours: list[list[int]]

    @functools.cached_property
    def hops(self) -> list[list[int]]:
        """Of each pair."""
        return [self._search(source) for source in range(len(self.neighbours))]

    def _search(self, source: int) -> list[int]:
        away, waiting = {source: 0}, deque([source])
        while waiting:
            here = waiting.popleft()
            for there in self.neighbours[here]:
                if there not in away:
                    away[there] = away[here] + 1
                    waiting.append(there)
        return [away[router] for router in range(len(self.neighbours))]

    def before(self, source: int, router: int) -> int:
        """The least router one hop nearer to the source."""
        near = self.hops[source]
        return min(n for n in self.neighbours[router] if near[n] == near[router] - 1)

    def path(self, source: int, target: int) -> list[tuple[int, int]]:
        """The links of a route."""
        backwards = [target]
        while backwards[-1] != source:
            backwards.append(self.before(source, backwards[-1]))
        return list(pairwise(reversed(backwards)))

    @functools.cached_property
    def graph(self) -> HopGraph:
        """The graph under test."""
        links = [(a, b) for a, near in enumerate(self.neighbours) for b in near]
        src, dst = np.array(sorted(links), dtype=np.int64).reshape(-1, 2).T
        return HopGraph.of(len(self.neighbours), src, dst)


def graph_of(routers: int, links: set[tuple[int, int]]) -> Oracle:
    both = links | {(b, a) for a, b in links}
    return Oracle([sorted(b for a, b in both if a == r) for r in range(routers)])


@functools.cache
def drawn(seed: int) -> Oracle:
    """A random tree with hubs or without, and some links besides; some of several words' size."""
    rng = random.Random(seed)
    routers = rng.randint(70, 150) if seed % 24 == 0 else rng.randint(1, 14)
    names = rng.sample(range(routers), routers)
    oldest = rng.choice([1, 3, routers])
    links = {(names[rng.randrange(min(new, oldest))], names[new]) for new in range(1, routers)}
    for _ in range(rng.randint(0, routers)):
        a, b = rng.choices(names, k=2)
        if a != b and (b, a) not in links:
            links.add((a, b))
    return graph_of(routers, links)


ODD = {
    "one router": graph_of(1, set()),
    "two": graph_of(2, {(0, 1)}),
    "a line": graph_of(140, {(r, r + 1) for r in range(139)}),
    "a star": graph_of(130, {(129, r) for r in range(129)}),
    "a ring": graph_of(66, {(r, (r + 1) % 66) for r in range(66)}),
}


def each() -> list[Oracle]:
    return [*map(drawn, SEEDS), *ODD.values()]


def pairs(routers: int) -> np.ndarray:
    """All pairs of few routers, some of many, in no order: (2, M)."""
    rng = np.random.default_rng(routers)
    every = np.stack(np.divmod(rng.permutation(routers * routers), routers))
    return every[:, :1500]


def test_hops():
    for one in each():
        a, b = pairs(len(one.neighbours))
        assert breadth_first.hops(one.graph, a, b).tolist() == [
            one.hops[s][t] for s, t in zip(a, b, strict=True)
        ]


def names(graph: HopGraph, link: np.ndarray) -> list[tuple[int, int]]:
    """Links as pairs of routers."""
    ends = (graph.index[end[link]].tolist() for end in (graph.sender, graph.receiver))
    return list(zip(*ends, strict=True))


def test_routes_apart_and_merged():
    for one in each():
        graph, rng = one.graph, random.Random(7)
        routers = range(len(one.neighbours))
        source = np.array(rng.choices(rng.sample(routers, min(4, len(routers))), k=4)).repeat(5)
        target, tree = np.array(rng.choices(routers, k=20)), np.arange(4).repeat(5) * 2**40
        search = Search.of(graph, np.unique(source))
        paths = [one.path(s, t) for s, t in zip(source.tolist(), target.tolist(), strict=True)]
        row, link = path_links(search.last_link, source, target)
        assert sorted(zip(row.tolist(), names(graph, link), strict=True)) == sorted(
            (at, pair) for at, path in enumerate(paths) for pair in path
        )
        order = np.array(rng.sample(range(20), 20))
        ends = tree[order] // 2**40, source[order], target[order]
        link = merged_links(search.last_link, len(routers), *ends)
        merged = {(at // 5, pair) for at, path in enumerate(paths) for pair in path}
        assert sorted(names(graph, link)) == sorted(pair for _, pair in merged)


def test_nearest_is_the_first_of_the_least():
    for one in each():
        rng = random.Random(3)
        routers = range(len(one.neighbours))
        candidates = rng.choices(routers, k=12)
        starts = sorted({0, *rng.sample(range(12), 3)})
        queries = rng.sample(routers, min(20, len(routers)))
        found = nearest(one.graph, np.array(queries), np.array(candidates), np.array(starts))
        assert found.shape == (len(queries), len(starts))
        for row, query in enumerate(queries):
            for k, (start, end) in enumerate(pairwise([*starts, 12])):
                away = one.hops[query]
                best = min(range(start, end), key=lambda at: (away[candidates[at]], at))
                assert found[row, k] == best
