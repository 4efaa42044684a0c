"""The tables of a world that users read, declared over the rows of its buckets.

A view lists the tables of a bucket that it needs, and turns them into rows; `read_view` replaces
positions and indices by the numbers of nodes and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from scribe_spark import schemas
from scribe_spark.core.arrays import NONE, offsets_of, whole_numbers
from scribe_spark.core.keys import key_parts
from scribe_spark.core.units import MICROSECONDS
from scribe_spark.engine import Columns, Tables
from scribe_spark.engine.buckets import BucketRing, Names, arrow_schema, tables_by_bucket
from scribe_spark.engine.facts import Ring, RingInMemory
from scribe_spark.engine.program import PrefixedTables
from scribe_spark.measures.multicasts import (
    BASELINES,
    UNICAST,
    InBucket,
    MulticastMeasures,
    SystemTables,
)
from scribe_spark.pastry.knowledge import live_knowledge
from scribe_spark.pastry.round import NEW_LEAFS
from scribe_spark.pastry.states import CELLS, LEAVES, States
from scribe_spark.rounds.applications import MEMORY
from scribe_spark.rounds.events import Lives
from scribe_spark.rounds.group_events import Groups
from scribe_spark.rounds.player import TRAFFIC
from scribe_spark.rounds.system import CARRIED, DELIVERED, OF_SYSTEM
from scribe_spark.runtime.batches import Batches
from scribe_spark.systems.registry import SCRIBE
from scribe_spark.systems.scribe.state import table_of
from scribe_spark.underlay.protocol import Kernel
from scribe_spark.worlds.save import LIVES

# the tables of Scribe
_ENTRIES, _CHILDREN = (f"{SCRIBE}{OF_SYSTEM}{table_of(part)}" for part in ("entries", "children"))

#: The number of rows that a view makes in one step, if rows are large.
_AT_ONCE = 10_000


@dataclass(frozen=True)
class Bucket:
    """The data of a bucket that a view can read; its nodes are those from `first` to `last` - 1."""

    tables: Tables
    first: int
    last: int
    ring: Ring
    kernel: Kernel
    groups: np.ndarray  # the numbers of the groups, by index

    def table(self, name: str) -> Columns | None:
        """Return the table of a name; None if it has no rows in the bucket."""
        return self.tables[name] if self.tables.has_rows(name) else None

    @property
    def names(self) -> Names:
        """The numbers of nodes and groups and the ids of routers, for views."""
        return Names(RingInMemory(self.ring), self.kernel, self.groups)

    @property
    def states(self) -> States:
        """The leaf sets and routing tables of the nodes."""
        return States.of_tables(self.ring, self.first, self.tables)


@dataclass(frozen=True)
class View:
    """A table that users read: ``rows(bucket)`` yields columns for `Names.batch`, or batches.

    `tables` are the tables of a bucket that it needs; a name that ends with a space selects all
    tables with that prefix.  The rows of each batch are sorted by the columns of numbers `order`.
    """

    tables: tuple[str, ...]
    schema: StructType
    rows: Callable[[Bucket], Iterable[Mapping[str, Any] | pa.RecordBatch]]
    order: tuple[str, ...] = ()

    def batches(self, bucket: Bucket) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the view for a bucket, as record batches."""
        schema = to_arrow_schema(self.schema)
        for columns in self.rows(bucket):
            batch: Any = columns
            if not isinstance(batch, pa.RecordBatch):
                batch = bucket.names.batch(columns, schema)
            if self.order:
                keys = [batch.column(name).to_numpy() for name in self.order[::-1]]
                batch = batch.take(pa.array(np.lexsort(keys)))
            yield batch


def view(
    rows: DataFrame, ring: BucketRing, kernel: Kernel, wanted: View, groups: Groups | None = None
) -> Batches:
    """Return the rows of a view of a world's tables; without groups, an index is a number."""
    facts, bounds = ring.facts, ring.bounds
    numbers = whole_numbers() if groups is None else groups.number

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, tables in tables_by_bucket(batches).items():
            first, last = bounds[number : number + 2].tolist()
            yield from wanted.batches(Bucket(tables, first, last, facts.ring, kernel, numbers))

    name = F.col("name")
    called = name.isin([one for one in wanted.tables if not one.endswith(" ")])
    for one in wanted.tables:
        called |= name.startswith(one) if one.endswith(" ") else F.lit(False)
    found = rows.where(F.col("table") & called)
    together = ring.layout.partition(found) if len(bounds) > 2 else found.coalesce(1)
    return Batches.made(together, run, wanted.schema)


