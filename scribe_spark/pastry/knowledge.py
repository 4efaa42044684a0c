"""Leaf sets and routing tables in a form that can be saved, read and written by hand.

Nodes are given by number, together with their nodeIds and routers.  In a routing table, the entry
in a row and column shares `row` digits and has `column` next.

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
from scribe_spark.core.arrays import offsets_of, row_numbers, struct_lists
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, read_together, read_typed
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows
from scribe_spark.engine.program import AT, deliver
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, IsAlive, States, live_only
from scribe_spark.rounds.events import is_node
from scribe_spark.runtime.batches import Table
from scribe_spark.underlay.protocol import Kernel

_TABLES_AT_ONCE = 2**14


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


# --- from the tables of buckets to saved rows

_NODES_AT_ONCE = 4096


def to_knowledge(known: DataFrame, ring: BucketRing, kernel: Kernel) -> DataFrame:
    """Return the tables `LEAVES` and `CELLS` as rows of `schemas.KNOWLEDGE`, one per node; lazy."""
    facts, bounds = ring.facts, ring.bounds

    def knowledge(bucket: int, tables: Mapping[str, Columns]) -> Iterator[pa.RecordBatch]:
        states = States.of_tables(facts.ring, int(bounds[bucket]), tables)
        return live_knowledge(states, is_node, kernel)

    return read_together(known, knowledge, schemas.KNOWLEDGE).frame


def live_knowledge(states: States, is_alive: IsAlive, kernel: Kernel) -> Iterator[pa.RecordBatch]:
    """Yield rows of `schemas.KNOWLEDGE` for live nodes, without dead leaves and entries."""
    known, live = states.known, np.flatnonzero(is_alive(states.own))

    def columns(position: np.ndarray, name: str = "entry") -> dict[str, np.ndarray]:
        nodes = known.take(position)
        ids = {"id_hi": nodes.hi.view(np.int64), "id_lo": nodes.lo.view(np.int64)}
        return {name: nodes.node, **ids, "router": kernel.ids(nodes.router)}

    for start in range(0, len(live), _NODES_AT_ONCE):
        index = live[start : start + _NODES_AT_ONCE]
        leaf_sets, offsets, leaves = _leaf_sets(states, is_alive, index)
        cells = live_only(is_alive, states.cells[index])
        _, row, col = np.nonzero(cells >= 0)
        entries = {"row": row.astype(np.int32), "col": col.astype(np.int32)}
        entries |= columns(cells[cells >= 0])
        ends = offsets_of((cells >= 0).sum(axis=(1, 2)))
        yield pa.RecordBatch.from_pydict(
            {
                **columns(states.own[index], "node"),
                **leaf_sets,
                "leaf_set": struct_lists(offsets, columns(leaves)),
                "routing_table": struct_lists(ends, entries),
            }
        )


def _leaf_sets(
    states: States, is_alive: IsAlive, index: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return ``smaller, covers_ring`` of live nodes, and their leaves as offsets and positions."""
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
    columns = {"smaller": (order < size).sum(axis=1).astype(np.int32), "covers_ring": covers}
    return columns, offsets_of(lengths), ((live[:, None] + order) % size)[there]


# --- from saved rows to the tables of buckets

#: Messages that fill the tables of nodes: a leaf set (``larger, smaller``, nearest first, padded
#: with :data:`NONE`), and an entry (``cell``: ``row * 2**b + column``, and ``entry``).
LEAF_SET, ENTRY = "leaf set", "entry"


def tables_of_knowledge(
    knowledge: DataFrame, ring: BucketRing, b: int, leaf_set: int, rows: int = 1
) -> BucketTables:
    """Return the tables of buckets with saved knowledge, whose nodes must all exist."""
    facts, bounds = ring.facts, ring.bounds

    def leaf_sets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _messages(batch, leaf_set, facts, bounds, b)

    sent = schemas.conform(knowledge, schemas.KNOWLEDGE).mapInArrow(leaf_sets, ROWS)
    tables = BucketTables(ring.layout, sent)
    tables.play(Assemble(ring.bounds, b, leaf_set // 2, rows), "knowledge")
    return tables


def _messages(
    rows: pa.RecordBatch, leaf_set: int, facts: Facts, bounds: np.ndarray, b: int
) -> Iterator[pa.RecordBatch]:
    """Yield the leaf sets and the entries in rows of `schemas.KNOWLEDGE` as messages to nodes."""
    at = facts.positions(rows.column("node").to_numpy())
    offsets, leaves = _structs(rows.column("leaf_set"))
    leaf, lengths = facts.positions(leaves.column("entry").to_numpy()), np.diff(offsets)
    smaller = rows.column("smaller").to_numpy().astype(np.int64)
    # with fewer than l leaves a node knows all others: it would have more leaves if it knew more
    by_length = pa.array(lengths < leaf_set)
    covers = np.asarray(pc.coalesce(rows.column("covers_ring"), by_length))
    # both sides, nearest first; if the set covers the ring, a side contains all of its leaves
    larger = lengths - smaller
    count = {"larger": np.where(covers & (larger == 0), lengths, larger)}
    count["smaller"] = np.where(covers, lengths, smaller)
    leaf_set_of: dict[str, np.ndarray] = {AT: at}
    for side, sign in (("larger", 1), ("smaller", -1)):
        wide = int(count[side].max(initial=0))
        step = np.arange(wide)
        start = smaller if sign > 0 else smaller - 1
        place = (start[:, None] + sign * step) % np.maximum(lengths, 1)[:, None]
        there = step < count[side][:, None]
        leaf_set_of[side] = np.full((len(at), wide), NONE, dtype=np.int64)
        leaf_set_of[side][there] = leaf[(offsets[:-1, None] + place)[there]]
    ends, cells = _structs(rows.column("routing_table"))
    row, col, entry = (cells.column(name).to_numpy() for name in ("row", "col", "entry"))
    entries = {
        AT: at[row_numbers(ends)],
        "cell": row.astype(np.int64) * 2**b + col,
        "entry": facts.positions(entry),
    }
    for kind, columns in ((LEAF_SET, leaf_set_of), (ENTRY, entries)):
        for to, name, packed in deliver(bounds, {kind: columns}):
            yield from pack_rows(to, 0, False, name, packed)


def _structs(lists: pa.ListArray) -> tuple[np.ndarray, pa.RecordBatch]:
    """Return lists of structs as offsets, and the fields of all structs as columns."""
    lengths = lists.value_lengths().to_numpy().astype(np.int64)
    return offsets_of(lengths), pa.RecordBatch.from_struct_array(lists.flatten())


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
