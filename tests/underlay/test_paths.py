"""The links on routes and on merges of routes, against the oracle; numpy only."""

from __future__ import annotations

from collections import Counter

import numpy as np
import worlds

from scribe_spark.underlay import paths
from scribe_spark.underlay.paths import last_links, merged_links, packets_on_links, path_links


def drawn_routes(one: worlds.World) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(one.case.seed)
    return tuple(rng.integers(0, len(one.case.routers), (2, 30)))


def test_path_links_equal_the_oracle():
    for one in worlds.worlds():
        r = len(one.case.routers)
        source, target = drawn_routes(one)
        row, link = path_links(last_links(worlds.route_matrices(one.case)[1]), source, target)
        expected = [
            (at, s * r + d)
            for at, ends in enumerate(zip(source, target, strict=True))
            for s, d in one.routes.path_links(*ends)
        ]
        assert sorted(zip(row.tolist(), link.tolist(), strict=True)) == sorted(expected)


def test_packets_on_links_are_those_of_all_paths(monkeypatch):
    monkeypatch.setattr(paths, "SOURCES", 3)
    for one in worlds.worlds():
        r = len(one.case.routers)
        source, target = drawn_routes(one)
        packets = np.arange(30) % 4 + 1
        pred = worlds.route_matrices(one.case)[1]
        expected: Counter = Counter()
        for ends, number in zip(zip(source, target, strict=True), packets.tolist(), strict=True):
            for s, d in one.routes.path_links(*ends):
                expected[s * r + d] += number
        link, found = packets_on_links(pred, source, target, packets)
        assert (np.diff(link) > 0).all()
        assert dict(zip(link.tolist(), found.tolist(), strict=True)) == expected


def test_merged_links_equal_the_oracle():
    for one in worlds.worlds():
        r = len(one.case.routers)
        source, target = drawn_routes(one)
        tree = np.arange(30) // 7 * 1000 + 3
        source = source[np.arange(30) // 7 * 7]  # one source a tree
        order = np.random.default_rng(0).permutation(30)
        link = merged_links(
            last_links(worlds.route_matrices(one.case)[1]),
            r,
            tree[order],
            source[order],
            target[order],
        )
        expected = {
            (name, s * r + d)
            for name, *ends in zip(tree, source, target, strict=True)
            for s, d in one.routes.path_links(*ends)
        }
        assert sorted(link.tolist()) == sorted(number for _, number in expected)


def test_links_of_no_route():
    none = np.empty(0, dtype=np.int64)
    pred = np.array([[-1]])
    assert [len(part) for part in path_links(last_links(pred), none, none)] == [0, 0]
    here = np.zeros(2, dtype=np.int64)
    assert len(path_links(last_links(pred), here, here)[0]) == 0
    assert len(merged_links(last_links(pred), 1, here, here, here)) == 0
