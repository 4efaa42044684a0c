"""The queries of unicast routing: delay, nearest router, packets per link.

:mod:`.matrices` looks routes up in matrices of all pairs of routers; :mod:`.hops` searches them on
demand, for networks that are too large for matrices.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.runtime.distribute import open_array


class Kernel(Protocol):
    """The queries of numpy kernels on executors; picklable.  Routers are indices in id order."""

    @property
    def all_pairs_limit(self) -> int:
        """The largest set of candidates for which all `delays` are cheaper than :meth:`nearest`."""

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Return the indices of router ids."""

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Return the router ids of indices."""

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
        """Return the delays of routes between router indices in microseconds, row by row."""

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Return the share of packets lost on routes between router indices: float64, row by row.

        None if the network loses no packets.
        """

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the packets on each directed core link, from the packets on routes.

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
        """Return the packets on each directed core link, if the routes of each tree are merged.

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


class RouterIds:
    """The part of a :class:`Kernel` that translates router ids."""

    #: Name of a distributed array: router ids, ascending.
    routers: str

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Return the indices of router ids."""
        return np.searchsorted(open_array(self.routers), routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Return the router ids of indices."""
        return open_array(self.routers)[index]

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Return None: the network loses no packets."""
        return None


class Underlay(Protocol):
    """The router network under the overlay.

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

    @property
    def kernel(self) -> Kernel: ...
    @property
    def routers(self) -> np.ndarray: ...
    @property
    def links(self) -> int: ...
    @property
    def lan_us(self) -> int: ...

    def release(self) -> None:
        """Free the disk space of its files; the object cannot be used afterwards."""
        ...

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
