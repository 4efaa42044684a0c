"""Perfect routing tables and leaf sets: one way to fill what nodes know.

Every entry is the globally nearest node with the prefix it asks for; ties go to the numerically
smallest nodeId.  Nodes are taken in buckets that share their first p digits
(:mod:`scribe_spark.pastry.prefix_summaries`), each a task of its own: rows 0 to p - 1 are the same
for all nodes of a bucket on one router, and deeper rows only look inside the bucket.  The tables
are the same for every p.

References
----------
JSAC 2002, Section II and Figure 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.pastry.knowledge import Knowledge
from scribe_spark.pastry.layout import LAYOUT, pack
from scribe_spark.pastry.leaf_set import LeafSets
from scribe_spark.pastry.nearest_entries import nearest_entries
from scribe_spark.pastry.prefix_summaries import (
    BUCKET_SUMMARY,
    Summaries,
    prefix_digits,
    summarise_bucket,
)
from scribe_spark.pastry.ring import Ring, ring_of
from scribe_spark.pastry.routing_table import RoutingTables
from scribe_spark.runtime.blocks import read_partition
from scribe_spark.schemas import KNOWLEDGE
from scribe_spark.underlay.protocol import Kernel, Underlay

__all__ = ["PerfectTables", "bucket_knowledge", "perfect_tables"]

_NODES_AT_ONCE = 4096  # nodes whose knowledge is made and laid out at once


@dataclass(frozen=True)
class PerfectTables:
    """What nodes of perfect tables know; both tables are lazy.

    Attributes
    ----------
    packed : DataFrame
        `layout.LAYOUT`, without the knowledge ever being a table: at a million nodes that is large.
    knowledge : DataFrame
        `schemas.KNOWLEDGE`, for who asks.
    """

    packed: DataFrame
    knowledge: DataFrame


def perfect_tables(
    nodes: DataFrame, underlay: Underlay, b: int, leaf_set: int, digits: int | None = None
) -> PerfectTables:
    """Perfect tables of every node.

    Parameters
    ----------
    nodes : DataFrame
        `schemas.NODES`.
    underlay : Underlay
    b : int
        Digits are base 2**b.
    leaf_set : int
        l, even.
    digits : int, optional
        How many digits p the nodes of a bucket share; by default as many as give every core work.
    """
    kernel, routers = underlay.kernel, len(underlay.routers)
    context = nodes.sparkSession.sparkContext
    cores = context.defaultParallelism
    p = digits or prefix_digits(b, nodes.count(), routers, cores)
    bits = b * p
    prefix = F.call_function("shiftrightunsigned", "id_hi", F.lit(64 - bits))
    buckets = nodes.select("node", "id_hi", "id_lo", "router", prefix.alias("prefix"))
    tasks = min(2**bits, max(64, 4 * cores))
    buckets = buckets.repartitionById(tasks, F.pmod("prefix", F.lit(tasks)).cast("int"))
    # 1. each bucket's summary, gathered and handed to all
    summaries = buckets.mapInArrow(
        _of_buckets(
            kernel,
            bits,
            lambda prefix, ring: [
                summarise_bucket(prefix, ring, kernel, routers, leaf_set, with_delay=p > 1)
            ],
        ),
        BUCKET_SUMMARY,
    )
    gathered = summaries.toArrow().to_pylist()
    shared = context.broadcast(Summaries.of(gathered, routers, b, p))

    # 2. each bucket's nodes, with what they need of the others
    def knowledge(prefix: int, ring: Ring) -> Iterator[Knowledge]:
        return bucket_knowledge(prefix, ring, shared.value, kernel, leaf_set)

    def packed(prefix: int, ring: Ring) -> Iterator[pa.RecordBatch]:
        return (pack(block, b) for block in knowledge(prefix, ring))

    def unpacked(prefix: int, ring: Ring) -> Iterator[pa.RecordBatch]:
        return (block.to_arrow() for block in knowledge(prefix, ring))

    return PerfectTables(
        buckets.mapInArrow(_of_buckets(kernel, bits, packed), LAYOUT),
        buckets.mapInArrow(_of_buckets(kernel, bits, unpacked), KNOWLEDGE),
    )


_Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _of_buckets(
    kernel: Kernel, bits: int, make: Callable[[int, Ring], Iterable[pa.RecordBatch]]
) -> _Batches:
    """What `make` makes of each bucket of a partition; `bits` tell buckets apart."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = read_partition(batches)
        if rows is None:
            return
        for prefix, ring in split_buckets(rows, kernel, bits):
            yield from make(prefix, ring)

    return run