def memory_view(system: str, table: str, schema: str) -> View:
    """Return the view of a table in the memory of the applications that a system calls."""
    name = f"{system}{OF_SYSTEM}{MEMORY}{table}"
    wanted = arrow_schema(schema)

    def rows(bucket: Bucket) -> Iterator[pa.RecordBatch]:
        if (found := bucket.table(name)) is not None:
            yield pa.RecordBatch.from_pydict({one: found[one] for one in wanted.names}, wanted)

    return View((name,), from_arrow_schema(wanted), rows)


# --- nodes


def _states(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
    """Yield rows of `schemas.WORLD_STATE`."""
    ring, number = bucket.ring, np.append(bucket.ring.node, NONE).astype(np.int32)
    for first in range(bucket.first, bucket.last, _AT_ONCE):
        at = slice(first, min(first + _AT_ONCE, bucket.last))
        own = slice(at.start - bucket.first, at.stop - bucket.first)
        states = bucket.states.of(own)
        cells = states.cells.reshape(len(states.own), -1)
        filled = cells >= 0
        lengths = offsets_of(np.count_nonzero(filled, axis=1))
        where = np.broadcast_to(np.arange(cells.shape[1], dtype=np.int32), cells.shape)
        leaves = number[states.leaves]
        lives = {name: column[own] for name, column in bucket.tables[LIVES].items()}
        yield {
            "node": np.arange(at.start, at.stop),
            "id_hi": ring.hi[at].view(np.int64),
            "id_lo": ring.lo[at].view(np.int64),
            **{name: lives[name] for name in ("alive", "died", "wait", "entered")},
            "leaves": _as_bytes(leaves, np.arange(len(leaves) + 1) * leaves.shape[1]),
            "cells": _as_bytes(where[filled], lengths),
            "entries": _as_bytes(number[cells[filled]], lengths),
        }


def _as_bytes(values: np.ndarray, offsets: np.ndarray) -> pa.Array:
    """Return int32 `values` as a binary column: element i begins at ``offsets[i]``."""
    data = pa.py_buffer(np.ascontiguousarray(values, dtype="<i4"))
    starts = pa.py_buffer((offsets * 4).astype("<i4"))
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, [None, starts, data])


