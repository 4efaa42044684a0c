"""The underlay of matrices: the delay and the predecessor of every pair of routers.

Every executor gets the matrices once as files, memory-mapped, so its Python workers share them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import SparkSession

from scribe_spark.runtime.distribute import distribute_arrays, open_array
from scribe_spark.underlay.all_pairs import RouteMatrices
from scribe_spark.underlay.nearest import nearest
from scribe_spark.underlay.paths import last_links, merged_links, packets_on_links
from scribe_spark.underlay.protocol import RouterIds, Underlay


@dataclass(frozen=True)
class MatrixKernel(RouterIds):
    """The queries of kernels by matrices, which are distributed arrays; fields are their names."""

    delay: str
    pred: str
    exits: str
    routers: str
    loss: str | None = None

    @property
    def arrays(self) -> tuple[str, ...]:
        lossy = () if self.loss is None else (self.loss,)
        return self.delay, self.pred, self.exits, self.routers, *lossy

    def open(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the delays (R, R) as int32, the predecessors (R, R) and the router ids (R,)."""
        return open_array(self.delay), open_array(self.pred), open_array(self.routers)

    @property
    def all_pairs_limit(self) -> int:
        return 48

    def nearest(
        self, queries: np.ndarray, candidates: np.ndarray, starts: np.ndarray
    ) -> np.ndarray:
        arrays = open_array(self.delay), open_array(self.exits)
        return nearest(*arrays, queries, candidates, starts)

    def delays(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        delay = open_array(self.delay)
        flat = a.astype(np.int64) * len(delay) + b  # one index takes a third of the time of two
        return delay.reshape(-1).take(flat).astype(np.int64)

    def losses(self, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        return None if self.loss is None else open_array(self.loss)[a, b]

    def link_packets(
        self, a: np.ndarray, b: np.ndarray, packets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pred = open_array(self.pred)
        link, totals = packets_on_links(pred, a, b, packets)
        return *np.divmod(link, len(pred)), totals

    def merged_packets(
        self, tree: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        pred = open_array(self.pred)
        on_links = merged_links(last_links(pred), len(pred), tree, a, b)
        link, packets = np.unique(on_links, return_counts=True)
        return *np.divmod(link, len(pred)), packets


class MatrixUnderlay(Underlay):
    """An underlay by matrices, for up to 10,000 routers."""

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        routes: RouteMatrices,
        links: int,
        lan_us: int,
        loss: np.ndarray | None = None,
    ) -> MatrixUnderlay:
        """Distribute the matrices to all executors, once."""
        names = distribute_arrays(
            spark,
            delay=routes.delay_us,
            pred=routes.pred,
            exits=routes.exits,
            routers=routes.routers,
            **({} if loss is None else {"loss": loss}),
        )
        return cls(MatrixKernel(*names), routes.routers, links, lan_us)
