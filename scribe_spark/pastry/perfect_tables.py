"""Perfect routing tables and leaf sets, computed instead of grown by arrivals.

Every entry is the globally nearest node with the required prefix; ties go to the smallest nodeId.
Nodes are grouped by their first p digits (:mod:`scribe_spark.pastry.prefix_summaries`).  Rows 0 to
p - 1 are equal for all nodes with the same prefix on the same router, and deeper rows only contain
nodes of the same prefix.  The tables do not depend on p.

References
----------
JSAC 2002, Section II and Figure 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import Facts
from scribe_spark.engine.on_spark import ROWS, pack_rows
from scribe_spark.engine.ring import Ring
from scribe_spark.pastry.leaf_set import ring_leaves
from scribe_spark.pastry.nearest_entries import fill_entries, nearest_entries, shared_with_next
from scribe_spark.pastry.prefix_summaries import (
    BUCKET_SUMMARY,
    Summaries,
    summarise_bucket,
)
from scribe_spark.pastry.states import NONE, States
from scribe_spark.runtime.distribute import share
from scribe_spark.underlay.protocol import Kernel, Underlay


def perfect_tables(
    ring: BucketRing,
    underlay: Underlay,
    b: int,
    leaf_set: int,
    digits: int,
    initial: int | None = None,
) -> DataFrame:
    """Return the tables `LEAVES` and `CELLS` of every bucket: `ROWS`; lazy.

    A task reads the facts of all nodes and its own bucket's tables.  A prefix has `digits` digits.
    If `initial` is given, only nodes with smaller numbers exist at the start, and the others have
    empty rows.
    """
    facts, bounds, kernel, routers = ring.facts, ring.bounds, underlay.kernel, len(underlay.routers)
    spark, folder, bits = ring.layout.spark, ring.layout.folder, b * digits

    # 1. summarise each prefix in the bucket of its first node; share all summaries
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

    # 2. compute the tables of each bucket
    def known(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        positions, live, first = _live_ring(facts, bounds, initial)
        for batch in batches:
            for bucket in batch.column("bucket").to_pylist():
                parts = _whole_prefixes(live, first, bucket, bits)
                states = known_of_prefixes(live, parts, shared.value, kernel, b, leaf_set)
                start, stop = (int(place) - states.first for place in first[bucket : bucket + 2])
                states = states.of(slice(start, stop))
                if positions is not None:
                    own = np.arange(*bounds[bucket : bucket + 2])
                    states = _among_all(
                        states, positions, States.empty(facts.ring, own, leaf_set, b)
                    )
                for name, columns in states.tables().items():
                    yield from pack_rows(bucket, bucket, True, name, columns, folder)

    return ring.each_bucket().mapInArrow(known, ROWS)


def _live_ring(
    facts: Facts, bounds: np.ndarray, initial: int | None
) -> tuple[np.ndarray | None, Ring, np.ndarray]:
    """Return the positions of existing nodes, their ring, and each bucket's start in that ring.

    The positions are None if all nodes exist.
    """
    if initial is None:
        return None, facts.ring, bounds
    positions = np.flatnonzero(facts.ring.node < initial)
    live = facts.ring if len(positions) == len(facts.ring) else facts.ring.take(positions)
    return positions, live, np.searchsorted(positions, bounds)


def _whole_prefixes(
    live: Ring, first: np.ndarray, bucket: int, bits: int
) -> list[tuple[int, int, int]]:
    """Return all prefixes that overlap a bucket, uncut, in the form of :func:`prefixes`."""
    start, stop = first[bucket : bucket + 2]
    if start == stop:
        return []
    shift = np.uint64(64 - bits)
    least, most = live.hi[start] >> shift << shift, live.hi[stop - 1] | ~(~np.uint64(0) << shift)
    start, stop = np.searchsorted(live.hi, least), np.searchsorted(live.hi, most, side="right")
    return list(prefixes(live, np.array([start, stop]), 0, bits))


def _among_all(live: States, positions: np.ndarray, states: States) -> States:
    """Copy the tables of live nodes (at `positions`) into the empty states of a bucket's nodes."""
    index = positions[live.own] - states.first
    named = np.append(positions, NONE).astype(np.int32)  # index NONE yields NONE
    states.leaves[index] = named[live.leaves]
    states.cells[index, : live.cells.shape[1]] = named[live.cells]
    return states


def prefixes(
    ring: Ring, bounds: np.ndarray, bucket: int, bits: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the prefixes in a bucket that have nodes.

    Each item is the prefix, the position of its first node, and the position after its last node.
    """
    start, stop = int(bounds[bucket]), int(bounds[bucket + 1])
    prefixes, first = np.unique(ring.hi[start:stop] >> np.uint64(64 - bits), return_index=True)
    last = np.r_[first[1:], stop - start][: len(first)]
    for prefix, a, z in zip(prefixes.tolist(), first.tolist(), last.tolist(), strict=True):
        yield prefix, start + a, start + z


def known_of_prefixes(
    ring: Ring,
    prefixes: list[tuple[int, int, int]],
    summaries: Summaries,
    kernel: Kernel,
    b: int,
    leaf_set: int,
) -> States:
    """Return the tables of the nodes of consecutive prefixes (:func:`prefixes`)."""
    first, last = (prefixes[0][1], prefixes[-1][2]) if prefixes else (0, 0)
    shared = shared_with_next(ring.take(slice(first, last)), b)
    rows = max(summaries.digits, int(shared.max(initial=0)) + 1)
    cells = np.full((last - first, rows, 2**b), NONE, dtype=np.int32)
    for prefix, start, stop in prefixes:
        part, own = ring.take(slice(start, stop)), cells[start - first : stop - first]
        here, back = np.unique(part.router, return_inverse=True)
        for row in range(summaries.digits):
            own[:, row] = summaries.siblings(prefix, row, here)[:, back].T
        within = shared[start - first : stop - first - 1]
        fill_entries(part, summaries.digits, kernel, within, own[:, summaries.digits :], start)
    leaves = ring_leaves(np.arange(first, last), leaf_set // 2, len(ring))
    return States(ring, np.arange(first, last), leaves, cells)


def perfect_states(known: Ring, live: np.ndarray, leaf_set: int, b: int, kernel: Kernel) -> States:
    """Return the states of all nodes, of which the live ones (ascending) have perfect tables."""
    states = States.empty(known, np.arange(len(known)), leaf_set, b)
    named = np.append(live, NONE)  # index NONE yields NONE
    leaves = ring_leaves(np.arange(len(live)), leaf_set // 2, len(live))
    states.leaves[live] = named[leaves]
    for row, entries in enumerate(nearest_entries(known.take(live), 0, kernel, b)):
        states.cells[live, row] = named[entries]
    return states
