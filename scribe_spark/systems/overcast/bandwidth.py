"""Bandwidth along routes: rules E4 and E5.

An edge of a tree is one flow on each directed link of its route; a flow gets the least rate per
flow of its links.  Groups do not share links with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.core.arrays import find_sorted
from scribe_spark.core.keys import key_of
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Routes:
    """Routes, row by row, and their links.

    Attributes
    ----------
    hops : ndarray of int64, shape (r,)
        The number of links of each route.
    of, link : ndarray of int64
        The row of the route, and the number of the link.
    """

    hops: np.ndarray
    of: np.ndarray
    link: np.ndarray

    @classmethod
    def between(cls, kernel: Kernel, a: np.ndarray, b: np.ndarray) -> Routes:
        """Return the routes from routers `a` to routers `b` (indices)."""
        of, link = kernel.route_links(a, b)
        return cls(np.bincount(of, minlength=len(a)), of, link)

    def least(self, rate: np.ndarray) -> np.ndarray:
        """Return the least of the numbers of each route's links: infinite without links."""
        found = np.full(len(self.hops), np.inf)
        np.minimum.at(found, self.of, rate)
        return found


@dataclass(frozen=True)
class Flows:
    """The flows of trees on links, at the beginning of a round.

    Attributes
    ----------
    kernel : Kernel
        The network.
    rates : ndarray of int64, shape (L,)
        The rates of links in bits per second.
    shared : bool
        False if each flow has links of its own.
    key, count : ndarray of int64
        The links with flows, as keys (group, link), ascending, and the number of flows.
    own : ndarray of int64
        The links below each child, as keys (row of the child, link), ascending.
    """

    kernel: Kernel
    rates: np.ndarray
    shared: bool
    key: np.ndarray
    count: np.ndarray
    own: np.ndarray

    @classmethod
    def of(
        cls, kernel: Kernel, shared: bool, routes: Routes, group: np.ndarray, child: np.ndarray
    ) -> Flows:
        """Return the flows of edges, row by row: the route, the group and the row of the child."""
        rates = kernel.link_rates
        assert rates is not None  # `OvercastConfig.check_network`
        on_links = key_of([group[routes.of], routes.link], len(rates))
        key, count = np.unique(on_links, return_counts=True)
        own = np.sort(key_of([child[routes.of], routes.link], len(rates)))
        return cls(kernel, rates, shared, key, count, own)

    def on(self, routes: Routes, group: np.ndarray) -> np.ndarray:
        """Return the flows of the groups on all links of routes: int64."""
        index = find_sorted(self.key, key_of([group[routes.of], routes.link], len(self.rates)))
        return np.where(index < 0, 0, self.count[index]) if len(self.key) else index * 0

    def of_edges(self, routes: Routes, group: np.ndarray) -> np.ndarray:
        """Return the bandwidths of edges that are flows: float64 in bits per second."""
        rates = self.rates[routes.link]
        return routes.least(rates / self.on(routes, group) if self.shared else rates)

    def of_probes(self, routes: Routes, group: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Return the bandwidths that children would have on other routes: float64.

        A probe counts one flow more, and not the prober's own.
        """
        rates = self.rates[routes.link]
        if not self.shared:
            return routes.least(rates)
        mine = key_of([child[routes.of], routes.link], len(self.rates))
        without = self.on(routes, group) - (find_sorted(self.own, mine) >= 0)
        return routes.least(rates / (without + 1))
