"""The underlay without a graph: one delay for each unordered pair of nodes, from a keyed hash.

Each node is its own router, whose index and id are the node's number, and has no LAN link; there
are no links between routers.  To find the nearest of many candidates, N nodes would need N * N
hashes, so each node compares at most :data:`MOST_CANDIDATES`, adjacent ones from a drawn place on.
Rules: docs/rules.md, J1 to J3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtri

from scribe_spark.core import draws
from scribe_spark.core.pair_delay import LEAST_US, MOST_US, PairDelay
from scribe_spark.underlay.protocol import Kernel, Underlay, Withheld

#: The number of candidates that a node compares to find the nearest one.
MOST_CANDIDATES = 256

_AT_ONCE = 2**14  # pairs whose delays are compared at once, so that they stay in the cache
_HALF = np.uint64(32)


def delays_of_bits(law: PairDelay, bits: np.ndarray) -> np.ndarray:
    """Return the delays that random bits (uint64) give, in whole microseconds: int64.

    Examples
    --------
    >>> bits = np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)
    >>> delays_of_bits(PairDelay.parse("uniform:10ms:150ms"), bits).tolist()
    [10000, 80000, 150000]
    >>> delays_of_bits(PairDelay.parse("lognormal:50ms:0.4"), bits).tolist()
    [3962, 50000, 630937]
    """
    if law.law == "lognormal":
        share = ((bits >> _HALF).astype(np.float64) + 0.5) * 2.0**-32
        drawn = np.rint(law.us * np.exp(law.sigma * ndtri(share)))
        return np.clip(drawn, LEAST_US, MOST_US).astype(np.int64)
    return law.us + draws.scaled(bits, law.most_us - law.us)


@dataclass(frozen=True)
class PairKernel(Kernel):
    """The queries of routes without a graph, by hashes of pairs of nodes; it has no arrays."""

    law: PairDelay
    seed: int
    jitter: int = 0
    withheld: Withheld | None = field(default=None, kw_only=True)

    has_links = False

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the distributed arrays that the kernel reads: none."""
        return ()

    @property
    def all_pairs_limit(self) -> int:
        return 128

    @property
    def least_us(self) -> int:
        """A lower bound of the delays between different nodes, in microseconds."""
        return int(delays_of_bits(self.law, np.zeros(1, dtype=np.uint64))[0])

    def index(self, routers: np.ndarray) -> np.ndarray:
        return np.asarray(routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        return np.asarray(index)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        return np.where(a == b, 0, self._drawn(a, b))

    def _drawn(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        pair = np.minimum(a, b) << 32 | np.maximum(a, b)
        return delays_of_bits(self.law, draws.bits_np(self.seed, "pair delay", pair))

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        found = np.empty((len(queries), len(starts)), dtype=np.int64)
        queries, candidates = (np.asarray(one, dtype=np.int64) for one in (queries, candidates))
        ends = np.r_[starts[1:], len(candidates)]
        for segment, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found[:, segment] = start + self._nearest_of(queries, candidates[start:end])
        return found

    def _nearest_of(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Return the position of each query's nearest candidate, the first of equals."""
        size = len(candidates)
        width = min(size, MOST_CANDIDATES)
        first = np.zeros(len(queries), dtype=np.int64)
        if width < size:
            bits = draws.bits_np(self.seed, "compared nodes", queries, int(candidates[0]))
            first = (bits % np.uint64(size)).astype(np.int64)
        compared = sliding_window_view(np.r_[candidates, candidates[: width - 1]], width)
        nearest = np.empty(len(queries), dtype=np.int64)
        step = max(1, _AT_ONCE // width)
        for at in range(0, len(queries), step):
            some = slice(at, at + step)
            delay_us = self._drawn(queries[some, None], compared[first[some]])
            nearest[some] = delay_us.argmin(axis=1)
        return (first + nearest) % size


def pair_underlay(nodes: int, law: PairDelay, seed: int, jitter: int = 0) -> Underlay:
    """Return the underlay of N nodes without a graph; `law` gives the delays."""
    return Underlay(PairKernel(law, seed, jitter), np.arange(nodes), links=0, lan_us=0)
