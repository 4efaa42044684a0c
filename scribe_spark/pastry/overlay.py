"""The Pastry overlay: leaf sets and routing tables over an underlay, and the routing rule.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark import schemas
from scribe_spark.core.arrays import row_numbers
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, read_together
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, BucketTables, as_constant, pack_rows
from scribe_spark.engine.program import AT, deliver
from scribe_spark.engine.ring import Keys
from scribe_spark.overlay import Overlay
from scribe_spark.pastry.knowledge import Knowledge, live_knowledge
from scribe_spark.pastry.next_hop import hop
from scribe_spark.pastry.nodes import node_vertices
from scribe_spark.pastry.perfect_tables import perfect_tables
from scribe_spark.pastry.prefix_summaries import bucket_digits
from scribe_spark.pastry.routing_table import routing_table, table_entries
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, States
from scribe_spark.rounds.lives import is_node
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.graph_frame import GraphTables
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.schemas import LEAF_SET, OVERLAY_EDGES, ROUTING_TABLE_ENTRY, conform
from scribe_spark.underlay.protocol import Kernel, Underlay


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
    """A Pastry network; its nodes know no other node until their tables are filled.

    :meth:`perfect` and :meth:`of_knowledge` return networks with filled tables.

    Parameters
    ----------
    nodes : DataFrame
        The nodes: ``node, id_hi, id_lo, router``.
    underlay : Underlay
        The routes between routers.
    b : int
        Digits of nodeIds have b bits.
    leaf_set : int
        The number of nodes in a leaf set, l; even.
    digits : int, optional
        The number of first digits of a nodeId that decide its bucket; by default chosen so that
        every core has work.

    Attributes
    ----------
    b : int
        Digits of nodeIds have b bits, so their base is 2**b.
    leaf_set : int
        The number of nodes in a leaf set, l.
    arrived : DataFrame or None
        The messages of nodes that arrived by the protocol: ``kind, messages``.
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
        """Return a Pastry network whose tables are perfect: each entry is the nearest fitting node.

        Free it by :meth:`release`.
        """
        made = cls(nodes, underlay, b, leaf_set)
        made.fill_perfectly()
        return made

    def fill_perfectly(self) -> None:
        """Fill all leaf sets, and each cell of all routing tables with the nearest fitting node."""
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
        """Return a Pastry network with the leaf sets and routing tables of a saved table.

        Leaf sets may have any length, and entries may be missing, but every known node must exist.
        Free the network by :meth:`release`.

        Parameters
        ----------
        knowledge : DataFrame
            A row for each node, with the columns of the table ``knowledge`` of a run
            (``--write-knowledge``).
        underlay, b, leaf_set
            The same arguments as in :class:`PastryOverlay`.
        """
        made = cls(knowledge.select(schemas.NODES.names), underlay, b, leaf_set)
        made.known = [tables_of_knowledge(knowledge, made.ring, b, leaf_set)]
        return made

    def own(self, release: Callable[[], None]) -> None:
        """Register a function that :meth:`release` calls."""
        self._owned.append(release)

    def arrival_messages(self) -> DataFrame | None:
        """Return the messages that nodes sent to arrive, or None: ``kind, messages``."""
        return self.arrived

    def release(self) -> None:
        """Free the memory of the nodes and the overlay's own tables."""
        super().release()
        for release in self._owned:
            release()

    @property
    def rule(self) -> PastryNextHop:
        """Pastry's rule for the next hop of a message."""
        return PastryNextHop(self.ring.facts)

    @property
    def knowledge(self) -> DataFrame:
        """The leaf set and the routing table of each node, as arrays; each query computes them
        again.

        It has a row for each node, with the columns of the table ``knowledge`` of a run.
        """
        return to_knowledge(self.known[0], self.ring, self.underlay.kernel)

    @property
    def _cells(self) -> DataFrame:
        """The tables `CELLS` of all buckets."""
        return self.known[0].where(F.col("name") == CELLS)

    @property
    def leaf_sets(self) -> DataFrame:
        """The nodes in each leaf set, in clockwise order: ``node, leaf, place``.

        ``place`` is 1, 2, ... for the next larger nodeIds and -1, -2, ... for the next smaller
        ones.
        """
        edges = self.edges.where(F.col("kind") == schemas.LEAF_SET)
        return edges.select(F.col("src").alias("node"), F.col("dst").alias("leaf"), "place")

    @property
    def vertices(self) -> DataFrame:  # type: ignore[override]
        """The nodes as vertices of a graph: ``id, id_hi, id_lo, router``."""
        return node_vertices(self.nodes)

    @property
    def edges(self) -> DataFrame:  # type: ignore[override]
        """The links of the overlay: ``src, dst, kind, row, col, place``; each query computes them
        again.

        ``kind`` is ``leaf_set`` (with ``place``) or ``routing_table`` (with ``row`` and ``col``).
        """
        return overlay_edges(self.knowledge, self.nodes)

    def routing_table(self) -> DataFrame:
        """Return the entries of all nodes' routing tables, without leaf sets: ``node, row, col,
        entry``.
        """
        return routing_table(self._cells, self.ring)

    def table_entries(self) -> DataFrame:
        """Return one row: ``nodes, entries``, the numbers of nodes and of entries in routing
        tables.
        """
        return table_entries(self._cells)


