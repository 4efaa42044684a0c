"""The Pastry overlay: what each node knows, over an underlay, and its rule of routing.

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
    """Pastry's rule of routing, by what the nodes of a bucket know."""

    facts: Facts

    def __call__(
        self, first: int, tables: Tables, at: np.ndarray, key_hi: np.ndarray, key_lo: np.ndarray
    ) -> np.ndarray:
        """See :class:`~scribe_spark.overlay.next_hop.NextHop`."""
        states = States.of_tables(self.facts.ring, first, tables)
        return hop(states, is_node, at, Keys(key_hi, key_lo))[0]


class PastryOverlay(Overlay, GraphTables):
    """A Pastry network; its nodes know nobody yet.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    b, leaf_set
        As below.
    digits : int, optional
        Nodes that share so many first digits are in one bucket; by default as many as give every
        core work.

    Attributes
    ----------
    b : int
        Digits are base 2**b.
    leaf_set : int
        l.
    arrived : DataFrame or None
        `schemas.ARRIVAL_MESSAGES`, of nodes that have arrived by the protocol.
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
        """Perfect tables for `nodes` (`schemas.NODES`), to be freed by :meth:`release`."""
        made = cls(nodes, underlay, b, leaf_set)
        made.fill_perfectly()
        return made

    def fill_perfectly(self) -> None:
        """Let all nodes know what perfect tables tell them."""
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
        """Nodes that know what `knowledge` (`schemas.KNOWLEDGE`) says.

        Knowledge need not be perfect, nor complete: leaf sets may be of any length, entries
        missing; but who is known is there.  To be freed by :meth:`release`.
        """
        made = cls(knowledge.select(schemas.NODES.names), underlay, b, leaf_set)
        made.known = [tables_of_knowledge(knowledge, made.ring, b, leaf_set)]
        return made

    def own(self, release: Callable[[], None]) -> None:
        """Call `release` when the overlay is released."""
        self._owned.append(release)

    def arrival_messages(self) -> DataFrame | None:
        """See :meth:`Overlay.arrival_messages`."""
        return self.arrived

    def release(self) -> None:
        """Free the nodes' memory, and the tables that are the overlay's own."""
        super().release()
        for release in self._owned:
            release()

    @property
    def rule(self) -> PastryNextHop:
        """See :attr:`Overlay.rule`."""
        return PastryNextHop(self.ring.facts)

    @property
    def knowledge(self) -> DataFrame:
        """`schemas.KNOWLEDGE`, made anew by each query that reads it."""
        return to_knowledge(self.known[0], self.ring, self.underlay.kernel)

    @property
    def _cells(self) -> DataFrame:
        """The tables `CELLS` of all buckets."""
        return self.known[0].where(F.col("name") == CELLS)

    @property
    def leaf_sets(self) -> DataFrame:
        """`schemas.LEAF_SETS`: the nodes in each leaf set, with their places clockwise."""
        edges = self.edges.where(F.col("kind") == schemas.LEAF_SET)
        return edges.select(F.col("src").alias("node"), F.col("dst").alias("leaf"), "place")

    @property
    def vertices(self) -> DataFrame:  # type: ignore[override]
        """`schemas.NODE_VERTICES`."""
        return node_vertices(self.nodes)

    @property
    def edges(self) -> DataFrame:  # type: ignore[override]
        """`schemas.OVERLAY_EDGES`, made anew from `knowledge` by each query that reads it."""
        return overlay_edges(self.knowledge, self.nodes)

    def routing_table(self) -> DataFrame:
        """See :meth:`Overlay.routing_table`; leaf sets are not in it."""
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
