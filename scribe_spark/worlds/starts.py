"""The state of a world before its first round, as rows of its buckets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from scribe_spark.config import OverlayConfig
from scribe_spark.core.errors import InputError, listed
from scribe_spark.engine.buckets import BucketRing
from scribe_spark.engine.facts import bucket_bounds, distribute_facts
from scribe_spark.engine.on_spark import ROWS, Layout, pack_rows
from scribe_spark.pastry.arrivals.overlay import play_arrivals
from scribe_spark.pastry.arrivals.waves import arrival_ranks
from scribe_spark.pastry.perfect_tables import bucket_digits, perfect_states, perfect_tables
from scribe_spark.pastry.states import CELLS, LEAVES
from scribe_spark.rounds.lives import NEVER, Lives
from scribe_spark.runtime.batches import Batches, Table
from scribe_spark.runtime.blocks import materialise
from scribe_spark.runtime.sessions import local_frame, parallelism
from scribe_spark.underlay.protocol import Kernel, Underlay
from scribe_spark.worlds.save import lives_rows, no_members

#: The kinds of overlays with which a world can start.
_OVERLAYS = ("perfect", "arrivals")


def check_start(overlay: str) -> None:
    """Refuse a kind of overlay with which no world can start."""
    if overlay not in _OVERLAYS:
        remedy = f"cannot start a world; give one of {listed(_OVERLAYS)}"
        raise InputError("overlay", overlay, remedy)


def ring_of_world(nodes: Table, buckets: int, kernel: Kernel) -> BucketRing:
    """Return the ring of all nodes (`schemas.NODES`) of a world, cut into buckets."""
    facts, spark = distribute_facts(nodes, kernel), Batches.of(nodes).session
    # the cost of a superstep grows with the number of partitions, not of buckets in them
    layout = Layout(spark, buckets, parallelism(spark))
    return BucketRing(facts, bucket_bounds(facts.ring, buckets, 64), layout)


def start_rows(
    ring: BucketRing,
    initial: int,
    overlay: str | None,
    rules: OverlayConfig,
    seed: int,
    underlay: Underlay,
) -> DataFrame:
    """Return the rows of a world before its first round, materialised: `ROWS`.

    `initial` is the number of live nodes: those with the smallest numbers.  Without an overlay,
    nodes have no tables.
    """
    known, kernel = ring.facts.ring, underlay.kernel
    live, entered = np.flatnonzero(known.node < initial), np.zeros(1, dtype=np.int64)
    arrived = None
    if overlay == "arrivals":
        arrived = play_arrivals(ring, initial, kernel, rules, seed)
        tables = arrived.rows(LEAVES, CELLS)
        entered = arrival_ranks(known.take(live), seed) + 1
    elif overlay is None:
        tables = None
    elif len(ring.bounds) == 2:
        tables = _perfect_bucket(ring, initial, rules, kernel)
    else:
        cores, routers = parallelism(ring.layout.spark), len(underlay.routers)
        digits = bucket_digits(rules.b, initial, routers, cores)
        tables = perfect_tables(ring, underlay, rules.b, rules.leaf_set, digits, initial)
    lives, incarnation = Lives.of(len(known), live, entered), np.full(len(known), NEVER)
    more = pa.Table.from_batches(lives_rows(ring.bounds, lives, incarnation, 0))
    if tables is None:  # a bucket needs a table, so that Spark plays it
        tables = local_frame(ring.layout.spark, pa.Table.from_batches(no_members(ring.bounds)))
    rows, _ = materialise(tables.unionByName(local_frame(ring.layout.spark, more)))
    if arrived is not None:
        arrived.release()
    return rows


def _perfect_bucket(
    ring: BucketRing, initial: int, rules: OverlayConfig, kernel: Kernel
) -> DataFrame:
    """Return the perfect tables of a single bucket, computed by one task; lazy."""
    facts, folder = ring.facts, ring.layout.folder

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if sum(batch.num_rows for batch in batches):
            live = np.flatnonzero(facts.ring.node < initial)
            states = perfect_states(facts.ring, live, rules.leaf_set, rules.b, kernel)
            for name, columns in states.tables().items():
                yield from pack_rows(0, 0, True, name, columns, folder)

    return ring.layout.spark.range(0, 1, 1, 1).mapInArrow(run, ROWS)
