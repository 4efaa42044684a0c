"""Shares, rates and regions of the nodes at routers, from a network's file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scribe_spark.node_classes import NodeClasses, NodeRates


@dataclass(frozen=True, eq=False)
class Hosts:
    """The nodes at each router, in the order of router ids; None for unknown properties."""

    #: float64 or None: the share of all nodes at each router (their sum is 1); None: equal shares.
    shares: np.ndarray | None = None
    #: int64 or None: the delay between two nodes of the same router, in addition to their LAN
    #: links, in microseconds; None: 0.
    own_us: np.ndarray | None = None
    #: int64 or None: the rates of each node at a router in bits per second; 0: unlimited.
    up: np.ndarray | None = None
    down: np.ndarray | None = None
    #: The names of regions; empty if the network has none.
    regions: tuple[str, ...] = ()
    #: int64 or None: the index of each router's region.
    region: np.ndarray | None = None
    #: int32 or None: the index of each node's router, by the number of the node; None: routers are
    #: drawn.
    places: np.ndarray | None = None

    def least_rates(self) -> list[int]:
        """Return the least rate up and the least rate down, if there are any."""
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
        """Return the rates of nodes: from the class, else from the settings, else from the router.

        `routers` has the index of each node's router.  The settings `up` and `down` are bits per
        second, or 0 if the network's file decides.
        """
        ups, downs = (
            rate if rate or of_routers is None else of_routers[routers]
            for rate, of_routers in ((up, self.up), (down, self.down))
        )
        return classes.rates(nodes, ups, downs, validation_us)


#: Equal shares, no rates, no regions.
NO_HOSTS = Hosts()
