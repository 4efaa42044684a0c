"""Unicast routes between routers, and the numpy kernels that answer questions about them.

Pure numpy and SciPy; Spark calls these under Arrow.  Routers are indexed 0..R-1 in id order.

References
----------
Definitions: least policy weight; ties by least delay, then by least router id of the predecessor.
JSAC 2002, Section IV.A: "we used the routing policy weights ... to perform IP unicast routing".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from scribe_spark.draws import stream
from scribe_spark.errors import InputError

__all__ = [
    "TOO_LONG",
    "Attached",
    "LinkArrays",
    "attached_parts",
    "attached_routes",
    "last_links",
    "merged_links",
    "nearest",
    "path_links",
    "route_block",
]

#: Microseconds: what the matrices hold for a route that takes as long or longer.
TOO_LONG = 2**31 - 1

_EXACT = 2**53  # largest whole number below which float64 is exact


@dataclass(frozen=True)
class LinkArrays:
    """Directed links in (dst, src) order, as whole numbers, ready for :func:`route_block`.

    Attributes
    ----------
    routers : ndarray of int64, shape (R,)
        Router ids, ascending.
    src, dst : ndarray of int32, shape (L,)
        Ends, as indices.
    delay_us : ndarray of int64, shape (L,)
        Microseconds.
    cost : ndarray of float64, shape (L,)
        weight * base + tie, whole numbers: the lexicographic cost in one number, so that one
        Dijkstra breaks ties of weight.
    """

    routers: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    delay_us: np.ndarray
    cost: np.ndarray

    @functools.cached_property
    def graph(self) -> csr_array:
        """Costs as a sparse (R, R) matrix."""
        r = len(self.routers)
        return csr_array((self.cost, (self.src, self.dst)), shape=(r, r))

    @classmethod
    def of(cls, routers: np.ndarray, links: pd.DataFrame, tie: str, seed: int) -> LinkArrays:
        """Index `links` (src, dst, delay_ms, weight) by position in `routers`.

        Raises
        ------
        InputError
            Weights and delays span too many orders of magnitude for exact arithmetic.
        """
        routers = np.sort(np.asarray(routers, dtype=np.int64))
        src = np.searchsorted(routers, links["src"].to_numpy())
        dst = np.searchsorted(routers, links["dst"].to_numpy())
        order = np.lexsort((src, dst))
        src, dst = src[order].astype(np.int32), dst[order].astype(np.int32)
        delay_us = np.rint(links["delay_ms"].to_numpy(dtype=float)[order] * 1000).astype(np.int64)
        weight = _whole(links["weight"].to_numpy(dtype=float)[order])
        if tie == "delay":
            second = delay_us // max(1, np.gcd.reduce(delay_us)) if len(delay_us) else delay_us
        else:
            second = stream(seed, "tie", 0).integers(1, 2**10, size=len(src))
        cost = _lexicographic(len(routers), src, dst, weight, second)
        return cls(routers, src, dst, delay_us, cost)


def _whole(weight: np.ndarray) -> np.ndarray:
    """Weights at a resolution of 1e-6, as the smallest whole numbers in the same proportion."""
    units = np.rint(weight * 1e6).astype(np.int64)
    return units // np.gcd.reduce(units) if len(units) else units


def _lexicographic(r: int, src, dst, weight: np.ndarray, second: np.ndarray) -> np.ndarray:
    """weight * base + second, base above the second cost of any least-weight path."""
    if not len(weight):
        return np.empty(0)
    graph = csr_array((weight.astype(float), (src, dst)), shape=(r, r))
    around = dijkstra(graph, indices=0).max() + dijkstra(graph.T, indices=0).max()
    hops = min(r - 1, around // weight.min())
    base = 1 << int(hops * int(second.max())).bit_length()
    if (around + 1) * base >= _EXACT:
        spread = f"{weight.min()}..{weight.max()} (in units)"
        raise InputError("weight", spread, "weights and delays span too wide a range; round them")
    return weight.astype(float) * base + second


def route_block(links: LinkArrays, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Routes from some routers to all.

    Parameters
    ----------
    links : LinkArrays
    sources : ndarray of int, shape (S,)
        Router indices.

    Returns
    -------
    delay_us, pred : ndarray of int32, shape (S, R)
        Delay along the route, :data:`TOO_LONG` at most; index of the router before the last on it
        (-1 at the source).
    """
    r, s = len(links.routers), len(sources)
    pred = np.full((s, r), -1, dtype=np.int32)
    if not len(links.src):
        return np.zeros((s, r), dtype=np.int32), pred
    total = dijkstra(links.graph, indices=sources)
    # of the links that lie on a least-cost path, the least router id of the predecessor: links
    # are in (dst, src) order, so the first tight one in each run of a dst
    tight = total[:, links.src] + links.cost == total[:, links.dst]
    heads = np.flatnonzero(np.r_[True, links.dst[1:] != links.dst[:-1]])
    position = np.where(tight, np.arange(len(links.src), dtype=np.int32), np.int32(2**31 - 1))
    chosen = np.minimum.reduceat(position, heads, axis=1)
    reached = links.dst[heads]
    rows = np.arange(s)
    away = chosen.copy()
    source_column = np.searchsorted(reached, sources)
    away[rows, source_column] = 0
    pred[:, reached] = links.src[away]
    step = np.zeros((s, r), dtype=np.int64)
    step[:, reached] = links.delay_us[away]
    pred[rows, sources], step[rows, sources] = -1, 0
    return _accumulate(pred, step, sources), pred