def _leaf_sets(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
    leaves = bucket.tables[LEAVES]["leaves"]
    half = leaves.shape[1] // 2
    at, column = np.nonzero(leaves >= 0)
    place = np.where(column < half, column + 1, half - 1 - column)
    yield {"node": at + bucket.first, "leaf": leaves[at, column], "place": place}


def _routing_table(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
    cells = bucket.tables[CELLS]["cells"]
    for first in range(0, len(cells), _AT_ONCE):
        at, row, col = np.nonzero(cells[first : first + _AT_ONCE] >= 0)
        node, entry = bucket.first + first + at, cells[first + at, row, col]
        yield {"node": node, "row": row, "col": col, "entry": entry}


def _new_leaf_sets(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
    if new := bucket.table(NEW_LEAFS):
        yield new


def messages_view(kinds: tuple[str, ...]) -> View:
    """Return the view `schemas.MESSAGES` of a round that has kept its messages of `kinds`."""

    def rows(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
        for sent in bucket.tables.values():
            yield {**sent, "kind": np.array(kinds)[sent["kind"]], "receiver": sent["to"]}

    return View((f"{TRAFFIC} ", f"{SCRIBE}{OF_SYSTEM}{TRAFFIC} "), schemas.MESSAGES, rows)


def live_knowledge_view(lives: Lives) -> View:
    """Return the view `schemas.KNOWLEDGE`: tables of live nodes, without their dead entries."""

    def rows(bucket: Bucket) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(schemas.KNOWLEDGE)
        for batch in live_knowledge(bucket.states, lives.is_alive, bucket.kernel):
            yield batch.cast(schema)

    return View((LEAVES, CELLS), schemas.KNOWLEDGE, rows)


# --- groups


def _memberships(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
    if entries := bucket.table(_ENTRIES):
        yield {**entries, **key_parts(entries["key"], ("group", "node"), len(bucket.ring))}


def _children(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
    if children := bucket.table(_CHILDREN):
        yield key_parts(children["key"], ("group", "parent", "child"), len(bucket.ring))


#: The orders of the rows of each system in the views of a round's publications.
_ORDERS = {"tree_edges": ("group", "parent", "child"), "deliveries": ("group", "node")}


def multicasts_view(
    measures: MulticastMeasures, of: SystemTables, name: str, schema: StructType
) -> View:
    """Return the view ``tree_edges`` or ``deliveries`` (`schemas.WRITTEN`) of publications of a
    round.

    It has the rows of the baselines, too.  If publications have a size, there are no deliveries by
    naive unicast, since the clock has not played its copies.
    """

    def rows(bucket: Bucket) -> Iterator[Mapping[str, Any]]:
        tables = PrefixedTables(bucket.tables, f"{of.name}{OF_SYSTEM}")
        mine = of.in_bucket(tables, len(bucket.ring))
        if name == "tree_edges":
            found = edge_columns(mine)
        else:
            found = delivery_columns(measures, mine, bucket.ring, bucket.kernel)
        yield from ({"system": system, **found[system]} for system in sorted(found))

    wanted = (of.system.member_table, DELIVERED, CARRIED)
    return View(tuple(f"{of.name}{OF_SYSTEM}{one}" for one in wanted), schema, rows, _ORDERS[name])


def edge_columns(mine: InBucket) -> dict[str, Columns]:
    """Return columns of the view ``tree_edges`` by system, for a bucket's nodes."""
    multicasts, links = mine.of.multicasts, mine.links
    which, member = mine.expected
    star = multicasts.group[which], multicasts.start[which], member
    if multicasts.are_scheduled:
        star = tuple(np.unique(np.stack(star), axis=1))
    edges = {
        mine.of.name: (links["group"], links["sender"], links["to"]),
        **dict.fromkeys(BASELINES, star),
    }
    return {
        system: {
            **dict(zip(("group", "parent", "child"), ends, strict=True)),
            "merged": np.full(len(ends[0]), system == BASELINES[0]),
        }
        for system, ends in edges.items()
    }


def delivery_columns(
    measures: MulticastMeasures, mine: InBucket, ring: Ring, kernel: Kernel
) -> dict[str, Columns]:
    """Return columns of the view ``deliveries`` by system, for a bucket's nodes."""
    multicasts, found = mine.of.multicasts, mine.reached
    which, member = mine.expected
    base_us = measures.base_us(ring, kernel, multicasts, which, member)
    direct = which, member, np.ones(len(which), dtype=np.int64), base_us
    delivered = {
        mine.of.name: (found.of, found.node, found.hops, found.delay_us),
        **dict.fromkeys(BASELINES, direct),
    }
    if measures.links is not None:
        del delivered[UNICAST]
    return {
        system: {
            "group": multicasts.group[of],
            "node": node,
            "hops": hops,
            "delay_us": delay_us,
            "delay_ms": delay_us / MICROSECONDS,
            "publication": multicasts.number[of],
        }
        for system, (of, node, hops, delay_us) in delivered.items()
    }


STATE = View((LEAVES, CELLS, LIVES), schemas.WORLD_STATE, _states)
LEAF_SETS = View((LEAVES,), schemas.LEAF_SETS, _leaf_sets)
ROUTING_TABLE = View((CELLS,), schemas.ROUTING_TABLE, _routing_table)
NEW_LEAF_SETS = View((NEW_LEAFS,), StructType([StructField("node", LongType())]), _new_leaf_sets)
MEMBERSHIPS = View((_ENTRIES,), schemas.MEMBERSHIPS, _memberships, ("group", "node"))
CHILDREN = View((_CHILDREN,), schemas.CHILDREN, _children)
