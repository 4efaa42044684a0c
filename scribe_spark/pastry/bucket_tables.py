"""Conversion of leaf sets and routing tables between a bucket's tables and `schemas.KNOWLEDGE`.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark import schemas
from scribe_spark.core.arrays import row_numbers
from scribe_spark.engine import Columns, Inbox, Outbox, Tables
from scribe_spark.engine.buckets import BucketRing, read_together
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, BucketTables, pack_rows
from scribe_spark.engine.program import AT, deliver
from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.live_knowledge import live_knowledge
from scribe_spark.pastry.states import CELLS, LEAVES, NONE, States
from scribe_spark.underlay.protocol import Kernel

#: Messages that fill the tables of nodes: a leaf set (``larger, smaller``, nearest first, padded
#: with :data:`NONE`), and an entry (``cell``: ``row * 2**b + column``, and ``entry``).
LEAF_SET, ENTRY = "leaf set", "entry"

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
    for kind, columns in ((LEAF_SET, leaf_set), (ENTRY, entries)):
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
