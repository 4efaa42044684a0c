"""Shares, rates and regions of the nodes at routers, from a network's file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.node_classes import NodeClasses, NodeRates


@dataclass(frozen=True, eq=False)
class Hosts:
    """The nodes at each router, in the order of router ids; None where nothing is said.

    Attributes
    ----------
    shares : ndarray of float64 or None
        Share of all nodes at each router, the sum being 1; None: equal shares.
    own_us : ndarray of int64 or None
        Delay between two nodes of the same router beside their LAN links; None: 0.
    up, down : ndarray of int64 or None
        Rates of each node at a router in bits per second; 0: unlimited.
    regions : tuple of str
        Names of regions; empty where the network has none.
    region : ndarray of int64 or None
        Index of each router's region.
    """

    shares: np.ndarray | None = None
    own_us: np.ndarray | None = None
    up: np.ndarray | None = None
    down: np.ndarray | None = None
    regions: tuple[str, ...] = ()
    region: np.ndarray | None = None

    def least_rates(self) -> list[int]:
        """Return the least rate up and the least down, as far as there are such."""
        found = (rate[rate > 0] for rate in (self.up, self.down) if rate is not None)
        return [int(rate.min()) for rate in found if len(rate)]

    def rates(
        self,
        classes: NodeClasses,
        nodes: np.ndarray,
        routers: np.ndarray,
        *,
        up: int = 0,
        down: int = 0,
        validation_us: int = 0,
    ) -> NodeRates:
        """Return the rates of nodes: of the class, or else of all nodes, or else of the router.

        Parameters
        ----------
        nodes, routers : ndarray of int64
            Numbers of nodes, and the index of the router of each.
        up, down, validation_us : int
            The values of all nodes; 0: the network's file says the rates, if any.
        """
        ups, downs = (
            rate if rate or of_routers is None else of_routers[routers]
            for rate, of_routers in ((up, self.up), (down, self.down))
        )
        return classes.rates(nodes, ups, downs, validation_us)


#: Equal shares, no rates, no regions.
NO_HOSTS = Hosts()
