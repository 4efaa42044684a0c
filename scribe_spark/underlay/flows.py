"""The bandwidth of trees' edges, which share the rates of links between routers.

An edge of a tree is one flow on each directed link of its route; a flow gets the least rate per
flow of its links.  Groups do not share links with each other.  Rules: docs/rules.md, E4 and E5.
"""

from __future__ import annotations

import numpy as np

from scribe_spark.core.arrays import find_sorted
from scribe_spark.core.keys import key_of
from scribe_spark.underlay.protocol import Kernel

#: The number of routes that are in memory at once.
_ROUTES = 2**18


class Flows:
    """The flows of trees on links, at the beginning of a round; rates are in bit/s."""

    def __init__(
        self,
        kernel: Kernel,
        shared: bool,
        router: np.ndarray,
        group: np.ndarray,
        child: np.ndarray,
        parent: np.ndarray,
    ) -> None:
        assert kernel.link_rates is not None  # networks without rates are refused
        self._kernel, self.rates, self._shared = kernel, kernel.link_rates, shared
        self._router, self._group = router, group
        of, link = kernel.route_links(router[parent], router[child])
        on_links = key_of([group[child[of]], link], len(self.rates))
        # the keys (group, link) with flows, ascending, and the number of flows
        self.key, self.count = np.unique(on_links, return_counts=True)
        self._own = np.sort(key_of([child[of], link], len(self.rates)))
        #: The bandwidth of the edge from each member's parent; -1 without a parent.
        self.edge = np.full(len(router), -1.0)
        self.edge[child] = self._least(child, of, link)

    def bandwidth(self, child: np.ndarray, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the bandwidths (bit/s) and hops that children would have from parents: rule E5.

        A child's own flow, if it has one, goes over the route. The bandwidth of a route without
        links is infinite.
        """
        found, hops = np.empty(len(child)), np.empty(len(child), dtype=np.int64)
        for first in range(0, len(child), _ROUTES):
            some = slice(first, first + _ROUTES)
            ends = self._router[parent[some]], self._router[child[some]]
            of, link = self._kernel.route_links(*ends)
            found[some] = self._least(child[some], of, link)
            hops[some] = np.bincount(of, minlength=len(ends[0]))
        return found, hops

    def _least(self, child: np.ndarray, of: np.ndarray, link: np.ndarray) -> np.ndarray:
        """Return the bandwidth of each child: the least rate per flow on the links of its route."""
        rates = self.rates[link]
        if self._shared:
            on_links, below = (
                key_of([one, link], len(self.rates)) for one in (self._group[child[of]], child[of])
            )
            flows = np.r_[self.count, 0][find_sorted(self.key, on_links)]
            rates = rates / (flows - (find_sorted(self._own, below) >= 0) + 1)
        least = np.full(len(child), np.inf)
        np.minimum.at(least, of, rates)
        return least
