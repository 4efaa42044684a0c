"""The Pastry overlay: what each node knows, over an underlay, and its rule of routing.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.config import RunConfig
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.next_hop import RESERVED_COLUMNS, next_hop
from scribe_spark.pastry.tables import build_state
from scribe_spark.underlay.matrices import Underlay

__all__ = ["PastryOverlay"]


@dataclass(frozen=True)
class PastryOverlay(Overlay):
    """A Pastry network.

    Attributes
    ----------
    nodes : DataFrame
        ``node`` and all else of `tables.STATE` in one column, ``node_state``, partitioned by node.
        A hop's join copies every node's row, and a few columns are copied faster than many.
    underlay : Underlay
    b : int
        Digits are base 2**b.
    """

    nodes: DataFrame
    underlay: Underlay
    b: int

    reserved_columns = RESERVED_COLUMNS

    @classmethod
    def build(cls, nodes: DataFrame, underlay: Underlay, config: RunConfig) -> PastryOverlay:
        """Perfect tables for `nodes`."""
        return cls.of(build_state(nodes, underlay, config.b, config.leaf_set), underlay, config.b)

    @classmethod
    def of(cls, state: DataFrame, underlay: Underlay, b: int) -> PastryOverlay:
        """A network of `tables.STATE`, kept in memory until :meth:`release`."""
        node_state = F.struct(*[name for name in state.columns if name != "node"])
        nodes = state.repartition("node").select("node", node_state.alias("node_state"))
        return cls(nodes.persist(), underlay, b)

    @property
    def state(self) -> DataFrame:
        """`tables.STATE`: what each node knows."""
        return self.nodes.select("node", "node_state.*")

    def release(self) -> None:
        """Free the state's memory."""
        self.nodes.unpersist()

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """See :meth:`Overlay.next_hop`."""
        return next_hop(messages, self.nodes, self.b)
