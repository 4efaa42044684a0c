"""Pendant components, their routes and bridges, against plain definitions; numpy only."""

from __future__ import annotations

import numpy as np
import worlds

from scribe_spark.underlay.dijkstra import LinkArrays, route_block
from scribe_spark.underlay.pendant import (
    bridges,
    inner_routes,
    leaving_routes,
    pendant_components,
    pendant_exits,
)


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


def hanging(routers, links) -> dict[int, set[int]]:
    """Router of the core -> what hangs on it, by taking each undirected link away in turn."""
    found = bridges_of(links)
    solid = {r: {r} for r in routers}  # routers that no bridge separates
    for a, b in links:
        if (a, b) not in found and solid[a] is not solid[b]:
            solid[a] |= solid[b]
            for router in solid[b]:
                solid[router] = solid[a]
    most = max(map(len, solid.values()))
    return {
        (a, b): reached(b, links, (a, b))
        for a, b in found
        if len(solid[a]) == most and a not in reached(b, links, (a, b))
    }


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


def test_components_hang_by_one_link_and_are_as_large_as_can_be():
    seen = 0
    for one in worlds.worlds():
        case = one.case
        arrays = LinkArrays.of(np.array(case.routers), worlds.link_frame(case), "delay", 1)
        components = pendant_components(arrays)
        by_link = hanging(case.routers, case.links)
        for component in components:
            assert set(component.routers.tolist()) == by_link[component.outside, component.gateway]
            assert component.routers.tolist() == sorted(component.routers.tolist())
        # the core is one set of routers that no link separates: two of its links are no components
        core = set(case.routers).difference(
            *(component.routers.tolist() for component in components)
        )
        assert {component.outside for component in components} <= core
        assert not any({a, b} <= core for a, b in by_link)
        assert sum(len(component.routers) for component in components) + len(core) == len(
            case.routers
        )
        seen += len(components)
    assert seen > 200


def test_routes_of_pendant_components_equal_the_oracle():
    inner = 0
    for tie in ("delay", "seeded"):
        for one in worlds.worlds():
            case = one.case
            arrays = LinkArrays.of(np.array(case.routers), worlds.link_frame(case), tie, 1)
            expected = route_block(arrays, np.arange(len(case.routers)))
            for component in pendant_components(arrays):
                far = expected[0][component.outside], expected[1][component.outside]
                found = leaving_routes(component, inner_routes(arrays, component), far)
                for rows, all_ in zip(found, expected, strict=True):
                    assert rows.dtype == np.int32
                    assert np.array_equal(rows, all_[component.routers]), (tie, case.seed)
                inner += len(component.routers) > 1
    assert inner > 100


def test_exits_name_the_component_and_where_its_routes_go_on():
    for one in worlds.worlds():
        case = one.case
        arrays = LinkArrays.of(np.array(case.routers), worlds.link_frame(case), "delay", 1)
        components = pendant_components(arrays)
        exits = pendant_exits(len(case.routers), components)
        expected = {router: (-1, router) for router in case.routers}
        for number, component in enumerate(components):
            expected |= {int(router): (number, component.outside) for router in component.routers}
        assert {r: tuple(exits[:, r].tolist()) for r in case.routers} == expected