def split_buckets(rows: pa.Table, kernel: Kernel, bits: int) -> Iterator[tuple[int, Ring]]:
    """The prefix and the nodes (in order, with router indices) of each bucket among `rows`."""
    ring, _ = ring_of(rows, kernel)
    prefixes, starts = np.unique(ring.hi >> np.uint64(64 - bits), return_index=True)
    for prefix, start, end in zip(prefixes, starts, [*starts[1:], len(ring)], strict=True):
        yield int(prefix), ring.take(slice(start, end))


def bucket_knowledge(
    prefix: int, ring: Ring, summaries: Summaries, kernel: Kernel, leaf_set: int
) -> Iterator[Knowledge]:
    """The perfect knowledge of a bucket's nodes, some nodes at a time.

    Parameters
    ----------
    ring : Ring
        The bucket's nodes in nodeId order; routers are indices.
    leaf_set : int
        l.
    """
    # everything a node here can know is in one Ring: this bucket, entries of rows before p, leaves
    tables, entries = _tables(prefix, ring, summaries, kernel)
    leaf_sets, leaves = _leaf_sets(prefix, ring, summaries, leaf_set, len(ring) + len(entries))
    nodes = Ring.join(ring, entries, leaves)
    known = Ring(nodes.hi, nodes.lo, nodes.node, kernel.ids(nodes.router))
    for start in range(0, len(ring), _NODES_AT_ONCE):
        some = slice(start, start + _NODES_AT_ONCE)
        own = np.arange(len(ring))[some]
        yield Knowledge(known, own, leaf_sets.take(some), RoutingTables.of_dense(tables[some]))


def _tables(
    prefix: int, ring: Ring, summaries: Summaries, kernel: Kernel
) -> tuple[np.ndarray, Ring]:
    """Routing tables of a bucket's nodes: int32, shape (n, rows, 2**b), -1 for none.

    Positions below n are in `ring`, from n on in the other Ring that is returned.
    """
    here, back = np.unique(ring.router, return_inverse=True)
    shared = [summaries.siblings(prefix, row, here) for row in range(summaries.digits)]
    used, place = np.unique(np.stack(shared), return_inverse=True)
    # (the first of the sorted positions is -1: a bucket's own digit has no entry)
    entries, place = summaries.candidates.take(used[1:]), place.astype(np.int32)
    place = np.where(place > 0, place + np.int32(len(ring) - 1), np.int32(-1))
    rows = [row[:, back].T for row in place.reshape(len(shared), *shared[0].shape)]
    rows += nearest_entries(ring, summaries.digits, kernel, summaries.b)
    return np.stack(rows, axis=1), entries


def _leaf_sets(
    prefix: int, ring: Ring, summaries: Summaries, leaf_set: int, first: int
) -> tuple[LeafSets, Ring]:
    """Leaf sets of a bucket's nodes; their positions begin at `first` in the Ring returned."""
    elsewhere, beyond = summaries.others_ends(prefix)
    n, half, total = len(ring), leaf_set // 2, len(ring) + beyond
    all_others = total - 1 <= leaf_set
    if beyond <= half or all_others:  # the others' ends are all their nodes
        around, before = Ring.join(ring, elsewhere), 0
    else:
        head, tail = elsewhere.take(slice(half)), elsewhere.take(slice(-half, None))
        around, before = Ring.join(tail, ring, head), half
    smaller = total // 2 if all_others else half
    width = total - 1 if all_others else leaf_set
    steps = np.delete(np.arange(width + 1) - smaller, smaller)  # clockwise, without the node
    here = np.arange(n) + before
    leaves = first + (here[:, None] + steps) % len(around)
    return (
        LeafSets(
            np.arange(n + 1) * width,
            leaves.reshape(-1),
            np.full(n, smaller),
            np.full(n, all_others),
        ),
        around,
    )