def as_pastry(overlay: Overlay) -> PastryOverlay:
    """Return an overlay that has Pastry's tables; raise TypeError for another one."""
    if not isinstance(overlay, PastryOverlay):
        raise TypeError(f"Pastry's tables are needed; {type(overlay).__name__} has none")
    return overlay


# --- conversion between tables of buckets and `schemas.KNOWLEDGE`

#: Messages that fill the tables of nodes: a leaf set (``larger, smaller``, nearest first, padded
#: with :data:`NONE`), and an entry (``cell``: ``row * 2**b + column``, and ``entry``).
_LEAF_SET, _ENTRY = "leaf set", "entry"

_NODES_AT_ONCE = 4096


def to_knowledge(known: DataFrame, ring: BucketRing, kernel: Kernel) -> DataFrame:
    """Return `schemas.KNOWLEDGE`, one row per node, of tables `LEAVES` and `CELLS`; lazy."""
    facts, bounds = ring.facts, ring.bounds

    def knowledge(bucket: int, tables: Mapping[str, Columns]) -> Iterator[pa.RecordBatch]:
        states = States.of_tables(facts.ring, int(bounds[bucket]), tables)
        for first in range(0, len(states.own), _NODES_AT_ONCE):
            some = states.of(slice(first, first + _NODES_AT_ONCE))
            yield live_knowledge(some, None, kernel).to_arrow()

    return read_together(known, knowledge, schemas.KNOWLEDGE).frame


