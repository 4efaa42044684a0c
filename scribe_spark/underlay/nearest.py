"""The nearest of a set of routers, from the matrix of all delays.

Routers of a pendant component all leave it by one link, so the nearest candidate elsewhere is the
same for all of them: it is searched once, from the router at which routes leave the component.  In
the default network, 50 searches serve 5,050 routers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scribe_spark.core.arrays import expand
from scribe_spark.underlay.pendant import NO_COMPONENT

_POSITION = 31  # bits; delays and positions of candidates are below 2**31
_PAIRS = 2**20  # pairs of a query and a candidate compared at once


def nearest(
    delay_us: np.ndarray,
    exits: np.ndarray,
    queries: np.ndarray,
    candidates: np.ndarray,
    starts: np.ndarray,
) -> np.ndarray:
    """Return the nearest candidates, as `protocol.Kernel.nearest` does.

    `delay_us` (R, R) are the delays of routes, `exits` the result of
    :func:`~scribe_spark.underlay.pendant.pendant_exits`.
    """
    component, exit_router = exits
    of_candidate, own = component[candidates], component[queries]
    delays, routers = np.asarray(delay_us).reshape(-1), delay_us.shape[1]

    def key(query: np.ndarray, position: np.ndarray) -> np.ndarray:
        delay = delays.take(query * routers + candidates[position]).astype(np.int64)
        return delay << _POSITION | position

    # 1. the nearest candidates outside the query's component
    searched, of_query = np.unique(exit_router[queries], return_inverse=True)
    first, second = _first_and_second(delays, routers, searched, candidates, of_candidate, starts)
    first, second = first[of_query], second[of_query]
    outside = (own[:, None] == NO_COMPONENT) | (of_candidate[first] != own[:, None])
    found = np.where(outside, first, second)
    best = np.where(found >= 0, key(queries[:, None], found), np.iinfo(np.int64).max).reshape(-1)
    # 2. those inside it
    for query, position in _same_component(own, of_candidate):
        segment = np.searchsorted(starts, position, "right") - 1
        np.minimum.at(best, query * len(starts) + segment, key(queries[query], position))
    return (best & (2**_POSITION - 1)).reshape(len(queries), len(starts))


def _same_component(
    of_query: np.ndarray, of_candidate: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the positions of all pairs of a query and a candidate in one pendant component."""
    order = np.argsort(of_candidate, kind="stable")
    grouped = of_candidate[order]
    low, high = np.searchsorted(grouped, of_query), np.searchsorted(grouped, of_query, "right")
    inside = np.where(of_query == NO_COMPONENT, 0, high - low)
    cuts = np.flatnonzero(np.diff(np.cumsum(inside) // _PAIRS)) + 1
    for some in np.split(np.arange(len(of_query)), cuts):
        pair, place = expand(low[some], low[some] + inside[some])
        yield some[pair], order[place]


def _first_and_second(
    delays: np.ndarray,
    routers: int,
    queries: np.ndarray,
    candidates: np.ndarray,
    component: np.ndarray,
    starts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest candidate of each segment, and the nearest one in another component.

    Both are positions in `candidates`, shape (Q, K); the second is -1 if there is none, and has no
    meaning if the first is in the core.
    """
    lengths = np.diff(np.r_[starts, len(candidates)])
    first = np.empty((len(queries), len(starts)), dtype=np.int64)
    second = np.full_like(first, -1)
    block = max(1, 2**18 // max(1, len(candidates)))  # about 1 MiB of delays: stays in cache
    farthest = np.iinfo(delays.dtype).max
    for at in range(0, len(queries), block):
        some = slice(at, at + block)
        seen = delays.take(queries[some, None] * routers + candidates)
        first[some] = _least(seen, starts)
        if (component[first[some]] != NO_COMPONENT).any():
            excluded = np.repeat(component[first[some]], lengths, axis=1) == component
            seen[excluded] = farthest
            then = _least(seen, starts)
            known = np.take_along_axis(seen, then, axis=1) < farthest
            second[some] = np.where(known, then, -1)
    return first, second


def _least(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the index of each segment's first least value, row by row: int64, shape (rows, K)."""
    ends = [*starts[1:], values.shape[1]]
    segments = [values[:, start:end] for start, end in zip(starts, ends, strict=True)]
    return starts + np.stack([segment.argmin(axis=1) for segment in segments], axis=1)
