"""Unicast routes from some routers to all, by one Dijkstra search for each.

Routers are indices in the order of ids.  Routes have the least policy weight; of equal ones, the
least delay, then the least router id of the predecessor.  JSAC 2002, Section IV.A: "we used the
routing policy weights ... to perform IP unicast routing".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from scribe_spark.core import draws
from scribe_spark.core.arrays import find_sorted, index_sorted, run_starts
from scribe_spark.core.errors import InputError

#: All routes take fewer microseconds, so that a delay has 31 bits.  In a delay matrix, this number
#: means a route that takes this long or longer.
TOO_LONG = 2**31 - 1

_EXACT = 2**53  # up to here, different whole numbers differ in float64


@dataclass(frozen=True)
class LinkArrays:
    """Directed links as arrays of whole numbers, sorted by (dst, src), for :func:`route_block`."""

    #: int64, shape (R,): router ids, ascending.
    routers: np.ndarray
    #: int32, shape (L,): ends, as indices.
    src: np.ndarray
    dst: np.ndarray
    #: int64, shape (L,): microseconds.
    delay_us: np.ndarray
    #: float64, shape (L,): weight * base + tie, whole numbers: the lexicographic cost in one
    #: number, so that one Dijkstra breaks ties of weight.
    cost: np.ndarray

    @functools.cached_property
    def graph(self) -> csr_array:
        """The costs of the links as a sparse (R, R) matrix."""
        r = len(self.routers)
        return csr_array((self.cost, (self.src, self.dst)), shape=(r, r))

    @classmethod
    def of(cls, routers: np.ndarray, links: pd.DataFrame, tie: str, seed: int) -> LinkArrays:
        """Return links as arrays; `tie` and `seed` choose among routes of equal weight."""
        routers = np.sort(np.asarray(routers, dtype=np.int64))
        src = index_sorted(routers, links["src"].to_numpy())
        dst = index_sorted(routers, links["dst"].to_numpy())
        order = np.lexsort((src, dst))
        src, dst = src[order].astype(np.int32), dst[order].astype(np.int32)
        delay_us = np.rint(links["delay_ms"].to_numpy(dtype=float)[order] * 1000).astype(np.int64)
        weight = _whole_numbers(links["weight"].to_numpy(dtype=float)[order])
        if tie == "delay":
            second = delay_us // max(1, np.gcd.reduce(delay_us)) if len(delay_us) else delay_us
        else:
            second = 1 + draws.whole_numbers(draws.stream(seed, "tie"), 2**10 - 1, len(src))
        cost = _lexicographic(len(routers), src, dst, weight, second)
        return cls(routers, src, dst, delay_us, cost)


def _whole_numbers(weight: np.ndarray) -> np.ndarray:
    """Return weights in the least whole numbers of the same proportion, after rounding to 1e-6."""
    units = np.rint(weight * 1e6).astype(np.int64)
    return units // np.gcd.reduce(units) if len(units) else units


def _lexicographic(r: int, src, dst, weight: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return costs by which routes are compared by weight, then by the `second` cost: int64.

    The cost of a link is weight * base + second, with a base above the second cost of any
    least-weight path among `r` routers.
    """
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
    """Return the routes from some routers (`sources`, indices, shape (S,)) to all routers.

    The result is ``delay_us`` (int64) and ``pred`` (int32), the router before the last on the route
    (-1 at the source); both have the shape (S, R).
    """
    r, s = len(links.routers), len(sources)
    delay_us = np.zeros((s, r), dtype=np.int64)
    pred = np.full((s, r), -1, dtype=np.int32)
    if not len(links.src):
        return delay_us, pred
    # temporary arrays have a number per source and link, so a block has few sources
    at_once = max(1, _TEMPORARY // max(r, len(links.src)))
    for start in range(0, s, at_once):
        block = slice(start, start + at_once)
        pred[block], step = _last_links(links, sources[block])
        delay_us[block] = accumulate(pred[block], step)
    return delay_us, pred


_TEMPORARY = 2**21  # numbers in a temporary array: 16 MiB


def _last_links(links: LinkArrays, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each route, the router before the last, and the delay (us) of the last link."""
    r, s = len(links.routers), len(sources)
    total = dijkstra(links.graph, indices=sources)
    # of the links that lie on a least-cost path, the least router id of the predecessor: links
    # are in (dst, src) order, so the first tight one in each run of a dst
    tight = total[:, links.src] + links.cost == total[:, links.dst]
    heads = run_starts(links.dst)
    position = np.where(tight, np.arange(len(links.src), dtype=np.int32), np.int32(2**31 - 1))
    chosen = np.minimum.reduceat(position, heads, axis=1)
    reached = links.dst[heads]
    rows = np.arange(s)
    # no link is on a route to the source itself: any valid number, overwritten below
    own = find_sorted(reached, sources)
    chosen[rows[own >= 0], own[own >= 0]] = 0
    pred = np.full((s, r), -1, dtype=np.int32)
    pred[:, reached] = links.src[chosen]
    step = np.zeros((s, r), dtype=np.int64)
    step[:, reached] = links.delay_us[chosen]
    pred[rows, sources], step[rows, sources] = -1, 0
    return pred, step


def accumulate(pred: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return the sum of `step`, a number of each route's last link, over all links of the route."""
    rows = np.arange(len(pred))[:, None]
    up = np.where(pred < 0, np.arange(pred.shape[1]), pred)
    total = step
    while True:
        total = total + total[rows, up]
        further = up[rows, up]
        if np.array_equal(further, up):
            break
        up = further
    return total


def bounded_delay(delay_us: np.ndarray) -> np.ndarray:
    """Return delays (us) as int32; longer ones become :data:`TOO_LONG`."""
    return np.minimum(delay_us, TOO_LONG).astype(np.int32)


def refuse_long(routers: np.ndarray, sources: np.ndarray, delay_us: np.ndarray) -> None:
    """Refuse routes from `sources` (indices) that take :data:`TOO_LONG` microseconds or more."""
    if delay_us.max(initial=0) < TOO_LONG:
        return
    row, target = np.argwhere(delay_us >= TOO_LONG)[0]
    most = f"{TOO_LONG / 1000:.0f}"
    longest = f"{most} or more from router {routers[sources[row]]} to router {routers[target]}"
    raise InputError("delay_ms", longest, f"a route must take less than {most} ms")
