"""The Pastry overlay: leaf sets and routing tables over an underlay, and the routing rule.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.engine import Tables
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import as_constant
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.bucket_tables import tables_of_knowledge, to_knowledge
from scribe_spark.pastry.closeness import Keys
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.nodes import node_vertices
from scribe_spark.pastry.overlay_graph import overlay_edges
from scribe_spark.pastry.perfect_tables import perfect_tables
from scribe_spark.pastry.prefix_summaries import bucket_digits
from scribe_spark.pastry.routing_table import routing_table, table_entries
from scribe_spark.pastry.states import CELLS, States, is_node
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.underlay.protocol import Underlay


@dataclass(frozen=True)
class PastryNextHop:
    """Pastry's routing rule, on the leaf sets and routing tables in a bucket."""

    facts: Facts

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.next_hop.NextHop`."""
        states = States.of_tables(self.facts.ring, first, tables)
        return hop(states, is_node, at, Keys(key_hi, key_lo))[0]


class PastryOverlay(Overlay, GraphTables):
    """A Pastry network, whose nodes at first know no other node.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    b, leaf_set
        See the attributes.
    digits : int, optional
        Nodes that share this number of first digits are in one bucket; by default chosen so that
        every core has work.

    Attributes
    ----------
    b : int
        The base of digits is 2**b.
    leaf_set : int
        The number of nodes in a leaf set, l.
    arrived : DataFrame or None
        Messages of nodes that arrived by the protocol: `schemas.ARRIVAL_MESSAGES`.
    """

    def __init__(
        self,
        nodes: DataFrame,
        underlay: Underlay,
        b: int,
        leaf_set: int,
        digits: int | None = None,
    ) -> None:
        cores = parallelism(nodes.sparkSession)

        def digits_of(count: int) -> int:
            return digits or bucket_digits(b, count, len(underlay.routers), cores)

        super().__init__(nodes, underlay, lambda count: b * digits_of(count))
        self.b, self.leaf_set, self.digits = b, leaf_set, digits_of(len(self.ring))
        self.arrived: DataFrame | None = None
        self._owned: list[Callable[[], None]] = []

    @classmethod
    def perfect(cls, nodes: DataFrame, underlay: Underlay, b: int, leaf_set: int) -> PastryOverlay:
        """Return a Pastry with perfect tables; free it by :meth:`release`."""
        made = cls(nodes, underlay, b, leaf_set)
        made.fill_perfectly()
        return made

    def fill_perfectly(self) -> None:
        """Fill the leaf sets and routing tables of all nodes perfectly."""
        tables = perfect_tables(self.ring, self.underlay, self.b, self.leaf_set, self.digits)
        self.known = [materialise(as_constant(tables))[0]]

    @classmethod
    def of_knowledge(
        cls,
        knowledge: DataFrame,
        underlay: Underlay,
        b: int,
        leaf_set: int,
    ) -> PastryOverlay:
        """Return a Pastry with the leaf sets and tables of `knowledge` (`schemas.KNOWLEDGE`).

        Leaf sets may have any length, and entries may be missing, but every known node must exist.
        Free it by :meth:`release`.
        """
        made = cls(knowledge.select(schemas.NODES.names), underlay, b, leaf_set)
        made.known = [tables_of_knowledge(knowledge, made.ring, b, leaf_set)]
        return made

    def own(self, release: Callable[[], None]) -> None:
        """Register a function that :meth:`release` calls."""
        self._owned.append(release)

    def arrival_messages(self) -> DataFrame | None:
        """See :meth:`Overlay.arrival_messages`."""
        return self.arrived

    def release(self) -> None:
        """Free the memory of the nodes and the overlay's own tables."""
        super().release()
        for release in self._owned:
            release()

    @property
    def rule(self) -> PastryNextHop:
        """See :attr:`Overlay.rule`."""
        return PastryNextHop(self.ring.facts)

    @property
    def knowledge(self) -> DataFrame:
        """`schemas.KNOWLEDGE`; each query computes the table again."""
        return to_knowledge(self.known[0], self.ring, self.underlay.kernel)

    @property
    def _cells(self) -> DataFrame:
        """The tables `CELLS` of all buckets."""
        return self.known[0].where(F.col("name") == CELLS)

    @property
    def leaf_sets(self) -> DataFrame:
        """The nodes in each leaf set, in clockwise order: `schemas.LEAF_SETS`."""
        edges = self.edges.where(F.col("kind") == schemas.LEAF_SET)
        return edges.select(F.col("src").alias("node"), F.col("dst").alias("leaf"), "place")

    @property
    def vertices(self) -> DataFrame:  # type: ignore[override]
        """The nodes as vertices of a graph: `schemas.NODE_VERTICES`."""
        return node_vertices(self.nodes)

    @property
    def edges(self) -> DataFrame:  # type: ignore[override]
        """The links of the overlay: `schemas.OVERLAY_EDGES`; each query computes it again."""
        return overlay_edges(self.knowledge, self.nodes)

    def routing_table(self) -> DataFrame:
        """See :meth:`Overlay.routing_table`; the table does not contain leaf sets."""
        return routing_table(self._cells, self.ring)

    def table_entries(self) -> DataFrame:
        """See :meth:`Overlay.table_entries`."""
        return table_entries(self._cells)


def as_pastry(overlay: Overlay) -> PastryOverlay:
    """Return an overlay that has Pastry's tables, of which a caller makes use.

    Raises
    ------
    TypeError
        It is another one.
    """
    if not isinstance(overlay, PastryOverlay):
        raise TypeError(f"Pastry's tables are needed; {type(overlay).__name__} has none")
    return overlay
