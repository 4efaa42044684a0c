"""Random graphs on points of a plane: the domains of a transit-stub network.

References
----------
Zegura, Calvert, Bhattacharjee, "How to model an internetwork", INFOCOM 1996: the pure random
method of GT-ITM.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from scribe_spark import draws
from scribe_spark.config import TopologyConfig
from scribe_spark.errors import InputError
from scribe_spark.topology.connectivity import check_connectable


@dataclass(frozen=True)
class Scales:
    """The sides of the squares in which points are drawn, in grid units (1 unit = 1 ms).

    They are G, S_T, S_S.  Squares never exceed the grid, which matters for tiny graphs only.
    """

    grid: int
    transit: int
    stub: int

    @classmethod
    def of(cls, params: TopologyConfig) -> Scales:
        """Return the scales that GT-ITM's users derive from the sizes."""
        most_transit = params.transit_size + 3 * params.transit_domains
        most_stubs = params.stubs_per_transit + 3 * most_transit
        most_stub_size = params.stub_size + 3 * most_stubs
        grid = _rounded(math.sqrt(80 * params.routers))
        transit = _rounded(grid / 2)
        transit += transit % 2
        stub = _rounded(math.sqrt(16 * most_stub_size))
        return cls(grid, min(transit, grid), min(stub, grid))


def geo(
    n: int, scale: int, p: float, field: str, rng: np.random.Philox
) -> tuple[np.ndarray, np.ndarray]:
    """Return a connected pure random graph on distinct uniform points of the grid [0, scale)^2.

    Every pair is linked with probability `p`, the setting `field`; points and links are all redrawn
    until the graph is connected.  The result is coordinates, int64, shape (n, 2), and links, shape
    (links, 2): the positions i < j of the ends.
    """
    if n > scale * scale:
        raise InputError(field, p, f"cannot place {n} routers on {scale} x {scale} grid points")
    _check_one(n, p, field)
    pairs = np.column_stack(np.triu_indices(n, 1))
    while True:
        points = _points(n, scale, rng)
        links = pairs[draws.uniform(rng, len(pairs)) < p]
        if len(links) >= n - 1 and hop_diameter(n, links) is not None:
            return points, links


@functools.lru_cache(maxsize=1024)
def _check_one(n: int, p: float, field: str) -> None:
    check_connectable(np.array([n]), p, field)


def hop_diameter(n: int, links: np.ndarray) -> int | None:
    """Return the longest of the shortest paths of a graph, in hops; None if it is not connected.

    Domains are small and many, so sets of routers are bits of whole numbers: a sparse matrix would
    take longer to make than the search.
    """
    everyone, ends = (1 << n) - 1, links.tolist()
    within = [1 << router for router in range(n)]  # the routers within some hops of each
    hops = 0
    while any(reached != everyone for reached in within):
        before = within.copy()
        for a, b in ends:
            within[a] |= before[b]
            within[b] |= before[a]
        if within == before:
            return None
        hops += 1
    return hops


def _points(n: int, scale: int, rng: np.random.Philox) -> np.ndarray:
    """Return the first `n` distinct grid points of a uniform stream, in its order."""
    drawn = rng.random_raw(n) % np.uint64(scale * scale)
    while len(cells := pd.unique(drawn)) < n:
        drawn = np.concatenate([drawn, rng.random_raw(n) % np.uint64(scale * scale)])
    x, y = np.divmod(cells[:n].astype(np.int64), scale)
    return np.column_stack([x, y])


def _rounded(x: float) -> int:
    """Return the nearest whole number; halves are rounded up."""
    return math.floor(x + 0.5)
