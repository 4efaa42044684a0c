"""Leaf sets and routing tables in a form that can be saved, read and written by hand.

Nodes are given by number, together with their nodeIds and routers.  In a routing table, the entry
in a row and column shares `row` digits and has `column` next.

References
----------
JSAC 2002, Section II and Figure 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.core.arrays import offsets_of, row_numbers, row_values, struct_lists
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, read_together, read_typed
from scribe_spark.engine.facts import Facts, Ring
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows
from scribe_spark.engine.program import AT, deliver
from scribe_spark.pastry.states import (
    CELLS,
    LEAVES,
    NONE,
    IsAlive,
    LeafSets,
    States,
    covers_by_length,
    live_only,
)
from scribe_spark.rounds.events import KnowsLives, is_node
from scribe_spark.runtime.batches import Table
from scribe_spark.underlay.protocol import Kernel

_TABLES_AT_ONCE = 2**14


@dataclass(frozen=True)
class RoutingTables:
    """The filled cells of n nodes' routing tables, those of node i from ``offsets[i]`` on."""

    offsets: np.ndarray  # int64, shape (n + 1,)
    row: np.ndarray  # int32
    col: np.ndarray  # int32; a cell has at most one entry
    entry: np.ndarray  # int64: positions in a `Ring`

    @classmethod
    def of_dense(cls, tables: np.ndarray) -> RoutingTables:
        """Return routing tables from an array of positions (n, rows, 2**b); -1 is an empty cell."""
        filled = tables >= 0
        _, row, col = np.nonzero(filled)
        lengths = filled.sum(axis=(1, 2))
        cells = row.astype(np.int32), col.astype(np.int32)
        return cls(offsets_of(lengths), *cells, tables[filled].astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, nodes: slice) -> RoutingTables:
        """Return the routing tables of a slice of the nodes, as an object of this class."""
        offsets, own = row_values(self.offsets, nodes)
        return RoutingTables(offsets, self.row[own], self.col[own], self.entry[own])


