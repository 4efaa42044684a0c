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
    """Routes and their links: ``hops`` by route; the route ``of`` each ``link``."""

    hops: np.ndarray
    of: np.ndarray
    link: np.ndarray

    @classmethod
    def between(cls, kernel: Kernel, a: np.ndarray, b: np.ndarray) -> Routes:
        """Return the routes from routers `a` to routers `b` (indices)."""
        of, link = kernel.route_links(a, b)
        return cls(np.bincount(of, minlength=len(a)), of, link)


@dataclass(frozen=True)
class Flows:
    """The flows of trees on links, at the beginning of a round.

    Attributes
    ----------
    rates : ndarray of int64, shape (L,)
        The rates of links in bits per second.
    shared : bool
        False if each flow has links of its own.
    key, count : ndarray of int64
        The links with flows, as keys (group, link), ascending, and the number of flows.
    own : ndarray of int64
        The links below each child, as keys (row of the child, link), ascending.
    """

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
        return cls(rates, shared, key, count, own)

    def bandwidth(self, routes: Routes, group: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Return the bandwidths that children have on routes: float64, infinite without links.

        A child's own flow, if it has one, goes over the route.
        """
        rates = self.rates[routes.link]
        if self.shared:
            on_links, below = (
                key_of([one[routes.of], routes.link], len(self.rates)) for one in (group, child)
            )
            flows = np.r_[self.count, 0][find_sorted(self.key, on_links)]
            rates = rates / (flows - (find_sorted(self.own, below) >= 0) + 1)
        least = np.full(len(routes.hops), np.inf)
        np.minimum.at(least, routes.of, rates)
        return least
