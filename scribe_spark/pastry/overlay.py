"""The Pastry overlay: what each node knows, over an underlay, and its rule of routing.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.layout import LAYOUT, pack_in_blocks
from scribe_spark.pastry.next_hop import RESERVED_COLUMNS, next_hop
from scribe_spark.pastry.nodes import node_vertices
from scribe_spark.pastry.overlay_graph import overlay_edges
from scribe_spark.pastry.perfect_tables import perfect_tables
from scribe_spark.pastry.routing_table import routing_table, table_entries
from scribe_spark.runtime.blocks import release
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.underlay.protocol import Underlay

__all__ = ["PastryOverlay"]


@dataclass(frozen=True)
class PastryOverlay(Overlay, GraphTables):
    """A Pastry network.

    Attributes
    ----------
    knowledge : DataFrame
        `schemas.KNOWLEDGE`: what each node knows; made when it is asked for.
    nodes : DataFrame
        `layout.LAYOUT`: the same laid out for routing, in memory and partitioned by node.
    underlay : Underlay
    b : int
        Digits are base 2**b.
    leaf_set : int
        l.
    owned : sequence of DataFrame
        Tables that :func:`~scribe_spark.runtime.blocks.materialise` made and that `knowledge` is
        read from; :meth:`release` frees them.
    arrived : DataFrame, optional
        `schemas.ARRIVAL_MESSAGES`, of nodes that have arrived by the protocol.
    """

    knowledge: DataFrame
    nodes: DataFrame
    underlay: Underlay
    b: int
    leaf_set: int
    owned: Sequence[DataFrame] = ()
    arrived: DataFrame | None = None

    reserved_columns = RESERVED_COLUMNS

    @classmethod
    def perfect(cls, nodes: DataFrame, underlay: Underlay, b: int, leaf_set: int) -> PastryOverlay:
        """Perfect tables for `nodes` (`schemas.NODES`), to be freed by :meth:`release`."""
        tables = perfect_tables(nodes, underlay, b, leaf_set)
        return cls(tables.knowledge, _kept(tables.packed), underlay, b, leaf_set)

    @classmethod
    def of_knowledge(
        cls, knowledge: DataFrame, underlay: Underlay, b: int, leaf_set: int
    ) -> PastryOverlay:
        """Nodes that know what `knowledge` (`schemas.KNOWLEDGE`) says.

        Knowledge need not be perfect, nor complete: leaf sets may be of any length, entries
        missing.  To be freed by :meth:`release`.
        """
        return cls.laid_out(knowledge, _packed(knowledge, b, leaf_set), underlay, b, leaf_set)

    @classmethod
    def laid_out(
        cls,
        knowledge: DataFrame,
        packed: DataFrame,
        underlay: Underlay,
        b: int,
        leaf_set: int,
        owned: Sequence[DataFrame] = (),
    ) -> PastryOverlay:
        """As :meth:`of_knowledge`, where `packed` (`layout.LAYOUT`) is made more cheaply.

        :meth:`release` frees the tables in `owned`, too.
        """
        return cls(knowledge, _kept(packed), underlay, b, leaf_set, owned)

    def arrival_messages(self) -> DataFrame | None:
        """See :meth:`Overlay.arrival_messages`."""
        return self.arrived

    def release(self) -> None:
        """Free the nodes' memory, and the tables that are the overlay's own."""
        super().release()
        for table in self.owned:
            release(table)

    def with_changes(self, changed: DataFrame, removed: DataFrame | None = None) -> PastryOverlay:
        """The overlay after some nodes' knowledge has changed; only these are laid out again.

        Parameters
        ----------
        changed : DataFrame
            `schemas.KNOWLEDGE` of the nodes that changed, or are new; all else stays.
        removed : DataFrame, optional
            ``node``: nodes that are there no more; messages to them are undeliverable.

        Returns
        -------
        PastryOverlay
            To be freed by :meth:`release`, like the one before.
        """
        packed = _packed(changed, self.b, self.leaf_set).repartition("node")
        gone = [changed, *([] if removed is None else [removed])]
        nodes, knowledge = self.nodes, self.knowledge
        for frame in gone:
            number = frame.select("node").repartition("node").hint("shuffle_hash")
            nodes = nodes.join(number, "node", "left_anti")
            knowledge = knowledge.join(number, "node", "left_anti")
        return PastryOverlay(
            knowledge.unionByName(changed),
            _kept(nodes.unionByName(packed)),
            self.underlay,
            self.b,
            self.leaf_set,
        )

    @property
    def state(self) -> DataFrame:
        """The columns of `layout.LAYOUT`, unnested."""
        return self.nodes.select("node", "node_state.*")

    @property
    def vertices(self) -> DataFrame:  # type: ignore[override]
        """`schemas.NODE_VERTICES`."""
        return node_vertices(self.state)

    @property
    def edges(self) -> DataFrame:  # type: ignore[override]
        """`schemas.OVERLAY_EDGES`, made anew from `knowledge` by each query that reads it."""
        return overlay_edges(self.knowledge, self.state)

    def next_hop(self, messages: DataFrame) -> DataFrame:
        """See :meth:`Overlay.next_hop`."""
        return next_hop(messages, self.nodes, self.b)

    def routing_table(self) -> DataFrame:
        """See :meth:`Overlay.routing_table`; leaf sets are not in it."""
        return routing_table(self.state, self.b)

    def table_entries(self) -> DataFrame:
        """See :meth:`Overlay.table_entries`; every node knows how many it has."""
        return table_entries(self.state)


def _packed(knowledge: DataFrame, b: int, leaf_set: int) -> DataFrame:
    """`layout.LAYOUT` of rows of `schemas.KNOWLEDGE`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from pack_in_blocks(Knowledge.from_arrow(batch, leaf_set), b)

    return schemas.conform(knowledge, schemas.KNOWLEDGE).mapInArrow(run, LAYOUT)


def _kept(packed: DataFrame) -> DataFrame:
    """`packed` in memory, partitioned by node."""
    return packed.repartition("node").persist()
