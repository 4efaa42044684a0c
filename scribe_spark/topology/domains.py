"""The domains of a transit-stub network side by side: their sizes, and which routers they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.topology.geometry import hop_diameter

__all__ = ["Domains", "below", "join_domains", "spread"]


@dataclass(frozen=True)
class Domains:
    """All transit domains, or all stubs: their routers are numbered consecutively from `first`.

    Attributes
    ----------
    sizes, starts : ndarray of int64, shape (domains,)
        Routers of each domain, and the id of its first.
    points : ndarray of int64, shape (routers, 2)
        Places on the grid.
    links : ndarray of int64, shape (links, 2)
        Ids of the ends of each link inside a domain.
    diameter : int
        The largest hop diameter of a domain.
    """

    first: int
    sizes: np.ndarray
    starts: np.ndarray
    points: np.ndarray
    links: np.ndarray
    diameter: int

    @property
    def routers(self) -> int:
        return len(self.points)

    def member(self, domain: int, rng: np.random.Philox) -> int:
        """The id of a uniform router of a domain."""
        return int(self.starts[domain]) + below(int(self.sizes[domain]), rng)


def join_domains(first: int, graphs: list[tuple[np.ndarray, np.ndarray]]) -> Domains:
    """Domains' graphs side by side, routers numbered from `first`."""
    sizes = np.array([len(points) for points, _ in graphs], dtype=np.int64)
    starts = first + np.cumsum(sizes) - sizes
    return Domains(
        first=first,
        sizes=sizes,
        starts=starts,
        points=np.concatenate([points for points, _ in graphs]),
        links=np.concatenate(
            [links + start for (_, links), start in zip(graphs, starts, strict=True)]
        ),
        diameter=max(hop_diameter(len(points), links) or 0 for points, links in graphs),
    )


def spread(n: int, mean: int, rng: np.random.Philox) -> np.ndarray:
    """`n` counts >= 1 whose sum is ``n * mean``, scattered around `mean`.

    3n times a uniform count that exceeds 1 gives one unit to a uniform count.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    counts = [mean] * n
    for giver, taker in rng.random_raw(6 * n).reshape(-1, 2) % np.uint64(n):
        if counts[giver] > 1:
            counts[giver] -= 1
            counts[taker] += 1
    return np.array(counts, dtype=np.int64)


def below(n: int, rng: np.random.Philox) -> int:
    """A uniform whole number in [0, n), from the next bits of a stream."""
    return int(rng.random_raw()) % n
