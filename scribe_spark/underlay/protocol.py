"""The queries of unicast routing: delay, nearest router, packets per link, losses, withheld copies.

:mod:`.matrices` looks routes up in matrices of all pairs of routers; :mod:`.hops` searches them on
demand; :mod:`.pairs` has delays without a graph.  A node that withholds copies sends its own
publications, but no copy of another node's; perhaps no announcement, either (docs/rules.md, N6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark.core import draws
from scribe_spark.core.arrays import distinct, find_sorted, index_sorted, whole_numbers
from scribe_spark.core.errors import InputError
from scribe_spark.core.inputs import read_table
from scribe_spark.core.node_classes import NodeClasses
from scribe_spark.runtime.distribute import discard_arrays, open_array

if TYPE_CHECKING:
    from scribe_spark.config import ExperimentConfig


# --- nodes that withhold copies


@dataclass(frozen=True)
class Withheld:
    """The nodes that withhold copies of publications: drawn ones, or those of a list; picklable."""

    seed: int
    share: float = 0.0  # of all nodes
    #: The name of the distributed array with the numbers of the nodes that withhold, ascending.
    nodes: str | None = None
    announcements: bool = False  # True if announcements are withheld, too

    def of_nodes(self, node: np.ndarray) -> np.ndarray:
        """Return True for nodes (given by number) that withhold copies."""
        if self.nodes is not None:
            return find_sorted(open_array(self.nodes), node) >= 0
        drawn = draws.bits_np(self.seed, "withhold", node) >> np.uint64(11)
        return drawn * 2.0**-53 < self.share

    def release(self) -> None:
        """Free the disk space of the list of nodes."""
        if self.nodes is not None:
            discard_arrays(self.nodes)


# --- the nodes of a config that forward no copies of publications: rule N6


def withheld_nodes(config: ExperimentConfig) -> Withheld | np.ndarray | None:
    """Return the nodes that forward no copies: a rule, or numbers (ascending); None: none."""
    given = config.forwarding
    if given.withhold is None:
        return None
    if given.share is not None:
        return Withheld(config.seed, given.share, announcements=given.announcements)
    classes = NodeClasses.of(config)
    if (name := given.of_class(classes.names)) is not None:
        if len(classes.names) == 1:
            raise InputError("withhold", name, "is the class of all nodes; name one of several")
        of_node = classes.of_nodes(np.arange(config.overlay.nodes))
        return np.flatnonzero(of_node == classes.names.index(name))
    return _listed(given.withhold, config.overlay.nodes)


def _listed(path: str, nodes: int) -> np.ndarray:
    """Return the numbers of the nodes in a table's column ``node``."""
    node = read_table(path, "withhold", {"node": "int"})["node"].to_numpy(np.int64)
    if (bad := np.flatnonzero((node < 0) | (node >= nodes))).size:
        row = int(bad[0])
        what = f"row {row + 1} has node {node[row]}; nodes are 0 to {nodes - 1:,}"
        raise InputError("withhold", path, what)
    found = distinct(node)
    if len(found) == nodes:
        raise InputError("withhold", path, "has all nodes; some node must forward")
    return found


# --- queries of routes


class Kernel:
    """The interface of queries of routes, for numpy kernels on executors; picklable.

    Routers are indices in the order of their ids.

    Attributes
    ----------
    routers : str
        The name of the distributed array with the ids of routers, ascending.
    seed : int
        The seed that keys the draws of the jitter.
    jitter : int
        The greatest additional delay of a copy, in millionths of the delay; 0: none.
    has_links : bool
        False if the network has no links, so that packets are on no link between routers.
    withheld : Withheld or None
        The nodes that withhold copies of other nodes' publications; None: all nodes forward.
    """

    routers: str
    seed: int = 0
    jitter: int = 0
    has_links: bool = True
    withheld: Withheld | None = None

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the distributed arrays that the kernel reads."""
        raise NotImplementedError

    @property
    def all_pairs_limit(self) -> int:
        """The most candidates for which `delays` to all take less time than :meth:`nearest`."""
        raise NotImplementedError

    @property
    def least_us(self) -> int:
        """A lower bound of the delays between different routers, in microseconds."""
        return 0  # two routers may be at one place

    def index(self, routers: np.ndarray) -> np.ndarray:
        """Return the index of each router, given by its id."""
        return index_sorted(open_array(self.routers), routers)

    def ids(self, index: np.ndarray) -> np.ndarray:
        """Return the id of each router, given by its index."""
        return open_array(self.routers)[index]

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """Return the nearest candidate of each segment for each query router.

        `starts` (K,) has the beginnings of the segments of `candidates`, none of them empty; the
        first of equally near candidates counts.  The result has positions in `candidates`: int64,
        shape (Q, K).
        """
        raise NotImplementedError

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the delay (us) of the route from a to b (indices of routers), row by row."""
        raise NotImplementedError

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """Return the share of packets lost on each route from a to b (indices): float64.

        None if the network loses no packets.
        """
        return None

    def withholding(self, withheld: Withheld | None) -> Self:
        """Return the kernel of the same network in which the nodes `withheld` withhold copies."""
        return replace(self, withheld=withheld)  # type: ignore[type-var]

    def without_losses(self) -> Self:
        """Return the kernel of the same network, on which no packet is lost, or withheld."""
        return self.withholding(None)

    @property
    def link_rates(self) -> np.ndarray | None:
        """The rate of each directed link between routers, in bits per second: int64.

        The index is the number of the link.  None if the rates are unknown.
        """
        return None

    def route_links(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all links of the routes from a to b (indices): row of the route, and number.

        Links are numbered only if their rates are known.
        """
        raise NotImplementedError

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the packets on each directed link between routers, from the packets on routes.

        The routes go from a to b (indices).  Links are returned as columns: their two ends
        (indices), and the number of packets; LAN links are left out.  A network without links has
        none.
        """
        return whole_numbers(), whole_numbers(), whole_numbers()

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the packets on each directed core link if the routes of each tree are merged.

        `tree` has the tree of each route; all routes of a tree begin at one router, and each link
        of a tree carries one packet.  Rows may be repeated.  The columns are those of
        :meth:`link_packets`.
        """
        return whole_numbers(), whole_numbers(), whole_numbers()


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


@dataclass(frozen=True)
class Underlay:
    """The router network under the overlay, with the delays of routes."""

    kernel: Kernel
    routers: np.ndarray  # int64, shape (R,): ids, ascending
    links: int  # the number of directed links
    lan_us: int  # the delay of a node's LAN link, each way

    def release(self) -> None:
        """Free the disk space of the network's files; the object cannot be used afterwards."""
        discard_arrays(*self.kernel.arrays)

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        """Return `frame` with a column of delays D between two nodes, in microseconds (BIGINT).

        The columns `a` and `b` have the routers of two different nodes; NULL gives 0 (no hop).
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