def routing_table(known: DataFrame, ring: BucketRing) -> DataFrame:
    """Return a row for each entry of every node, from tables `CELLS`: `schemas.ROUTING_TABLE`."""
    facts, bounds = ring.facts, ring.bounds

    def entries(bucket: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        number, cells = facts.ring.node, columns["cells"]
        for start in range(0, len(cells), _TABLES_AT_ONCE):
            some = cells[start : start + _TABLES_AT_ONCE]
            node, row, col = np.nonzero(some >= 0)
            arrays = [
                number[bounds[bucket] + start + node],
                row.astype(np.int32),
                col.astype(np.int32),
                number[some[node, row, col]],
            ]
            names = schemas.ROUTING_TABLE.names
            yield pa.RecordBatch.from_arrays(list(map(pa.array, arrays)), names=names)

    return read_typed(known, entries, schemas.ROUTING_TABLE).frame


def table_entries(known: Table) -> pa.Table:
    """Count the nodes, and the filled cells of the routing tables `known`, packed as `ROWS`."""

    def count(bucket: int, columns: Columns) -> Iterator[pa.RecordBatch]:
        cells = columns["cells"]
        entries = sum(
            int((cells[start : start + _TABLES_AT_ONCE] >= 0).sum())
            for start in range(0, len(cells), _TABLES_AT_ONCE)
        )
        yield pa.RecordBatch.from_pydict({"nodes": [len(cells)], "entries": [entries]})

    counted = read_typed(known, count, schemas.TABLE_ENTRIES).to_arrow()
    sums = {name: [pc.sum(counted.column(name)).as_py() or 0] for name in counted.column_names}
    return pa.table(sums, counted.schema)


@dataclass(frozen=True)
class Knowledge:
    """The leaf sets and routing tables of the nodes `own` of a ring, as a run saves them."""

    known: Ring
    own: np.ndarray
    leaf_sets: LeafSets
    routing_tables: RoutingTables

    def __len__(self) -> int:
        return len(self.own)

    def take(self, nodes: slice) -> Knowledge:
        """Return the leaf sets and tables of a slice of the nodes, as an object of this class."""
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
        """Return the tables of nodes from rows of `schemas.KNOWLEDGE`."""
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
    """Return the nodes of a ring as columns; `name` is that of the column with their numbers."""
    hi, lo = nodes.hi.view(np.int64), nodes.lo.view(np.int64)
    return {name: nodes.node, "id_hi": hi, "id_lo": lo, "router": nodes.router}


def _ring(rows: pa.RecordBatch, name: str) -> Ring:
    """Return the nodes in columns of :func:`_columns` as a ring."""
    parts = [rows.column(column).to_numpy() for column in ("id_hi", "id_lo", name, "router")]
    hi, lo, node, router = parts
    return Ring(hi.view(np.uint64), lo.view(np.uint64), node, router)


def _structs(lists: pa.ListArray) -> tuple[np.ndarray, pa.RecordBatch]:
    """Return lists of structs as offsets, and the fields of all structs as columns."""
    lengths = lists.value_lengths().to_numpy().astype(np.int64)
    return offsets_of(lengths), pa.RecordBatch.from_struct_array(lists.flatten())


# --- between the tables of buckets and `Knowledge`


def live_knowledge(states: States, lives: KnowsLives | None, kernel: Kernel) -> Knowledge:
    """Return the tables of a bucket's live nodes without dead nodes; `lives` None: all live."""
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


#: Messages that fill the tables of nodes: a leaf set (``larger, smaller``, nearest first, padded
#: with :data:`NONE`), and an entry (``cell``: ``row * 2**b + column``, and ``entry``).
LEAF_SET, ENTRY = "leaf set", "entry"

_NODES_AT_ONCE = 4096


def to_knowledge(known: DataFrame, ring: BucketRing, kernel: Kernel) -> DataFrame:
    """Return the tables `LEAVES` and `CELLS` as rows of `schemas.KNOWLEDGE`, one per node; lazy."""
    facts, bounds = ring.facts, ring.bounds

    def knowledge(bucket: int, tables: Mapping[str, Columns]) -> Iterator[pa.RecordBatch]:
        states = States.of_tables(facts.ring, int(bounds[bucket]), tables)
        for first in range(0, len(states.own), _NODES_AT_ONCE):
            some = states.of(slice(first, first + _NODES_AT_ONCE))
            yield live_knowledge(some, None, kernel).to_arrow()

    return read_together(known, knowledge, schemas.KNOWLEDGE).frame


def tables_of_knowledge(
    knowledge: DataFrame, ring: BucketRing, b: int, leaf_set: int, rows: int = 1
) -> BucketTables:
    """Return the tables of buckets with saved knowledge, whose nodes must all exist."""
    facts, bounds = ring.facts, ring.bounds

    def leaf_sets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _messages(Knowledge.from_arrow(batch, leaf_set), facts, bounds, b)

    sent = schemas.conform(knowledge, schemas.KNOWLEDGE).mapInArrow(leaf_sets, ROWS)
    tables = BucketTables(ring.layout, sent)
    tables.play(Assemble(ring.bounds, b, leaf_set // 2, rows), "knowledge")
    return tables


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
    for kind, columns in ((LEAF_SET, leaf_set), (ENTRY, entries)):
        for to, name, packed in deliver(bounds, {kind: columns}):
            yield from pack_rows(to, 0, False, name, packed)


@dataclass(frozen=True)
class Assemble:
    """Puts the received leaf sets and entries into the tables of a bucket."""

    bounds: np.ndarray
    b: int
    half: int
    rows: int

    def step(self, bucket: int, tables: Tables, inbox: Inbox, superstep: int) -> Outbox:
        """Write the tables; no message is sent."""
        first, last = self.bounds[bucket], self.bounds[bucket + 1]
        sets, entries = inbox.get(LEAF_SET, {}), inbox.get(ENTRY, {})
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
