"""Searches by hops, against plain Python on many small graphs rich in ties and hubs."""

from __future__ import annotations

import functools
import random
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from scribe_spark.underlay.hops import HopGraph, Search, hops, nearest, searches
from scribe_spark.underlay.paths import merged_links, path_links

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
        assert hops(one.graph, a, b).tolist() == [one.hops[s][t] for s, t in zip(a, b, strict=True)]


def test_last_link_is_that_of_the_least_router():
    for one in each():
        graph = one.graph
        source, target = pairs(len(one.neighbours))
        for rows, search in searches(graph, source):
            mine = rows[source[rows] != target[rows]]
            before, link = search.last_link(source[mine], target[mine])
            ends = zip(source[mine].tolist(), target[mine].tolist(), strict=True)
            assert before.tolist() == [one.before(s, t) for s, t in ends]
            assert np.array_equal(graph.index[graph.sender[link]], before)
            assert np.array_equal(graph.index[graph.receiver[link]], target[mine])


def test_each_source_is_searched_once():
    graph = drawn(0).graph
    source = np.random.default_rng(0).integers(0, len(graph.place), 500)
    found = [(rows, search.sources) for rows, search in searches(graph, source)]
    assert np.array_equal(np.concatenate([s for _, s in found]), np.unique(source))
    assert sorted(np.concatenate([rows for rows, _ in found]).tolist()) == list(range(500))
    assert all(np.isin(source[rows], sources).all() for rows, sources in found)


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


@pytest.mark.parametrize("name", ODD)
def test_longest_way(name):
    one = ODD[name]
    routers = np.arange(len(one.neighbours))
    farthest = max(map(max, one.hops))
    assert hops(one.graph, routers, np.zeros_like(routers)).max() == max(one.hops[0])
    assert Search.of(one.graph, routers[:1]).planes.shape[0] <= max(1, farthest.bit_length())
