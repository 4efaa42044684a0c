"""Parts of the network that one link joins to the rest; their routes are quick to find.

A stub with one gateway link is such a part: a *pendant component*.  The link is a *bridge* (its
removal would disconnect the graph).  The rest of the graph, which no bridge divides, is the
*2-edge-connected core*.  All routes that leave a pendant component take its bridge, so that one
Dijkstra search, from the bridge's end in the core, serves all routers of the component.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from scribe_spark.core.arrays import index_sorted
from scribe_spark.underlay.dijkstra import LinkArrays, bounded_delay, route_block

#: The value in place of a component's number for routers of the core.
NO_COMPONENT = -1


@dataclass(frozen=True)
class PendantComponent:
    """A part of the network that a bridge joins to the core, as a stub to its transit router."""

    #: int64: indices, ascending.
    routers: np.ndarray
    #: The ends of the bridge: in the component, and in the core.
    gateway: int
    outside: int
    #: The delay of the bridge from the gateway outwards, in microseconds.
    bridge_us: int


def pendant_components(links: LinkArrays) -> list[PendantComponent]:
    """Return the components that bridges join to the 2-edge-connected core, as large as possible.

    The core is the largest set of routers that no bridge divides; of equals, the one with the
    router of least index.
    """
    r = len(links.routers)
    if not len(links.src):
        return []
    bridge = bridges(r, links.src, links.dst)
    _, component = connected_components(_graph(links, ~bridge), directed=False)
    core = component == np.bincount(component).argmax()
    # without the links at the core, each pendant component is a connected component
    enters = ~core[links.src] & core[links.dst]
    outside_core = ~(core[links.src] | core[links.dst])
    _, component = connected_components(_graph(links, outside_core), directed=False)
    by_component = np.argsort(component, kind="stable")
    gateways, outsides, delays = links.src[enters], links.dst[enters], links.delay_us[enters]
    starts = np.searchsorted(component[by_component], component[gateways])
    ends = np.searchsorted(component[by_component], component[gateways], side="right")
    return [
        PendantComponent(by_component[start:end].astype(np.int64), int(gateway), int(out), int(us))
        for start, end, gateway, out, us in zip(
            starts, ends, gateways, outsides, delays, strict=True
        )
    ]


def pendant_exits(r: int, components: Sequence[PendantComponent]) -> np.ndarray:
    """Return each router's pendant component, and the router at which routes leave it.

    The result is int32, shape (2, r): the component's number and its end in the core; for a router
    in the core, :data:`NO_COMPONENT` and the router itself.
    """
    exits = np.stack([np.full(r, NO_COMPONENT), np.arange(r)]).astype(np.int32)
    for number, component in enumerate(components):
        exits[:, component.routers] = [[number], [component.outside]]
    return exits


def _graph(links: LinkArrays, chosen: np.ndarray) -> csr_array:
    """Return the chosen links as a sparse (R, R) matrix."""
    r, ones = len(links.routers), np.ones(np.count_nonzero(chosen))
    return csr_array((ones, (links.src[chosen], links.dst[chosen])), shape=(r, r))


def bridges(r: int, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Mark the directed links that are bridges of a connected undirected graph: bool, one per link.

    The links contain each link's reverse.

    References
    ----------
    Tarjan, "A note on finding the bridges of a graph", Inf. Proc. Letters 2, 1974: a link of a
    depth-first tree is a bridge if no other link leads from the subtree below it to above it.
    """
    by_src = np.argsort(src, kind="stable")
    first = np.searchsorted(src[by_src], np.arange(r + 1)).tolist()
    neighbour = dst[by_src].tolist()
    next_link = first[:r]
    # the order in which routers are visited, and the earliest that a subtree has a link to
    visited, low, parent = [-1] * r, [0] * r, [-1] * r
    found = set()
    clock, stack = 1, [0]
    visited[0] = low[0] = 0
    while stack:
        here = stack[-1]
        if next_link[here] < first[here + 1]:
            there = neighbour[next_link[here]]
            next_link[here] += 1
            if visited[there] < 0:
                visited[there] = low[there] = clock
                clock += 1
                parent[there] = here
                stack.append(there)
            elif there != parent[here]:
                low[here] = min(low[here], visited[there])
        else:
            stack.pop()
            above = parent[here]
            if above >= 0:
                low[above] = min(low[above], low[here])
                if low[here] > visited[above]:
                    found |= {above * r + here, here * r + above}
    return np.isin(src.astype(np.int64) * r + dst, np.fromiter(found, np.int64, len(found)))


def inner_routes(links: LinkArrays, component: PendantComponent) -> tuple[np.ndarray, np.ndarray]:
    """Return the routes between the routers of a pendant component, as `route_block` does.

    They stay inside; routers are positions in ``component.routers``.
    """
    routers = component.routers
    position = np.full(len(links.routers), -1, dtype=np.int32)
    position[routers] = np.arange(len(routers))
    inside = (position[links.src] >= 0) & (position[links.dst] >= 0)
    inner = LinkArrays(
        links.routers[routers],
        position[links.src[inside]],
        position[links.dst[inside]],
        links.delay_us[inside],
        links.cost[inside],
    )
    return route_block(inner, np.arange(len(routers)))


def leaving_routes(
    component: PendantComponent,
    near: tuple[np.ndarray, np.ndarray],
    far: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the routes from every router of a pendant component to all, as `route_block` does.

    Routes that leave the component take the bridge and then the routes of the bridge's end in the
    core.  `near` is the result of :func:`inner_routes`, `far` has the routes from
    ``component.outside``; both are (delay_us, pred).
    """
    routers = component.routers
    (near_delay, near_pred), (far_delay, far_pred) = near, far
    (gateway,) = index_sorted(routers, np.array([component.gateway]))
    to_outside = near_delay[:, gateway].astype(np.int64) + component.bridge_us
    delay_us = bounded_delay(to_outside[:, None] + far_delay)
    pred = np.repeat(far_pred[None, :].astype(np.int32), len(routers), axis=0)
    pred[:, component.outside] = component.gateway
    delay_us[:, routers] = bounded_delay(near_delay)
    pred[:, routers] = np.where(near_pred < 0, -1, routers[near_pred])
    return delay_us, pred
