"""Leaf sets and routing tables in a form that can be saved, read and written by hand.

Nodes are given by number, together with their nodeIds and routers.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scribe_spark.core.arrays import offsets_of, struct_lists
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.leaf_set import LeafSets, covers_by_length
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.pastry.states import IsAlive, States, live_only
from scribe_spark.rounds.lives import KnowsLives, is_node
from scribe_spark.underlay.protocol import Kernel


@dataclass(frozen=True)
class Knowledge:
    """The leaf sets and routing tables of n nodes.

    The ring `known` has the n nodes (at `own`) and all nodes in their tables; routers are ids.
    """

    known: Ring
    own: np.ndarray
    leaf_sets: LeafSets
    routing_tables: RoutingTables

    def __len__(self) -> int:
        return len(self.own)

    def take(self, nodes: slice) -> Knowledge:
        """Return the leaf sets and tables of a slice of the nodes."""
        leaf_sets, tables = self.leaf_sets.take(nodes), self.routing_tables.take(nodes)
        return Knowledge(self.known, self.own[nodes], leaf_sets, tables)

    def to_arrow(self) -> pa.RecordBatch:
        """Return rows of `schemas.KNOWLEDGE`, one per node."""
        leaf_sets, tables = self.leaf_sets, self.routing_tables
        leaves = _columns(self.known.take(leaf_sets.leaves), "entry")
        entries = _columns(self.known.take(tables.entry), "entry")
        cells = {"row": tables.row, "col": tables.col}
        return pa.RecordBatch.from_pydict(
            {
                **_columns(self.known.take(self.own), "node"),
                "smaller": leaf_sets.smaller.astype(np.int32),
                "covers_ring": leaf_sets.covers_ring,
                "leaf_set": struct_lists(leaf_sets.offsets, leaves),
                "routing_table": struct_lists(tables.offsets, cells | entries),
            }
        )

    @classmethod
    def from_arrow(cls, rows: pa.RecordBatch, leaf_set: int) -> Knowledge:
        """Build from rows of `schemas.KNOWLEDGE`; l decides where ``covers_ring`` is NULL."""
        leaf_offsets, leaves = _structs(rows.column("leaf_set"))
        entry_offsets, entries = _structs(rows.column("routing_table"))
        first_leaf, first_entry = len(rows), len(rows) + len(leaves)
        covers = covers_by_length(np.diff(leaf_offsets), leaf_set)
        return cls(
            known=Ring.join(_ring(rows, "node"), _ring(leaves, "entry"), _ring(entries, "entry")),
            own=np.arange(first_leaf),
            leaf_sets=LeafSets(
                leaf_offsets,
                np.arange(first_leaf, first_entry),
                rows.column("smaller").to_numpy().astype(np.int64),
                np.asarray(pc.coalesce(rows.column("covers_ring"), pa.array(covers))),
            ),
            routing_tables=RoutingTables(
                entry_offsets,
                entries.column("row").to_numpy(),
                entries.column("col").to_numpy(),
                np.arange(first_entry, first_entry + len(entries)),
            ),
        )


def _columns(nodes: Ring, name: str) -> dict[str, np.ndarray]:
    """Return nodes as columns; `name` is the name of the column with their numbers."""
    hi, lo = nodes.hi.view(np.int64), nodes.lo.view(np.int64)
    return {name: nodes.node, "id_hi": hi, "id_lo": lo, "router": nodes.router}


def _ring(rows: pa.RecordBatch, name: str) -> Ring:
    """Return the nodes in columns of :func:`_columns`."""
    parts = [rows.column(column).to_numpy() for column in ("id_hi", "id_lo", name, "router")]
    hi, lo, node, router = parts
    return Ring(hi.view(np.uint64), lo.view(np.uint64), node, router)


def _structs(lists: pa.ListArray) -> tuple[np.ndarray, pa.RecordBatch]:
    """Return the offsets of lists of structs, and the fields of all structs as columns."""
    lengths = lists.value_lengths().to_numpy().astype(np.int64)
    return offsets_of(lengths), pa.RecordBatch.from_struct_array(lists.flatten())


# --- the knowledge of live nodes without dead nodes


def live_knowledge(states: States, lives: KnowsLives | None, kernel: Kernel) -> Knowledge:
    """Return the tables of the live nodes of a bucket without dead leaves and entries.

    Without `lives`, all nodes are alive.
    """
    is_alive = is_node if lives is None else lives.is_alive
    index = np.flatnonzero(is_alive(states.own))
    known, cells = states.known, states.cells[index]
    return Knowledge(
        Ring(known.hi, known.lo, known.node, kernel.ids(known.router)),
        states.own[index],
        _leaf_sets(states, is_alive, index),
        RoutingTables.of_dense(live_only(is_alive, cells)),
    )


def _leaf_sets(states: States, is_alive: IsAlive, index: np.ndarray) -> LeafSets:
    size, half, live = len(states.known), states.half, states.own[index]
    # 1. sort live leaves clockwise, from the farthest smaller to the farthest larger one
    leaves = states.leaves[index]
    place = np.where(is_alive(leaves), (leaves - live[:, None]) % size, 0)
    reach = place[:, :half].max(axis=1, initial=0)[:, None]
    order = np.where(place > reach, place, np.where(place > 0, place + size, 3 * size))
    order.sort(axis=1)
    order[:, 1:][order[:, 1:] == order[:, :-1]] = 3 * size  # a leaf on both sides
    there = order < 3 * size
    lengths = there.sum(axis=1)
    # 2. a leaf set that covered the ring with its dead leaves still does, and so does an empty one
    covers = states.covers_ring(index) | (lengths == 0)
    return LeafSets(
        offsets_of(lengths),
        ((live[:, None] + order) % size)[there],
        (order < size).sum(axis=1),
        covers,
    )
