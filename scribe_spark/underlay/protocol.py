"""The queries of unicast routing: delay, nearest router, packets per link.

:mod:`.matrices` looks routes up in matrices of all pairs of routers; :mod:`.hops` searches them on
demand, for networks that are too large for matrices; :mod:`.pairs` has delays of pairs of nodes
without a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark.core.arrays import index_sorted
from scribe_spark.runtime.distribute import discard_arrays, open_array
from scribe_spark.underlay.withheld import Withheld


class Kernel(Protocol):
    """The interface of queries of routes, for numpy kernels on executors; picklable.

    Routers are indices in the order of their ids.
    """

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the distributed arrays that the kernel reads."""

    @property
    def all_pairs_limit(self) -> int:
        """The most candidates for which `delays` to all take less time than :meth:`nearest`."""

    @property
    def least_us(self) -> int:
        """A lower bound of the delays between different routers, in microseconds."""

    @property
    def seed(self) -> int:
        """The seed that keys the draws of the jitter."""

    @property
    def jitter(self) -> int:
        """The greatest additional delay of a copy, in millionths of the delay; 0: none."""

    @property
    def has_links(self) -> bool:
        """False if the network has no links, so that packets are on no link between routers."""

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Return the index of each router, given by its id."""

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Return the id of each router, given by its index."""

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """Return the nearest candidate of each segment for each query router.

        Parameters
        ----------
        queries : ndarray of int, shape (Q,)
            Router indices.
        candidates : ndarray of int, shape (C,)
            Router indices, most preferred first within a segment: the first of equals wins.
        starts : ndarray of int, shape (K,)
            The beginning of each (non-empty) segment of `candidates`.

        Returns
        -------
        ndarray of int64, shape (Q, K)
            Positions in `candidates`.
        """

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the delay (us) of the route from a to b (indices of routers), row by row."""

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Return the share of packets lost on each route from a to b (indices): float64.

        None if the network loses no packets.
        """

    @property
    def withheld(self) -> Withheld | None:
        """The nodes that withhold copies of other nodes' publications; None: all nodes forward."""

    def withholding(self, withheld: Withheld | None) -> Self:
        """Return the kernel of the same network in which the nodes `withheld` withhold copies."""

    def without_losses(self) -> Self:
        """Return the kernel of the same network, on which no packet is lost, or withheld."""

    @property
    def link_rates(self) -> np.ndarray | None:
        """The rate of each directed link between routers, in bits per second: int64.

        The index is the number of the link.  None if the rates are unknown.
        """

    def route_links(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all links of the routes from a to b (indices): row of the route, and number."""

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the packets on each directed link between routers, from the packets on routes.

        Such a link is a *core link*; LAN links are not counted.

        Parameters
        ----------
        a, b : ndarray of int64, shape (M,)
            The router indices of the ends of each route.
        packets : ndarray of int64, shape (M,)
            The packets on each route.

        Returns
        -------
        sender, receiver, packets : ndarray of int64, shape (L,)
            The router indices of the ends of each link with packets, and the number of packets.
        """

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the packets on each directed core link if the routes of each tree are merged.

        Parameters
        ----------
        tree : ndarray of int64, shape (M,)
            The tree of each route; each link of a tree carries one packet.  Rows may be repeated.
        a, b : ndarray of int64, shape (M,)
            The router indices of the ends of each route; all routes of a tree begin at one router.

        Returns
        -------
        sender, receiver, packets : ndarray of int64, shape (L,)
            The same values as :meth:`link_packets` returns.
        """


def node_delays(kernel: Kernel, lan_us: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the delays D between pairs of different nodes in microseconds: int64.

    `a` and `b` are the router indices of the nodes.  D is the delay of the route between the
    routers, and of the LAN links of the two nodes, `lan_us` each.
    """
    return kernel.delays(a, b) + 2 * lan_us


def narrowest(kernel: Kernel, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the least rate (bit/s) of the links on each route from a to b: float64.

    It is infinite for a route without links.
    """
    least = np.full(len(a), np.inf)
    if kernel.link_rates is not None:
        route, link = kernel.route_links(a, b)
        np.minimum.at(least, route, kernel.link_rates[link])
    return least


class RouterIds:
    """The part of a :class:`Kernel` that translates between ids and indices of routers."""

    #: The name of the array with router ids, ascending.
    routers: str
    withheld: Withheld | None = None

    #: See `Kernel`.
    seed: int = 0
    jitter: int = 0
    has_links: bool = True

    @property
    def least_us(self) -> int:
        """Return 0: two routers may be at one place."""
        return 0

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of all arrays of the kernel."""
        raise NotImplementedError

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Return the index of each router, given by its id."""
        return index_sorted(open_array(self.routers), routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Return the id of each router, given by its index."""
        return open_array(self.routers)[index]

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Return None: the network loses no packets."""
        return None

    def withholding(self, withheld: Withheld | None) -> Self:
        """Return the kernel of the same network in which the nodes `withheld` withhold copies."""
        return replace(self, withheld=withheld)  # type: ignore[type-var]

    def without_losses(self) -> Self:
        """Return the kernel of the same network, without losses."""
        return self.withholding(None)

    @property
    def link_rates(self) -> np.ndarray | None:
        """None: the rates of links are unknown."""
        return None

    def route_links(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Raise an error: links are numbered only if their rates are known."""
        raise NotImplementedError


@dataclass(frozen=True)
class Underlay:
    """The router network under the overlay, with the delays of routes.

    Attributes
    ----------
    kernel : Kernel
    routers : ndarray of int64, shape (R,)
        Router ids, ascending.
    links : int
        Directed links.
    lan_us : int
        Delay of a node's LAN link, each way.
    """

    kernel: Kernel
    routers: np.ndarray
    links: int
    lan_us: int

    def release(self) -> None:
        """Free the disk space of the network's files; the object cannot be used afterwards."""
        discard_arrays(*self.kernel.arrays)

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        """Return `frame` with a column of delays D between two nodes, in microseconds (BIGINT).

        Parameters
        ----------
        frame : DataFrame
            The rows.
        a, b : str
            Columns with the routers of two different nodes; NULL gives 0 (no hop).
        into : str
            The name of the new column.
        """
        kernel, lan_us = self.kernel, self.lan_us

        def add(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                present = batch.column(a).is_valid().to_numpy(zero_copy_only=False)
                present &= batch.column(b).is_valid().to_numpy(zero_copy_only=False)
                routers = (batch.column(end).filter(pa.array(present)) for end in (a, b))
                source, target = (kernel.index(some.to_numpy()) for some in routers)
                delay_us = np.zeros(len(present), dtype=np.int64)
                delay_us[present] = node_delays(kernel, lan_us, source, target)
                yield batch.append_column(into, pa.array(delay_us))

        schema = StructType([*frame.schema.fields, StructField(into, LongType(), True)])
        return frame.mapInArrow(add, schema)
