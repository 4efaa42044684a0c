"""The underlay of matrices: the delay and the predecessor of every pair of routers.

Every executor gets the matrices once as files, memory-mapped, so its Python workers share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.sparse import coo_array

from scribe_spark.runtime.distribute import discard_arrays, distribute_arrays, open_array
from scribe_spark.underlay.all_pairs import RouteMatrices
from scribe_spark.underlay.frames import add_delay, add_path_delay, packet_batch, read_routes
from scribe_spark.underlay.nearest import nearest
from scribe_spark.underlay.paths import last_links, merged_links, packets_on_links, path_links
from scribe_spark.underlay.protocol import PACKETS, RouterIds

__all__ = ["MatrixKernel", "MatrixUnderlay"]


@dataclass(frozen=True)
class MatrixKernel(RouterIds):
    """See :class:`~scribe_spark.underlay.protocol.Kernel`; reads distributed arrays.

    Attributes
    ----------
    delay, pred, exits, routers : str
        Names of the arrays: delay_us (R, R), predecessors (R, R), where routes leave pendant
        components (2, R), router ids (R,).
    """

    delay: str
    pred: str
    exits: str
    routers: str

    def open(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """delay_us (R, R) int32; pred (R, R); router ids (R,)."""
        return open_array(self.delay), open_array(self.pred), open_array(self.routers)

    @property
    def all_pairs_limit(self) -> int:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        return 48

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        arrays = open_array(self.delay), open_array(self.exits)
        return nearest(*arrays, queries, candidates, starts)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        return open_array(self.delay)[a, b].astype(np.int64)

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        pred = open_array(self.pred)
        totals = packets_on_links(pred, a, b, packets)
        link = np.flatnonzero(totals)
        return *np.divmod(link, len(pred)), totals[link]

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See :class:`~scribe_spark.underlay.protocol.Kernel`."""
        pred = open_array(self.pred)
        link, packets = np.unique(
            merged_links(last_links(pred), len(pred), tree, a, b), return_counts=True
        )
        return *np.divmod(link, len(pred)), packets


@dataclass(frozen=True)
class MatrixUnderlay:
    """See :class:`~scribe_spark.underlay.protocol.Underlay`; for up to 10,000 routers."""

    kernel: MatrixKernel
    routers: np.ndarray
    links: int
    lan_us: int

    @classmethod
    def of(
        cls, spark: SparkSession, routes: RouteMatrices, links: int, lan_us: int
    ) -> MatrixUnderlay:
        """Give each executor the matrices once."""
        names = distribute_arrays(
            spark,
            delay=routes.delay_us,
            pred=routes.pred,
            exits=routes.exits,
            routers=routes.routers,
        )
        return cls(MatrixKernel(*names), routes.routers, links, lan_us)

    def release(self) -> None:
        """See :class:`~scribe_spark.underlay.protocol.Underlay`."""
        kernel = self.kernel
        discard_arrays(kernel.delay, kernel.pred, kernel.exits, kernel.routers)

    def delay(self, frame: DataFrame, a: str, b: str, into: str = "delay_us") -> DataFrame:
        """See :class:`~scribe_spark.underlay.protocol.Underlay`."""
        return add_delay(frame, self, a, b, into)

    def path_delay(self, frame: DataFrame, path: str) -> DataFrame:
        """See :class:`~scribe_spark.underlay.protocol.Underlay`."""
        return add_path_delay(frame, self, path)

    def packets(self, frame: DataFrame) -> DataFrame:
        """See :class:`~scribe_spark.underlay.protocol.Underlay`."""
        kernel = self.kernel

        def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = read_routes(batches)
            for system, routes in rows.groupby("system", sort=True):
                yield _count_links(kernel, str(system), routes)

        keyed = frame.select("system", "src", "dst", "packets", "tree")
        merged = F.col("tree").isNotNull()
        # a tree's routes have to meet; other routes are counted wherever they are
        together = keyed.where(~merged).unionByName(keyed.where(merged).repartition("tree"))
        counts = together.mapInArrow(count, PACKETS)
        return counts.groupBy("system", "src", "dst").agg(F.sum("packets").alias("packets"))


def _count_links(kernel: MatrixKernel, system: str, routes: pd.DataFrame) -> pa.RecordBatch:
    _, pred, ids = kernel.open()
    last = last_links(pred)
    src, dst = kernel.index(routes["src"].to_numpy()), kernel.index(routes["dst"].to_numpy())
    if routes["tree"].notna().any():
        link = merged_links(last, len(ids), routes["tree"].to_numpy().astype(np.int64), src, dst)
        packets = np.ones(len(link), dtype=np.int64)
    else:
        pairs, route = np.unique(src * len(ids) + dst, return_inverse=True)
        row, link = path_links(last, *np.divmod(pairs, len(ids)))
        on_route = np.bincount(route, routes["packets"].to_numpy(np.float64), len(pairs))
        packets = on_route.astype(np.int64)[row]
    # a sparse matrix sums what falls on one link, by counting instead of sorting
    on_links = coo_array((packets, np.divmod(link, len(ids))), shape=(len(ids), len(ids)))
    totals = on_links.tocsr().tocoo()
    return packet_batch(system, ids[totals.row], ids[totals.col], totals.data)