def tables_of_knowledge(knowledge: DataFrame, ring: BucketRing, b: int, leaf_set: int) -> DataFrame:
    """Return the tables of buckets with the contents of `schemas.KNOWLEDGE`, materialised.

    Leaf sets may have any length and entries may be missing, but every known node must exist.
    """
    facts, bounds = ring.facts, ring.bounds

    def leaf_sets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _messages(Knowledge.from_arrow(batch, leaf_set), facts, bounds, b)

    sent = schemas.conform(knowledge, schemas.KNOWLEDGE).mapInArrow(leaf_sets, ROWS)
    tables = BucketTables(ring.layout, sent)
    tables.play(Assemble(ring.bounds, b, leaf_set // 2), "knowledge")
    return tables.constant(LEAVES, CELLS)


def _messages(
    knowledge: Knowledge, facts: Facts, bounds: np.ndarray, b: int
) -> Iterator[pa.RecordBatch]:
    """Yield the leaf sets and the entries of nodes as messages to these nodes."""
    known = knowledge.known
    position = facts.positions(known.node)
    at, sets, tables = position[knowledge.own], knowledge.leaf_sets, knowledge.routing_tables
    lengths = np.diff(sets.offsets)
    # both sides, nearest first; if the set covers the ring, a side contains all of its leaves
    covers, larger = sets.covers_ring, lengths - sets.smaller
    count = {"larger": np.where(covers & (larger == 0), lengths, larger)}
    count["smaller"] = np.where(covers, lengths, sets.smaller)
    leaf_set: dict[str, np.ndarray] = {AT: at}
    for side, sign in (("larger", 1), ("smaller", -1)):
        wide = int(count[side].max(initial=0))
        step = np.arange(wide)
        start = sets.smaller if sign > 0 else sets.smaller - 1
        place = (start[:, None] + sign * step) % np.maximum(lengths, 1)[:, None]
        there = step < count[side][:, None]
        column = np.full((len(at), wide), NONE, dtype=np.int64)
        index = (sets.offsets[:-1, None] + place)[there]
        column[there] = position[sets.leaves[index]]
        leaf_set[side] = column
    entries = {
        AT: at[row_numbers(tables.offsets)],
        "cell": tables.row.astype(np.int64) * 2**b + tables.col,
        "entry": position[tables.entry],
    }
    for kind, columns in ((_LEAF_SET, leaf_set), (_ENTRY, entries)):
        for to, name, packed in deliver(bounds, {kind: columns}):
            yield from pack_rows(to, 0, False, name, packed)


@dataclass(frozen=True)
class Assemble:
    """Puts the received leaf sets and entries into the tables of a bucket.

    The tables have at least `half` leaves per side, and `rows` rows.
    """

    bounds: np.ndarray
    b: int
    half: int
    rows: int = 1

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the tables; no message is sent."""
        first, last = self.bounds[bucket], self.bounds[bucket + 1]
        sets, entries = inbox.get(_LEAF_SET, {}), inbox.get(_ENTRY, {})
        sides = [sets[side] for side in ("larger", "smaller")] if sets else []
        half = max([self.half, *(side.shape[1] for side in sides)])
        leaves = np.full((last - first, 2 * half), NONE, dtype=np.int32)
        for number, side in enumerate(sides):
            start = number * half
            leaves[sets[AT] - first, start : start + side.shape[1]] = side
        cell = entries["cell"] if entries else np.empty(0, dtype=np.int64)
        rows = max(self.rows, 1 + int(cell.max(initial=0)) // 2**self.b)
        cells = np.full((last - first, rows, 2**self.b), NONE, dtype=np.int32)
        if entries:
            cells.reshape(last - first, -1)[entries[AT] - first, cell] = entries["entry"]
        tables[LEAVES], tables[CELLS] = {"leaves": leaves}, {"cells": cells}
        return {}


# --- the overlay as a graph: nodes are vertices; leaves and table entries are edges


def overlay_edges(knowledge: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the edges of all nodes to existing nodes: `schemas.OVERLAY_EDGES`.

    A node that is in another node's leaf set and in its routing table has two edges from there. A
    GraphFrame needs a vertex at both ends of an edge, so edges to other nodes are left out.
    """
    edges = leaf_set_edges(knowledge).unionByName(routing_table_edges(knowledge))
    return edges.join(nodes.select(F.col("node").alias("dst")), "dst", "left_semi").select(
        OVERLAY_EDGES.names
    )


def leaf_set_edges(knowledge: DataFrame) -> DataFrame:
    """Return the edges of all leaf sets (`schemas.KNOWLEDGE`): `schemas.OVERLAY_EDGES`."""
    leaves = knowledge.select("node", "smaller", F.posexplode("leaf_set").alias("index", "leaf"))
    clockwise = F.col("index") - F.col("smaller")
    edges = leaves.select(
        F.col("node").alias("src"),
        F.col("leaf.entry").alias("dst"),
        F.lit(LEAF_SET).alias("kind"),
        F.lit(None).alias("row"),
        F.lit(None).alias("col"),
        # the node itself, at 0, is not in its leaf set
        F.when(clockwise < 0, clockwise).otherwise(clockwise + 1).alias("place"),
    )
    return conform(edges, OVERLAY_EDGES)


def routing_table_edges(knowledge: DataFrame) -> DataFrame:
    """Return the edges of all routing tables (`schemas.KNOWLEDGE`): `schemas.OVERLAY_EDGES`."""
    entries = knowledge.select("node", F.explode("routing_table").alias("cell"))
    edges = entries.select(
        F.col("node").alias("src"),
        F.col("cell.entry").alias("dst"),
        F.lit(ROUTING_TABLE_ENTRY).alias("kind"),
        F.col("cell.row").alias("row"),
        F.col("cell.col").alias("col"),
        F.lit(None).alias("place"),
    )
    return conform(edges, OVERLAY_EDGES)
