"""A world that begins with perfect tables: each cell the nearest node, each leaf set the ring's.

References
----------
JSAC 2002, Section II.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine import Columns
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, pack_row
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.arrivals.states import NONE, States
from scribe_spark.pastry.arrivals.wave import CELLS, LEAVES
from scribe_spark.pastry.leaf_set_order import ring_leaves
from scribe_spark.pastry.nearest_entries import nearest_entries
from scribe_spark.pastry.overlay_state import OverlayState
from scribe_spark.pastry.perfect_tables import known_of_bucket, prefixes
from scribe_spark.pastry.prefix_summaries import (
    BUCKET_SUMMARY,
    Summaries,
    bucket_digits,
    summarise_bucket,
)
from scribe_spark.runtime.distribute import share
from scribe_spark.runtime.sessions import parallelism
from scribe_spark.underlay.protocol import Kernel, Underlay

__all__ = ["perfect_buckets", "perfect_start"]


def perfect_start(
    known: Ring, live: np.ndarray, leaf_set: int, b: int, kernel: Kernel
) -> OverlayState:
    """The overlay of perfect tables.

    Parameters
    ----------
    known : Ring
        All nodes of the world in the order of their nodeIds; routers are indices.
    live : ndarray of int64
        Positions of those that are there from the start, ascending.
    leaf_set : int
        l, even.
    """
    states = States.empty(known, np.arange(len(known)), leaf_set, b)
    named = np.append(live, NONE)  # what NONE indexes is NONE
    leaves = ring_leaves(np.arange(len(live)), leaf_set // 2, len(live))
    states.leaves[live] = named[leaves]
    for row, entries in enumerate(nearest_entries(known.take(live), 0, kernel, b)):
        states.cells[live, row] = named[entries]
    return OverlayState.of(states, live)


def perfect_buckets(
    ring: BucketRing, initial: int, leaf_set: int, b: int, underlay: Underlay
) -> DataFrame:
    """The same tables bucket by bucket: `ROWS` of `LEAVES` and `CELLS`, lazy.

    A task sees the facts and its own bucket's tables.

    Parameters
    ----------
    initial : int
        The nodes with smaller numbers are there from the start.
    """
    facts, bounds, kernel, routers = ring.facts, ring.bounds, underlay.kernel, len(underlay.routers)
    spark, folder = ring.layout.spark, ring.layout.folder
    digits = bucket_digits(b, initial, routers, parallelism(spark))
    bits = b * digits

    # 1. the summary of each prefix, made where its first node is
    def summaries(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        live, first = _live_ring(facts, bounds, initial)[1:]
        for batch in batches:
            for bucket in batch.column("bucket").to_pylist():
                for prefix, start, stop in _whole_prefixes(live, first, bucket, bits):
                    if start >= first[bucket]:
                        part = live.take(slice(start, stop))
                        yield summarise_bucket(prefix, start, part, kernel, routers, digits > 1)

    gathered = ring.each_bucket().mapInArrow(summaries, BUCKET_SUMMARY).toArrow().to_pylist()
    shared = share(spark, Summaries.of(gathered, routers, b, digits))

    # 2. what the nodes of each bucket know
    def known(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        positions, live, first = _live_ring(facts, bounds, initial)
        for batch in batches:
            for bucket in batch.column("bucket").to_pylist():
                states = States.empty(
                    facts.ring, np.arange(*bounds[bucket : bucket + 2]), leaf_set, b
                )
                parts = _whole_prefixes(live, first, bucket, bits)
                table = known_of_bucket(live, parts, shared.value, kernel, b, leaf_set)
                _fill(states, table, positions, parts, first[bucket : bucket + 2])
                for name, columns in (
                    (LEAVES, {"leaves": states.leaves}),
                    (CELLS, {"cells": states.cells}),
                ):
                    yield pack_row(bucket, bucket, True, name, columns, folder)

    return ring.each_bucket().mapInArrow(known, ROWS)


def _live_ring(
    facts: Facts, bounds: np.ndarray, initial: int
) -> tuple[np.ndarray, Ring, np.ndarray]:
    """Positions of the nodes that are there, their ring, and where each bucket begins in it."""
    positions = np.flatnonzero(facts.ring.node < initial)
    live = facts.ring if len(positions) == len(facts.ring) else facts.ring.take(positions)
    return positions, live, np.searchsorted(positions, bounds)


def _whole_prefixes(
    live: Ring, first: np.ndarray, bucket: int, bits: int
) -> list[tuple[int, int, int]]:
    """Return the prefixes of which some nodes are in a bucket; as `prefixes`, whole."""
    start, stop = first[bucket : bucket + 2]
    if start == stop:
        return []
    shift = np.uint64(64 - bits)
    least, most = live.hi[start] >> shift << shift, live.hi[stop - 1] | ~(~np.uint64(0) << shift)
    start, stop = np.searchsorted(live.hi, least), np.searchsorted(live.hi, most, side="right")
    return list(prefixes(live, np.array([start, stop]), 0, bits))


def _fill(
    states: States,
    table: Columns,
    positions: np.ndarray,
    parts: list[tuple[int, int, int]],
    own: np.ndarray,
) -> None:
    """Write the tables of live nodes into those of a bucket.

    Parameters
    ----------
    table : Columns
        `KNOWN` of the nodes of some whole prefixes, by their places among the live nodes.
    positions : ndarray of int64
        Of the live nodes.
    own : (int, int)
        The places of the bucket's first live node, and after its last.
    """
    if not parts:
        return
    some = slice(own[0] - parts[0][1], own[1] - parts[0][1])
    index = positions[own[0] : own[1]] - states.first
    named = np.append(positions, NONE).astype(np.int32)  # what NONE indexes is NONE
    cells = table["cells"][some]
    states.leaves[index] = named[table["leaves"][some]]
    states.cells[index, : cells.shape[1]] = named[cells]
