"""The router graph, a plain record on the driver, and the kinds of topology that make graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scribe_spark.core.node_classes import NodeClasses, NodeRates
from scribe_spark.core.pair_delay import PairDelay

if TYPE_CHECKING:  # not on executors
    from scribe_spark.config import TopologyConfig


@dataclass(frozen=True, eq=False)
class Hosts:
    """Properties of the nodes at routers: shares, rates, places and regions; None if unknown."""

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
    #: int64 or None: the rates that the nodes file gives to nodes, by number; 0: none given.
    up_of_node: np.ndarray | None = None
    down_of_node: np.ndarray | None = None

    def least_rates(self) -> list[int]:
        """Return the least rates up and down of all routers and nodes that have one (bit/s)."""
        rates = self.up, self.down, self.up_of_node, self.down_of_node
        found = (rate[rate > 0] for rate in rates if rate is not None)
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
        """Return the rates of nodes (numbers) at routers (indices).

        The first rate counts: of the class, the nodes file, the setting (`up`, `down` in bit/s; 0:
        none), or the router.
        """
        ups, downs = (
            rate if rate or of_routers is None else of_routers[routers]
            for rate, of_routers in ((up, self.up), (down, self.down))
        )
        ups, downs = (
            usual if of_nodes is None else np.where(of_nodes[nodes] > 0, of_nodes[nodes], usual)
            for usual, of_nodes in ((ups, self.up_of_node), (downs, self.down_of_node))
        )
        return classes.rates(nodes, ups, downs, validation_us)


#: Equal shares, no rates, no regions.
NO_HOSTS = Hosts()


#: The resolution of delays is a microsecond, so that integer sums are exact in any order.
DELAY_DECIMALS = 3
#: The resolution of weights is a millionth, for the same reason.
WEIGHT_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class Graph:
    """A router graph on the driver; its size depends on the number of routers, not on the nodes.

    Attributes
    ----------
    vertices : pandas.DataFrame, shape (R, 5)
        ``id`` (int64), ``kind`` (``transit``, ``stub`` or None), ``domain`` (Int64, NA if unknown),
        ``x``, ``y`` (float64, NaN if unknown), ascending by id.
    edges : pandas.DataFrame, shape (links, 4 or 5)
        ``src``, ``dst`` (int64), ``delay_ms`` (float64, milliseconds, whole microseconds),
        ``weight`` (float64, for the choice of routes) and perhaps ``rate`` (float64, bits per
        second), one row per direction, ascending by (src, dst).
    source : str
        The origin of the graph, for messages.
    hosts : Hosts
        Shares, rates and regions of the nodes at the routers.
    losses : DataFrame or None
        ``src, dst, loss``: the share of packets that a link loses and, from a router to itself,
        that is lost between two of its nodes; None if no packets are lost.
    notes : tuple of str
        Lines about assumptions that were made, for the user.
    pairs : PairDelay or None
        The distribution of delays of pairs of nodes, in a network without links: each node is its
        own router.
    """

    vertices: pd.DataFrame
    edges: pd.DataFrame
    source: str = "graph"
    hosts: Hosts = NO_HOSTS
    losses: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    pairs: PairDelay | None = None


def router_frame(ids: Any, kind: Any = None, domain: Any = None, x: Any = np.nan, y: Any = np.nan):
    """Return routers as the ``vertices`` of a :class:`Graph` in their types, ascending by id."""
    frame = pd.DataFrame({"id": ids, "kind": kind, "domain": domain, "x": x, "y": y})
    frame = frame.astype({"domain": "Int64", "kind": object, "x": "float64", "y": "float64"})
    return frame.sort_values("id", kind="stable", ignore_index=True)


@dataclass(frozen=True)
class TopologyKind:
    """A kind of topology, which ``--topology NAME`` or ``--topology NAME:ARGUMENT`` selects.

    Attributes
    ----------
    name : str
        The name in ``--topology NAME``.
    make : callable
        ``make(argument, config, seed)`` returns a `Graph`, without Spark; random values in it must
        depend on the seed only.
    argument : str
        A word for the argument in messages, in capitals; empty for a kind without argument.
    is_kept : bool
        True if `make` gives the same graph for the same arguments, because it reads no file of a
        user; such a graph is kept and not made again.
    """

    name: str
    make: Callable[[str, TopologyConfig, int], Graph]
    argument: str = ""
    is_kept: bool = True

    @property
    def spelling(self) -> str:
        """The form in which a user writes the kind, for example ``topohub:NAME``."""
        return f"{self.name}:{self.argument}" if self.argument else self.name
