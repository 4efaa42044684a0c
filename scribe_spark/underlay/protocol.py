"""The questions to unicast routing: delay, nearest router, packets per link.

The implementations: :mod:`.matrices` looks routes up in matrices of all pairs of routers;
:mod:`.hops` searches for them when asked, for networks too large for that.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from pyspark.sql import DataFrame

from scribe_spark.runtime.distribute import open_array


class Kernel(Protocol):
    """Questions of numpy kernels on executors; picklable.  Routers are indices in id order."""

    @property
    def all_pairs_limit(self) -> int:
        """Largest set of candidates for which all `delays` are cheaper than :meth:`nearest`."""

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Indices of router ids."""

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Router ids of indices."""

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """For each query router, the nearest candidate of each segment.

        Parameters
        ----------
        queries : ndarray of int, shape (Q,)
            Router indices.
        candidates : ndarray of int, shape (C,)
            Router indices, most preferred first within a segment: the first of equals wins.
        starts : ndarray of int, shape (K,)
            Where each (non-empty) segment of `candidates` begins.

        Returns
        -------
        ndarray of int64, shape (Q, K)
            Positions in `candidates`.
        """

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Route delay in microseconds between router indices, row by row."""

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Share of packets lost on the routes between router indices: float64, row by row.

        None in a network of which no loss is known.
        """

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Packets on each directed core link, when the routes between routers carry some.

        Parameters
        ----------
        a, b : ndarray of int64, shape (M,)
            Router indices: from where to where, row by row.
        packets : ndarray of int64, shape (M,)

        Returns
        -------
        sender, receiver, packets : ndarray of int64, shape (L,)
            Router indices of the ends of each link that carries packets, and how many.
        """

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Packets on each directed core link, when the routes of each tree are merged.

        Parameters
        ----------
        tree : ndarray of int64, shape (M,)
            Each link of a tree carries one packet of it; rows may be repeated.
        a, b : ndarray of int64, shape (M,)
            Router indices: from where to where; all rows of a tree begin at one router.

        Returns
        -------
        sender, receiver, packets : ndarray of int64, shape (L,)
            As of :meth:`link_packets`.
        """


class RouterIds:
    """The part of a :class:`Kernel` that translates router ids.

    Attributes
    ----------
    routers : str
        Name of a distributed array: router ids, ascending.
    """

    routers: str

    def index(self, routers: np.ndarray) -> np.ndarray:
        """See :class:`Kernel`."""
        return np.searchsorted(open_array(self.routers), routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """See :class:`Kernel`."""
        return open_array(self.routers)[index]

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """See :class:`Kernel`."""
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
        """Free the disk space of its files; it cannot be used any more."""
        ...

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        """`frame` and the delay D of each row, in microseconds (BIGINT), of two nodes.

        Parameters
        ----------
        frame : DataFrame
        a, b : str
            Columns with the routers of two different nodes; NULL gives 0 (no hop).
        into : str
            Name of the new column.
        """
