"""What a network's file says of the nodes at its routers: shares, rates, regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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


#: Equal shares, no rates, no regions.
NO_HOSTS = Hosts()