def _accumulate(pred: np.ndarray, step: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Sum `step` along each route to its source, by pointer doubling."""
    rows = np.arange(len(sources))[:, None]
    up = np.where(pred < 0, np.arange(pred.shape[1]), pred)
    total = step
    while True:
        total = total + total[rows, up]
        further = up[rows, up]
        if np.array_equal(further, up):
            break
        up = further
    return _int32(total)


def _int32(delay_us: np.ndarray) -> np.ndarray:
    """As the matrices hold them; of a route too long for that, :data:`TOO_LONG`."""
    return np.minimum(delay_us, TOO_LONG).astype(np.int32)


@dataclass(frozen=True)
class Attached:
    """A part of the network that hangs on the rest by one link, as a stub on its transit router.

    Attributes
    ----------
    routers : ndarray of int64
        Indices, ascending.
    gateway, outside : int
        Ends of the link, within the part and beyond it.
    """

    routers: np.ndarray
    gateway: int
    outside: int


def attached_parts(links: LinkArrays) -> list[Attached]:
    """The parts that hang by one link on the network's core, largest possible.

    The core is the largest set of routers that no single link separates (2-edge-connected).
    """
    r = len(links.routers)
    if not len(links.src):
        return []
    bridge = _bridges(r, links.src, links.dst)
    rest = csr_array((np.ones((~bridge).sum()), (links.src[~bridge], links.dst[~bridge])), (r, r))
    _, solid = connected_components(rest, directed=False)
    core = solid == np.bincount(solid).argmax()
    # links that enter the core; without them every hanging part is a component of its own
    hangs = ~core[links.src] & core[links.dst]
    inside = ~(core[links.src] | core[links.dst])
    apart = csr_array((np.ones(inside.sum()), (links.src[inside], links.dst[inside])), (r, r))
    _, part = connected_components(apart, directed=False)
    by_part = np.argsort(part, kind="stable")
    starts = np.searchsorted(part[by_part], part[links.src[hangs]])
    ends = np.searchsorted(part[by_part], part[links.src[hangs]], side="right")
    gateways, outsides = links.src[hangs], links.dst[hangs]
    return [
        Attached(by_part[a:z].astype(np.int64), int(g), int(o))
        for a, z, g, o in zip(starts, ends, gateways, outsides, strict=True)
    ]


def _bridges(r: int, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Which directed links are bridges of the undirected graph: bool, one per link.

    A link of a depth-first tree is a bridge if no other link leads from below it to above.
    """
    order = np.argsort(src, kind="stable")
    start = np.searchsorted(src[order], np.arange(r + 1)).tolist()
    near = dst[order].tolist()
    seen, low, parent = [-1] * r, [0] * r, [-1] * r
    at = start[:r]
    bridges = set()
    clock, stack = 1, [0]
    seen[0] = low[0] = 0
    while stack:
        here = stack[-1]
        if at[here] < start[here + 1]:
            there = near[at[here]]
            at[here] += 1
            if seen[there] < 0:
                seen[there] = low[there] = clock
                clock += 1
                parent[there] = here
                stack.append(there)
            elif there != parent[here]:
                low[here] = min(low[here], seen[there])
        else:
            stack.pop()
            above = parent[here]
            if above >= 0:
                low[above] = min(low[above], low[here])
                if low[here] > seen[above]:
                    bridges |= {above * r + here, here * r + above}
    return np.isin(src.astype(np.int64) * r + dst, np.fromiter(bridges, np.int64, len(bridges)))


def attached_routes(
    links: LinkArrays, part: Attached, far: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Routes from every router of an attached part to all; as :func:`route_block`, faster.

    Inside, routes stay inside; to the rest they pass the gateway, so beyond it they are the routes
    of the router that the part hangs on: `far`, that router's :func:`route_block`.
    """
    mine, r = part.routers, len(links.routers)
    place = np.full(r, -1, dtype=np.int32)
    place[mine] = np.arange(len(mine))
    within = (place[links.src] >= 0) & (place[links.dst] >= 0)
    inner = LinkArrays(
        links.routers[mine],
        place[links.src[within]],
        place[links.dst[within]],
        links.delay_us[within],
        links.cost[within],
    )
    near_delay, near_pred = route_block(inner, np.arange(len(mine)))
    far_delay, far_pred = far
    exit_link = np.flatnonzero((links.src == part.gateway) & (links.dst == part.outside))[0]
    to_outside = near_delay[:, place[part.gateway]] + links.delay_us[exit_link]
    delay_us = _int32(to_outside[:, None] + far_delay)
    pred = np.repeat(far_pred, len(mine), axis=0)
    pred[:, part.outside] = part.gateway
    delay_us[:, mine] = near_delay
    pred[:, mine] = np.where(near_pred < 0, -1, mine[near_pred])
    return delay_us, pred


def nearest(
    delay_us: np.ndarray, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
) -> np.ndarray:
    """For each query router, the nearest candidate of each segment.

    Parameters
    ----------
    delay_us : ndarray of int32, shape (R, R)
    queries : ndarray of int, shape (Q,)
        Router indices.
    candidates : ndarray of int, shape (C,)
        Router indices, most preferred first within a segment: the first of equals wins.
    starts : ndarray of int, shape (K,)
        Where each (non-empty) segment of `candidates` begins.

    Returns
    -------
    ndarray of int64, shape (Q, K)
        Positions in `candidates`.
    """
    found = np.empty((len(queries), len(starts)), dtype=np.int64)
    ends = np.r_[starts[1:], len(candidates)]
    block = max(1, 2**18 // max(1, len(candidates)))  # about 1 MiB of delays: stays in cache
    delays, routers = np.asarray(delay_us).reshape(-1), delay_us.shape[1]
    for at in range(0, len(queries), block):
        seen = delays.take(queries[at : at + block, None] * routers + candidates)
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found[at : at + block, k] = start + seen[:, start:end].argmin(axis=1)
    return found


#: Of routes (sources, targets; row by row, never the same): the router before the target, and the
#: number of the link between the two.
LastLink = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def last_links(pred: np.ndarray) -> LastLink:
    """The routes of a matrix of predecessors (R, R); links are numbered src * R + dst."""

    def last(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = pred[source, target].astype(np.int64)
        return before, before * pred.shape[1] + target

    return last


def path_links(
    last: LastLink, source: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Every link of every route.

    Parameters
    ----------
    last : callable
        From :func:`last_links`, for example.
    source, target : ndarray of int, shape (M,)
        One route per row, router indices.

    Returns
    -------
    row, link : ndarray of int64, shape (H,)
        Row of the route; number of the link.
    """
    row, here = np.flatnonzero(source != target), target[source != target].astype(np.int64)
    rows, links = [], []
    while len(row):
        before, link = last(source[row], here)
        rows.append(row)
        links.append(link)
        on = before != source[row]
        row, here = row[on], before[on]
    return _concatenate(rows), _concatenate(links)


def merged_links(
    last: LastLink, routers: int, tree: np.ndarray, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """Every link of the merge of each tree's routes, once per tree (IP multicast).

    Parameters
    ----------
    last : callable
        From :func:`last_links`, for example.
    routers : int
        R.
    tree, source, target : ndarray of int, shape (M,)
        Routes; all rows of a tree have the same source.

    Returns
    -------
    ndarray of int64, shape (H,)
        Numbers of links, one per tree and link.
    """
    order = np.argsort(tree, kind="stable")
    names, first = np.unique(tree[order], return_index=True)
    root = source[order[first]].astype(np.int64)
    ends = np.append(first, len(order))
    at_once = max(1, _MARKS // routers)
    links: list[np.ndarray] = []
    for start in range(0, len(names), at_once):
        end = min(start + at_once, len(names))
        rows = order[ends[start] : ends[end]]
        of = np.repeat(np.arange(end - start), np.diff(ends[start : end + 1]))
        links += _merged(last, routers, root[start:end], of, target[rows])
    return _concatenate(links)


_MARKS = 2**25  # bytes


def _merged(
    last: LastLink, routers: int, root: np.ndarray, tree: np.ndarray, target: np.ndarray
) -> Iterator[np.ndarray]:
    """The links of trees 0, 1, ..., from the ends of the routes inwards."""
    # tree * R + router: a router is entered once per tree
    reached = np.zeros(len(root) * routers, dtype=bool)
    frontier = np.unique((tree * routers + target)[target != root[tree]])
    while len(frontier):
        reached[frontier] = True
        of, here = np.divmod(frontier, routers)
        before, link = last(root[of], here)
        yield link
        inner = (of * routers + before)[before != root[of]]
        frontier = np.unique(inner[~reached[inner]])


def _concatenate(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces) if pieces else _EMPTY


_EMPTY = np.empty(0, dtype=np.int64)
